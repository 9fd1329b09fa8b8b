/* zombie.c: the leader ends, another thread goes on and answers. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *rest(void *leader)
{
	char c;

	pthread_join(*(pthread_t *)leader, NULL);
	puts("ready");
	fflush(stdout);
	while (read(0, &c, 1) == 1) {
		puts("here");
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
