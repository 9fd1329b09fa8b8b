/* command.h: the command line of rtl-attach for one recording. */
#ifndef RTL_COMMAND_H
#define RTL_COMMAND_H

#define ARGUMENTS_MAX 128
#define TEXT_MAX 8192

struct command {
	const char *argv[ARGUMENTS_MAX + 1];
	int argc;
	char text[TEXT_MAX]; /* of the arguments that are not constants */
	int used;
	int overflow; /* the environment has more than fits */
};

/* Makes the command line from this process's environment. notify is the descriptor that the command gets. */
void command_make(struct command *, int pid, int tree, int notify);

/* Writes the path of the command, or its name if only PATH has it. */
void command_path(char *path, int size);

#endif
