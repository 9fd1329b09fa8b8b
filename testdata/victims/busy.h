/* busy.h: what the files of the busy victim share. */
#ifndef BUSY_H
#define BUSY_H

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "checked.h"

struct thread {
	const char *kind;
	int tid;
	_Atomic int ready; /* has all its descriptors */
	_Atomic uint64_t beats, harm, eintr, mask, early, late_ns;
	void (*wake)(struct thread *); /* out of a wait without end, to look at itself */
	int wake_fd;
	uint32_t word;
	stack_t alternate; /* as it must be found */
	pthread_t id;
};

enum { THREADS_MAX = 64, MILLI = 1000000 };
extern struct thread threads[THREADS_MAX];
extern int thread_count;

struct kind {
	const char *name;
	void (*run)(struct thread *);
};
extern const struct kind loop_kinds[], wait_kinds[], signal_kinds[], stack_kinds[]; /* end with a null name */

/* Signals that were sent and that arrived; expirations of a timer. */
extern _Atomic uint64_t rt_sent, rt_got, timer_ticks, timer_due;
extern _Atomic int lull; /* no storm while this is set: all must arrive */
extern _Atomic int sending; /* storms that have seen that it is not set, and send one more */

uint64_t now(void);

/* One wait, with everything checked around it. */
long wait6(struct thread *t, long nr, long a, long b, long c, long d, long e, long f);
#define WAIT(t, nr, a, b, c, d) wait6(t, nr, (long)(a), (long)(b), (long)(c), (long)(d), 8, 0)

/* A wait that must last one millisecond at least. */
#define WAIT_1MS(t, nr, a, b, c, d)                     \
	do {                                            \
		uint64_t begin = now(), took;           \
		WAIT(t, nr, a, b, c, d);                \
		took = now() - begin;                   \
		t->early += took < MILLI * 98 / 100;    \
		if (took > MILLI && took - MILLI > t->late_ns) \
			t->late_ns = took - MILLI;      \
	} while (1)

void kind_futex(struct thread *t);
void wake_futex(struct thread *t);
void kind_sleep(struct thread *t);

/* Runs fn on a stack that is neither libc's nor the kernel's. */
void on_coroutine(void *(*fn)(void *), void *arg);

#endif
