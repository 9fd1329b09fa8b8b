/* hostile_scribble.c: loaded into a process beside a payload, it writes random
 * words into the payload's control block and ring, other ones for each
 * HOSTILE_SEED. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t x;

static uint64_t noise(void)
{
	x ^= x << 13;
	x ^= x >> 7;
	return x ^= x << 17;
}

static void spoil(const char *line)
{
	unsigned long lo, hi;

	if (!strstr(line, " rw-s ") || (!strstr(line, "rtl-control") && !strstr(line, "rtl-ring")))
		return;
	if (sscanf(line, "%lx-%lx", &lo, &hi) != 2)
		return;
	/* The first page holds what both sides go by. */
	for (int i = 0; i < 4; i++)
		((uint64_t *)lo)[noise() % (i % 2 ? 512 : (hi - lo) / 8)] = noise() >> (noise() % 64);
}

static void *work(void *arg)
{
	for (;;) {
		FILE *f = fopen("/proc/self/maps", "r");
		char line[512];

		while (f && fgets(line, sizeof line, f))
			spoil(line);
		if (f)
			fclose(f);
		nanosleep(&(struct timespec){0, 2000000}, NULL);
	}
	return arg;
}

__attribute__((constructor)) static void begin(void)
{
	const char *seed = getenv("HOSTILE_SEED");
	pthread_t id;

	x = 88172645463325252u ^ (seed ? strtoull(seed, NULL, 10) : 0);
	pthread_create(&id, NULL, work, NULL);
}
