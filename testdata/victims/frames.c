/*
 * frames.c: threads that are inside a known piece of code in every way, and
 * one that only was. The answer to any letter is one line:
 *
 *   start end of the code, then the thread ids: spinning inside; in a signal
 *   handler above it; in a system call below it; outside, with stale return
 *   addresses on its stack; outside by the PLT, in a loop of short calls
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define INSIDE __attribute__((section("inside_code"), noinline))
extern char __start_inside_code[], __stop_inside_code[];

static volatile int forever = 1;
static _Atomic int tids[5], ready;
static int never[2];

static void wait_in_read(void)
{
	char c;

	ready++;
	if (read(never[0], &c, 1))
		abort();
}

INSIDE static long spin_inside(long n)
{
	ready++;
	while (forever)
		n++;
	return n;
}

INSIDE static long call_inside(void (*fn)(void))
{
	volatile char room[64] = {0};

	fn();
	return room[0];
}

INSIDE static long recurse_inside(int depth)
{
	volatile long room[8] = {depth};
	long below = depth ? recurse_inside(depth - 1) : 0;

	room[1] = below; /* no tail call */
	return room[0];
}

static void handler(int sig)
{
	(void)sig;
	ready++;
	while (forever)
		;
}

static void raise_it(void)
{
	syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1);
}

/* The frame that leaves the old return addresses where they are. */
__attribute__((noinline)) static void sit_on_stale(void)
{
	volatile char room[2048];

	room[0] = 0;
	wait_in_read();
	room[1] = room[0];
}

static void *run(void *arg)
{
	long which = (long)arg;

	tids[which] = (int)syscall(SYS_gettid);
	switch (which) {
	case 0:
		spin_inside(0);
		break;
	case 1:
		call_inside(raise_it);
		break;
	case 2:
		call_inside(wait_in_read);
		break;
	case 3:
		recurse_inside(60);
		sit_on_stale();
		break;
	case 4:
		ready++;
		while (forever)
			tids[4] += getppid() < 0;
	}
	return NULL;
}

int main(void)
{
	char c;

	signal(SIGUSR1, handler);
	if (pipe(never))
		return 2;
	for (long i = 0; i < 5; i++) {
		pthread_t id;

		if (pthread_create(&id, NULL, run, (void *)i))
			return 2;
	}
	while (ready < 5)
		usleep(1000);
	puts("ready");
	fflush(stdout);
	while (read(0, &c, 1) == 1) {
		printf("%lx %lx %d %d %d %d %d\n", (unsigned long)__start_inside_code, (unsigned long)__stop_inside_code,
		       tids[0], tids[1], tids[2], tids[3], tids[4]);
		fflush(stdout);
	}
	return 0;
}
