/*
 * The engine: one loop over all queues of all GPUs. By default it is a process
 * of its own that shares the target's memory (CLONE_VM), so that a debugger
 * that stops every thread of the target does not stop the GPU.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/kcmp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine.h"

enum {
	STACK_BYTES = 256 << 10,
	TLS_BYTES = 64 << 10,
};

/* Nap lengths after so much idleness. A nap ends some microseconds late, so none is taken just before a due time. */
static const uint64_t recent_ns = 2000000, recent_nap_ns = 20000;
static const uint64_t while_ago_ns = 50000000, while_ago_nap_ns = 100000;
static const uint64_t wake_margin_ns = 6000;
static const uint64_t flush_after_ns = 2000000, flush_every_ns = 50000000;
static const uint64_t parent_check_ns = 1000000;
static const uint64_t stop_patience_ns = 2000000000;

enum engine_state { ENGINE_NONE, ENGINE_STARTING, ENGINE_RUNNING, ENGINE_STOPPING, ENGINE_ENDED };

static struct {
	uint32_t state;         /* enum engine_state; a futex */
	uint32_t kick;          /* a futex: the engine naps on it */
	uint32_t rounds;        /* a futex: quiesce waits on it */
	uint32_t round_waiters;
	pid_t target;           /* who started it */
	pid_t process;          /* ENGINE=proc */
	pthread_t thread;
	uint64_t naps;
} engine;

static struct lock start_lock;

uint32_t engine_random(struct gpu *g, uint32_t below)
{
	g->random = g->random * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)(g->random >> 8) * below >> 24);
}

/* ---- the loop ---- */

static void visit(struct gpu *g, struct queue *q, struct round *r)
{
	switch (__atomic_load_n(&q->state, __ATOMIC_ACQUIRE)) {
	case QUEUE_CLOSING:
		queue_close(q);
		r->done++;
		return;
	case QUEUE_LIVE:
		if (!__atomic_load_n(&q->active, __ATOMIC_ACQUIRE))
			return;
		if (q->aql)
			aql_step(g, q, r);
		else
			sdma_step(q, r);
		return;
	default:
		return;
	}
}

static struct round run_round(void)
{
	struct round r = { .now_ns = now_ns(), .next_ns = UINT64_MAX };

	guard_log();
	aql_late_stamps(&r, false);
	for (unsigned i = 0; i < config.gpus; i++) {
		struct gpu *g = __atomic_load_n(&gpus[i], __ATOMIC_ACQUIRE);
		uint32_t top = g ? __atomic_load_n(&g->queue_top, __ATOMIC_ACQUIRE) : 0;

		for (uint32_t s = 0; s < top; s++)
			visit(g, &g->queues[s], &r);
	}
	__atomic_add_fetch(&engine.rounds, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&engine.round_waiters, __ATOMIC_SEQ_CST))
		futex_wake_all(&engine.rounds);
	return r;
}

/* 0: poll on. An eager GPU that waits for a packet does not look away. */
static uint64_t nap_length(const struct round *r, uint64_t idle_ns)
{
	uint64_t nap = config.idle_ns;

	if (idle_ns < config.spin_ns || (config.eager && r->stalled && idle_ns < recent_ns))
		return 0;
	if (idle_ns < recent_ns)
		nap = recent_nap_ns;
	else if (idle_ns < while_ago_ns)
		nap = while_ago_nap_ns;
	if (r->next_ns != UINT64_MAX) {
		uint64_t left = r->next_ns > r->now_ns ? r->next_ns - r->now_ns : 0;

		if (left < 2 * wake_margin_ns)
			return 0;
		if (nap > left - wake_margin_ns)
			nap = left - wake_margin_ns;
	}
	return nap;
}

static void nap(uint64_t ns)
{
	struct timespec t = timespec_of(ns);
	uint32_t seen = __atomic_load_n(&engine.kick, __ATOMIC_SEQ_CST);

	if (__atomic_load_n(&engine.state, __ATOMIC_SEQ_CST) == ENGINE_STOPPING)
		return;
	engine.naps++;
	futex_wait(&engine.kick, seen, &t);
}

/*
 * The target is gone when this process has another parent, or (after an exec)
 * when the parent has another address space. Nothing must keep its old memory.
 */
static bool orphaned(uint64_t now)
{
	static uint64_t checked_ns;
	long same;

	if (config.engine_thread || now - checked_ns < parent_check_ns)
		return false;
	checked_ns = now;
	if (raw3(SYS_getppid, 0, 0, 0) != engine.target)
		return true;
	same = raw6(SYS_kcmp, raw3(SYS_getpid, 0, 0, 0), engine.target, KCMP_VM, 0, 0, 0);
	return same > 0; /* an error (a seccomp filter) proves nothing */
}

static void run(void)
{
	uint64_t active_ns = now_ns(), flushed_ns = active_ns;

	while (__atomic_load_n(&engine.state, __ATOMIC_ACQUIRE) == ENGINE_RUNNING) {
		struct round r = run_round();
		uint64_t idle_ns, length;

		if (r.done)
			active_ns = r.now_ns;
		idle_ns = r.now_ns - active_ns;
		if (idle_ns > flush_after_ns || r.now_ns - flushed_ns > flush_every_ns) {
			truth_flush();
			flushed_ns = r.now_ns;
		}
		if (orphaned(r.now_ns))
			return;
		if (r.done)
			continue;
		length = nap_length(&r, idle_ns);
		if (length)
			nap(length);
		else
			for (int i = 0; i < 16; i++)
				__builtin_ia32_pause();
	}
}

static void set_state(enum engine_state s)
{
	__atomic_store_n(&engine.state, s, __ATOMIC_SEQ_CST);
	futex_wake_all(&engine.state);
}

static void engine_main(void)
{
	raw6(SYS_prctl, PR_SET_TIMERSLACK, 1, 0, 0, 0, 0);
	raw6(SYS_prctl, PR_SET_NAME, (long)"softgpu-engine", 0, 0, 0, 0);
	truth_open();
	set_state(ENGINE_RUNNING);
	run();
	guard_log();
	truth_close();
	set_state(ENGINE_ENDED);
}

/* ---- start and stop, on threads of the target ---- */

static int process_main(void *unused)
{
	(void)unused;
	/* The target's descriptors: holding one would keep its pipes and sockets open. */
	raw3(SYS_close_range, 0, ~0u, 0);
	engine_main();
	raw3(SYS_exit, 0, 0, 0);
	return 0;
}

static void *thread_main(void *unused)
{
	(void)unused;
	engine_main();
	return NULL;
}

static int start_process(void)
{
	uint8_t *memory = mmap(NULL, STACK_BYTES + TLS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t *tcb;

	if (memory == MAP_FAILED)
		return ENOMEM;
	/* A thread control block that only points to itself: a stray use of errno lands in zeros. */
	tcb = (uintptr_t *)(memory + STACK_BYTES + TLS_BYTES / 2);
	tcb[0] = tcb[2] = (uintptr_t)tcb;
	/* No exit signal: the target's wait() never sees this child. */
	engine.process = clone(process_main, memory + STACK_BYTES, CLONE_VM | CLONE_SETTLS, NULL, NULL, tcb, NULL);
	return engine.process < 0 ? errno : 0;
}

/* With all signals blocked, which the engine inherits. */
static int start_blocked(void)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = config.engine_thread ? pthread_create(&engine.thread, NULL, thread_main, NULL) : start_process();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

int engine_start(void)
{
	int err = 0;

	lock_take(&start_lock);
	if (engine.state == ENGINE_NONE) {
		engine.target = getpid();
		engine.state = ENGINE_STARTING;
		err = start_blocked();
		if (err)
			engine.state = ENGINE_NONE;
		while (!err && __atomic_load_n(&engine.state, __ATOMIC_ACQUIRE) == ENGINE_STARTING)
			futex_wait(&engine.state, ENGINE_STARTING, NULL);
	}
	lock_drop(&start_lock);
	engine_kick();
	return err;
}

void engine_kick(void)
{
	__atomic_add_fetch(&engine.kick, 1, __ATOMIC_SEQ_CST);
	futex_wake_all(&engine.kick);
}

/* Waits for a futex word to leave a value; false when the engine has had patience enough. */
static bool wait_change(uint32_t *word, uint32_t seen, uint64_t deadline_ns)
{
	struct timespec slice = timespec_of(10000000);

	if (__atomic_load_n(word, __ATOMIC_SEQ_CST) == seen)
		futex_wait(word, seen, &slice);
	return now_ns() < deadline_ns;
}

void engine_quiesce(void)
{
	uint64_t deadline_ns = now_ns() + stop_patience_ns;
	uint32_t from = __atomic_load_n(&engine.rounds, __ATOMIC_SEQ_CST);
	uint32_t seen = from;

	if (__atomic_load_n(&engine.state, __ATOMIC_SEQ_CST) != ENGINE_RUNNING)
		return;
	__atomic_add_fetch(&engine.round_waiters, 1, __ATOMIC_SEQ_CST);
	/* The round under way may have passed the queue already: two ends make one whole round. */
	while (seen - from < 2) {
		engine_kick();
		if (!wait_change(&engine.rounds, seen, deadline_ns))
			break;
		seen = __atomic_load_n(&engine.rounds, __ATOMIC_SEQ_CST);
	}
	__atomic_sub_fetch(&engine.round_waiters, 1, __ATOMIC_SEQ_CST);
}

void engine_stop(void)
{
	uint64_t deadline_ns = now_ns() + stop_patience_ns;
	uint32_t running = ENGINE_RUNNING;

	if (engine.target != getpid() || /* a child of vfork or of a raw fork */
	    !__atomic_compare_exchange_n(&engine.state, &running, ENGINE_STOPPING, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_SEQ_CST))
		return;
	engine_kick();
	while (__atomic_load_n(&engine.state, __ATOMIC_SEQ_CST) == ENGINE_STOPPING)
		if (!wait_change(&engine.state, ENGINE_STOPPING, deadline_ns))
			return;
	if (config.engine_thread)
		pthread_join(engine.thread, NULL);
	else
		waitpid(engine.process, NULL, __WCLONE);
	if (config.stats) {
		fprintf(stderr, "softgpu: engine: %u rounds, %lu naps\n", engine.rounds, (unsigned long)engine.naps);
		kernel_print_stats();
	}
}

void engine_forget_after_fork(void)
{
	start_lock = (struct lock){ 0 };
	memset(&engine, 0, sizeof engine);
	kernel_forget_after_fork();
	aql_forget_after_fork();
}
