/* zombie.c: the leader ends, another thread goes on, and answers letters with the
 * harm that it has noticed. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "checked.h"

static void *rest(void *leader)
{
	uint64_t harm = 0;
	char c;

	pthread_join(*(pthread_t *)leader, NULL);
	puts("ready");
	fflush(stdout);
	while (checked_letter(&c, &harm) == 1) {
		printf("harm %lu\n", harm);
		fflush(stdout);
	}
	exit(0);
}

int main(void)
{
	static pthread_t leader;
	pthread_t id;

	leader = pthread_self();
	if (pthread_create(&id, NULL, rest, &leader))
		return 2;
	pthread_exit(NULL);
}
