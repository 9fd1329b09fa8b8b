/* zombie.c: the leader ends, another thread goes on, and answers letters with the
 * harm that it has noticed. "zombie late": the leader ends at a letter, and at another
 * one the thread after it, before that. Each says "ready" when it waits for one. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checked.h"

static void ready(void)
{
	puts("ready");
	fflush(stdout);
}

static void *next(void *leader)
{
	char c;

	pthread_join(*(pthread_t *)leader, NULL);
	ready();
	return read(0, &c, 1) == 1 ? leader : NULL;
}

static void *rest(void *before)
{
	uint64_t harm = 0;
	char c;

	pthread_join(*(pthread_t *)before, NULL);
	ready();
	while (checked_letter(&c, &harm) == 1) {
		printf("harm %lu\n", harm);
		fflush(stdout);
	}
	exit(0);
}

int main(int argc, char **argv)
{
	static pthread_t leader, second;
	int late = argc > 1 && !strcmp(argv[1], "late");
	pthread_t id;
	char c;

	leader = pthread_self();
	if (late && pthread_create(&second, NULL, next, &leader))
		return 2;
	if (pthread_create(&id, NULL, rest, late ? &second : &leader))
		return 2;
	if (late) {
		ready();
		if (read(0, &c, 1) != 1)
			return 0;
	}
	pthread_exit(NULL);
}
