/*
 * rocattach.c: AMD's functions for an attach, by the command rtl-attach. The command is a child of this process,
 * connected by a socket: it writes "attached", "failed CODE TEXT" and "ended CODE", and ends the recording when this
 * end of the socket is closed, also by the end of this process.
 */
#define _GNU_SOURCE
#include "rocattach.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "command.h"

#define EXPORTED __attribute__((visibility("default")))
#define SESSIONS_MAX 64
#define LINE_MAX_BYTES 4096
#define NOTIFY_FD 3

enum {
	ATTACH_SECONDS = 120,
	DETACH_SECONDS = 600, /* it may export a long recording */
};

/* Exit codes of rtl-attach (README) that are no errors of an attach. */
enum { CODE_OK = 0, CODE_NOT_PERMITTED = 3, CODE_TARGET_EXITED = 5, CODE_NOTHING_SEEN = 7 };

struct recording {
	int pid;  /* 0: this entry is free */
	int tree; /* begun by rocattach_attach_tree */
	pid_t command;
	int socket;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct recording recordings[SESSIONS_MAX];
static pid_t owner;       /* a forked child has none of these */
static int last_attached; /* by attach() */
static char error_text[LINE_MAX_BYTES];

static rocattach_status_t fail(rocattach_status_t status, const char *text)
{
	snprintf(error_text, sizeof(error_text), "%s", text);
	return status;
}

static struct recording *find(int pid)
{
	if (owner != getpid()) {
		memset(recordings, 0, sizeof(recordings));
		owner = getpid();
	}
	for (int i = 0; i < SESSIONS_MAX; i++)
		if (recordings[i].pid == pid)
			return &recordings[i];
	return NULL;
}

static long long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

/* Reads one line; -1: there is none before the deadline, or the command has ended. */
static int read_line(int fd, char *line, int seconds)
{
	long long until = now_ms() + seconds * 1000LL;
	int n = 0;

	for (;;) {
		struct pollfd ready = {fd, POLLIN, 0};
		long long left = until - now_ms();
		int got = left > 0 ? poll(&ready, 1, (int)left) : 0;

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return -1;
		if (read(fd, line + n, 1) != 1)
			return -1;
		if (line[n] == '\n') {
			line[n] = 0;
			return n;
		}
		if (n < LINE_MAX_BYTES - 1)
			n++;
	}
}

static int start(struct command *c, int socket, pid_t *pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, defaults;
	char path[4096];
	int error;

	command_path(path, sizeof(path));
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, socket, NOTIFY_FD);
	for (int fd = 0; fd < NOTIFY_FD; fd++)
		posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
	posix_spawn_file_actions_addclosefrom_np(&actions, NOTIFY_FD + 1);
	sigemptyset(&none);
	sigfillset(&defaults);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &defaults);
	/* In a group of its own: a Ctrl-C is this process's, which decides when to detach. */
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
	error = posix_spawnp(pid, path, &actions, &attributes, (char *const *)c->argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return error;
}

/* Ends the command, which nothing keeps from ending by now, and forgets the recording. */
static void forget(struct recording *r, int hangs)
{
	close(r->socket);
	if (hangs)
		kill(r->command, SIGKILL); /* without a recorder the payload detaches by itself */
	while (waitpid(r->command, NULL, 0) < 0 && errno == EINTR)
		;
	memset(r, 0, sizeof(*r));
}

static rocattach_status_t status_of(int code)
{
	return code == CODE_NOT_PERMITTED ? ROCATTACH_STATUS_ERROR_PTRACE_OPERATION_NOT_PERMITTED : ROCATTACH_STATUS_ERROR;
}

static rocattach_status_t begin(int pid, int tree)
{
	struct recording *r = NULL;
	char line[LINE_MAX_BYTES] = "";
	struct command *c;
	int ends[2], error, code = -1, text = 0;

	if (pid <= 0 || find(pid))
		return fail(ROCATTACH_STATUS_ERROR_INVALID_ARGUMENT, pid <= 0 ? "not a pid" : "this process is attached to already");
	r = find(0);
	c = malloc(sizeof(*c));
	if (!r || !c || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
		free(c);
		return fail(ROCATTACH_STATUS_ERROR, "no memory, or no descriptor");
	}
	command_make(c, pid, tree, NOTIFY_FD);
	error = c->overflow ? E2BIG : start(c, ends[1], &r->command);
	free(c);
	close(ends[1]);
	if (error) {
		close(ends[0]);
		return fail(ROCATTACH_STATUS_ERROR, error == E2BIG ? "the environment's ROCP variables are too long" : "the command rtl-attach cannot be started (RTL_ATTACH_COMMAND names it)");
	}
	r->socket = ends[0];
	if (read_line(r->socket, line, ATTACH_SECONDS) >= 0 && !strcmp(line, "attached")) {
		r->pid = pid;
		r->tree = tree;
		error_text[0] = 0;
		return ROCATTACH_STATUS_SUCCESS;
	}
	error = sscanf(line, "failed %d %n", &code, &text) != 1;
	forget(r, error);
	return fail(error ? ROCATTACH_STATUS_ERROR : status_of(code), error ? "rtl-attach has not answered" : line + text);
}

static rocattach_status_t end(struct recording *r)
{
	char line[LINE_MAX_BYTES] = "";
	int code = -1, hangs;

	shutdown(r->socket, SHUT_WR);
	hangs = read_line(r->socket, line, DETACH_SECONDS) < 0;
	sscanf(line, "ended %d", &code);
	forget(r, hangs);
	if (code == CODE_OK || code == CODE_TARGET_EXITED || code == CODE_NOTHING_SEEN)
		return ROCATTACH_STATUS_SUCCESS;
	return fail(ROCATTACH_STATUS_ERROR, hangs ? "rtl-attach did not end" : "rtl-attach could not end the recording as it should");
}

static rocattach_status_t end_of(int pid)
{
	struct recording *r = pid > 0 ? find(pid) : NULL;

	return r ? end(r) : fail(ROCATTACH_STATUS_ERROR_INVALID_ARGUMENT, "this process is not attached to");
}

static rocattach_status_t end_all(void)
{
	rocattach_status_t status = ROCATTACH_STATUS_SUCCESS, one;

	find(0);
	for (int i = 0; i < SESSIONS_MAX; i++)
		if (recordings[i].pid && (one = end(&recordings[i])))
			status = one;
	return status;
}

#define LOCKED(call)                                                                                                   \
	({                                                                                                             \
		rocattach_status_t result;                                                                             \
		pthread_mutex_lock(&lock);                                                                             \
		result = (call);                                                                                       \
		pthread_mutex_unlock(&lock);                                                                           \
		result;                                                                                                \
	})

EXPORTED rocattach_status_t rocattach_attach(int pid) { return LOCKED(begin(pid, 0)); }
EXPORTED rocattach_status_t rocattach_attach_tree(int pid) { return LOCKED(begin(pid, 1)); }
EXPORTED rocattach_status_t rocattach_detach(int pid) { return LOCKED(pid ? end_of(pid) : end_all()); }
EXPORTED rocattach_status_t rocattach_detach_tree(int pid) { return LOCKED(end_of(pid)); }

EXPORTED void attach(uint32_t pid)
{
	if (rocattach_attach((int)pid) == ROCATTACH_STATUS_SUCCESS)
		last_attached = (int)pid;
}

EXPORTED void detach(void)
{
	rocattach_detach_tree(last_attached);
	last_attached = 0;
}

EXPORTED const char *rtl_rocattach_error(void) { return error_text; }

static const struct {
	const char *name, *text;
} statuses[ROCATTACH_STATUS_LAST] = {
	{"ROCATTACH_STATUS_SUCCESS", "Success"},
	{"ROCATTACH_STATUS_ERROR", "General error"},
	{"ROCATTACH_STATUS_ERROR_INVALID_ARGUMENT", "Invalid function argument"},
	{"ROCATTACH_STATUS_ERROR_NOT_SUPPORTED", "Attachment not supported on this platform"},
	{"ROCATTACH_STATUS_ERROR_PTRACE_ERROR", "General ptrace error"},
	{"ROCATTACH_STATUS_ERROR_PTRACE_OPERATION_NOT_PERMITTED", "Operation not permitted"},
	{"ROCATTACH_STATUS_ERROR_PTRACE_PROCESS_NOT_FOUND", "No such process"},
};

EXPORTED const char *rocattach_get_status_name(rocattach_status_t status)
{
	return (unsigned)status < ROCATTACH_STATUS_LAST ? statuses[status].name : NULL;
}

EXPORTED const char *rocattach_get_status_string(rocattach_status_t status)
{
	return (unsigned)status < ROCATTACH_STATUS_LAST ? statuses[status].text : NULL;
}

/* Of AMD's interface. */
enum { MAJOR = 1, MINOR = 0, PATCH = 0 };

EXPORTED rocattach_status_t rocattach_get_version(uint32_t *major, uint32_t *minor, uint32_t *patch)
{
	if (major)
		*major = MAJOR;
	if (minor)
		*minor = MINOR;
	if (patch)
		*patch = PATCH;
	return ROCATTACH_STATUS_SUCCESS;
}

EXPORTED rocattach_status_t rocattach_get_version_triplet(rocattach_version_triplet_t *info)
{
	return rocattach_get_version(&info->major, &info->minor, &info->patch);
}
