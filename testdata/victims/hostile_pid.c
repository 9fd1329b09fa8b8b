/*
 * hostile_pid.c: its child gives its number away. The number is printed; a letter
 * on standard input makes another, innocent process take it after as many
 * milliseconds as the next number says. Then it tells how that one is:
 * "threads N traced N maps N".
 */
#define _GNU_SOURCE
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rocm.h"

static void *idle(void *arg)
{
	pause();
	return arg;
}

/* Ends with its parent, which may have gone already. */
static void end_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
}

static void child(pid_t parent)
{
	pthread_t id;

	end_with(parent);
	look_like_rocm();
	pthread_create(&id, NULL, idle, NULL);
	for (;;)
		pause();
}

static unsigned count(pid_t pid, const char *what, bool (*is_it)(const char *line))
{
	char path[64], line[512];
	unsigned n = 0;

	snprintf(path, sizeof path, "/proc/%d/%s", pid, what);
	FILE *f = fopen(path, "r");

	while (f && fgets(line, sizeof line, f))
		n += is_it(line);
	if (f)
		fclose(f);
	return n;
}

static bool is_lone_thread(const char *line) { return !strcmp(line, "Threads:\t1\n"); }
static bool is_traced(const char *line) { return !strncmp(line, "TracerPid:", 10) && strcmp(line, "TracerPid:\t0\n"); }

/* The bootstrap's page, and the files that it and the payload map. */
static bool is_of_the_tool(const char *line)
{
	return strstr(line, "memfd:rtl-") || (strstr(line, "5254000-") && strstr(line, "5255000 r-xp"));
}

int main(void)
{
	pid_t self = getpid(), victim = fork(), heir;
	struct clone_args again = {.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&victim, .set_tid_size = 1};
	unsigned delay;

	if (!victim)
		child(self);
	printf("ready\n%d\n", victim);
	fflush(stdout);
	if (scanf("%u", &delay) != 1)
		return 1;
	nanosleep(&(struct timespec){0, delay * 1000000L}, NULL);
	kill(victim, SIGKILL);
	waitpid(victim, NULL, 0);
	heir = (pid_t)syscall(SYS_clone3, &again, sizeof again);
	if (heir == 0) {
		end_with(self);
		for (;;)
			pause();
	}
	if (heir != victim) {
		puts("no such number");
		return 0;
	}
	if (scanf("%u", &delay) != 1) /* the tool has ended */
		return 1;
	printf("threads %u traced %u maps %u\n", count(heir, "status", is_lone_thread), count(heir, "status", is_traced),
	       count(heir, "maps", is_of_the_tool));
	fflush(stdout);
	kill(heir, SIGKILL);
	waitpid(heir, NULL, 0);
	return 0;
}
