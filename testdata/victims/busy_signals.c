/* busy_signals.c: threads that send signals, and that wait for some. */
#include "busy.h"

#include <linux/futex.h>

/* A signal with a value, sent by a timer-like partner: all must arrive. */
_Atomic uint64_t rt_sent, rt_got, timer_ticks, timer_due;
_Atomic int lull, sending;
static void on_rt(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	rt_got += info->si_value.sival_int == 7;
}

static void handle_rt(void)
{
	struct sigaction sa = {.sa_sigaction = on_rt, .sa_flags = SA_SIGINFO | SA_RESTART};

	sigaction(SIGRTMIN + 7, &sa, NULL);
}

/* As many signals as can be had, to each thread in turn. */
static void kind_storm(struct thread *t)
{
	const union sigval value = {.sival_int = 7};

	handle_rt();
	t->ready = 1;
	for (int i = 0;; i = (i + 1) % thread_count) {
		sending++;
		if (lull || rt_sent - rt_got > 256) { /* a process may have only so many pending */
			sending--;
			sched_yield();
			i--;
			continue;
		}
		if (threads[i].ready && !pthread_sigqueue(threads[i].id, SIGRTMIN + 7, value))
			rt_sent++;
		sending--;
		t->beats++;
	}
}

static void on_timer(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	timer_ticks += 1 + (uint64_t)info->si_overrun;
}

/* A timer of 10 kHz: each expiration is a signal, or is told with one. */
static void kind_timer(struct thread *t)
{
	struct sigaction sa = {.sa_sigaction = on_timer, .sa_flags = SA_SIGINFO | SA_RESTART};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 8};
	const struct itimerspec every = {{0, 100000}, {0, 100000}};
	timer_t timer;
	uint64_t begin;

	sigaction(SIGRTMIN + 8, &sa, NULL);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &every, NULL))
		abort();
	begin = now();
	t->ready = 1;
	for (;;) {
		const struct timespec pause_ns = {0, MILLI};

		nanosleep(&pause_ns, NULL);
		timer_due = (now() - begin) / 100000;
		t->beats++;
	}
}

static _Atomic uint64_t traps;
static void on_trap(int sig)
{
	traps += sig == SIGTRAP;
}

static void kind_trapignored(struct thread *t)
{
	signal(SIGTRAP, SIG_IGN);
	kind_sleep(t);
}

static void kind_trapblocked(struct thread *t)
{
	const uint64_t trap = 1ull << (SIGTRAP - 1);

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &trap, NULL, sizeof(trap));
	kind_sleep(t);
}

/* Its own traps arrive, and no other ones. */
static void kind_traphandled(struct thread *t)
{
	const struct timespec pause_ns = {0, MILLI};

	signal(SIGTRAP, on_trap);
	t->ready = 1;
	for (uint64_t sent = 0;;) {
		raise(SIGTRAP);
		t->harm += traps != ++sent;
		nanosleep(&pause_ns, NULL);
		t->beats++;
	}
}

static void kind_sigsuspend(struct thread *t)
{
	uint64_t own = 1ull << (SIGUSR2 - 1), during = 0;

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &own, NULL, sizeof(own));
	t->ready = 1;
	for (;;) {
		const long args[6] = {(long)&during, sizeof(during)};
		uint64_t harm = 0, mask = mask_now();

		checked_syscall(SYS_rt_sigsuspend, args, &harm);
		t->harm += harm;
		t->mask += mask != mask_now();
		t->beats++;
	}
}

static void on_wake(int sig)
{
	(void)sig;
}

/* There is no SA_RESTART. */
static void heed_wake(void)
{
	const struct sigaction sa = {.sa_handler = on_wake};

	sigaction(SIGRTMIN + 6, &sa, NULL);
}

/* A beat for each signal that has ended the wait. */
static void kind_pause(struct thread *t)
{
	heed_wake();
	t->ready = 1;
	for (;;) {
		pause();
		t->beats++;
	}
}

/* Woken once, it waits in another call. */
static void kind_futexpause(struct thread *t)
{
	heed_wake();
	t->wake = wake_futex;
	WAIT(t, SYS_futex, &t->word, FUTEX_WAIT_PRIVATE, 0, NULL);
	t->wake = NULL;
	kind_pause(t);
}

const struct kind signal_kinds[] = {
	{"storm", kind_storm}, {"timer", kind_timer},
	{"trapignored", kind_trapignored}, {"trapblocked", kind_trapblocked}, {"traphandled", kind_traphandled},
	{"sigsuspend", kind_sigsuspend}, {"pause", kind_pause}, {"futexpause", kind_futexpause},
	{NULL, NULL},
};
