/* edge_hostile.c: other processes write to the control block: the recorder, or a forked child
 * that has inherited its descriptor. The grace period is the payload's own here. */
#define _GNU_SOURCE
#include "edge.h"

#include <errno.h>
#include <pthread.h>

#include "core/session_flags.h"
#include "session/control_block.h"
#include "session/entry.h"

#define grace_wait true_grace_wait
#include "session/quiesce.c"
#undef grace_wait

#define NO_ENV "\0\0\0"

/* The block claims that a session is active: a detach finds none to end. */
static void state_of_a_session(void)
{
	begin(NULL, NULL);
	CHECK(rtl_detach() == 0);
	control->state = RTL_STATE_ACTIVE;
	CHECK(rtl_detach() == -EALREADY);
	begin(NULL, NULL);
	control->state = RTL_STATE_DORMANT;
	CHECK(rtl_reattach(NO_ENV, 4) == -EALREADY);
	CHECK(rtl_detach() == 0 && control->state == RTL_STATE_DORMANT);
}

static void generation_at_its_end(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);
	struct rtl_status s;

	begin(NULL, NULL);
	CHECK(rtl_detach() == 0);
	control->generation = UINT32_MAX;
	begin(NULL, NULL);
	CHECK(control->generation == 2 && rtl_status(&s) == 0 && s.generation == 2);
	submit(q, 0x1000);
	fire(take_packet(q));
	control->generation = 7;
	CHECK(rtl_detach() == 0);
	CHECK(counters->timed_pool == 1);
}

static void threads_and_end(void)
{
	int tid;

	begin(NULL, NULL);
	tid = control_tid();
	control->control_tid = control->worker_tid = 0;
	control->last_end = UINT32_MAX;
	CHECK(rtl_detach() == 0);
	CHECK(control_tid() == tid && control->last_end == RTL_END_DETACH);
	begin(NULL, NULL);
	CHECK(control_tid() == tid);
	CHECK(rtl_detach() == 0);
}

static struct rtl_grace *block(void)
{
	return (struct rtl_grace *)((char *)control + RTL_GRACE_OFFSET);
}

static uint32_t held = 1; /* futex */
static _Atomic bool stays;

static __attribute__((noinline)) void *stay(void *unused)
{
	atomic_store(&stays, true);
	while (__atomic_load_n(&held, __ATOMIC_ACQUIRE))
		futex_wait(&held, 1, UINT64_MAX);
	return unused;
}
static const uint64_t around_stay = 256; /* bytes of its code, or more */

/* A tool whose answer is right, but not the rest of what it writes. */
static void *answer_badly(void *unused)
{
	while (!__atomic_load_n(&block()->ask_seq, __ATOMIC_ACQUIRE))
		sys_sleep_ns(NS_PER_MS);
	for (int i = 0; i < RTL_GRACE_ASK; i++) {
		block()->tids[i] = UINT32_MAX;
		block()->verdicts[i] = RTL_VERDICT_OUTSIDE;
	}
	block()->count = block()->range_count = UINT32_MAX;
	block()->ask_seq = UINT32_MAX;
	__atomic_store_n(&block()->answer_seq, 1, __ATOMIC_RELEASE);
	futex_wake_shared(&block()->answer_seq);
	return unused;
}

static void counts_of_the_grace(void)
{
	const struct rtl_range of = {(uint64_t)stay, (uint64_t)stay + around_stay};
	pthread_t inside, tool;
	uint32_t no = 0, left = 0;

	begin(NULL, NULL);
	CHECK(rtl_detach() == 0);
	block()->count = block()->range_count = UINT32_MAX;
	pthread_create(&inside, NULL, stay, NULL);
	while (!atomic_load(&stays))
		sys_sleep_ns(NS_PER_MS);
	pthread_create(&tool, NULL, answer_badly, NULL);
	CHECK(true_grace_wait(&of, 1, 60 * NS_PER_S, &no, &left) == 0);
	CHECK(counters->grace_asked >= 1 && left == 0);
	pthread_join(tool, NULL);
	__atomic_store_n(&held, 0, __ATOMIC_RELEASE);
	futex_wake(&held);
	pthread_join(inside, NULL);
}

/* No thread is left out of the grace in silence. */
static void more_threads_than_fit(void)
{
	pthread_t other;

	CHECK(prepare() == 0);
	pthread_create(&other, NULL, stay, NULL);
	CHECK(list_once(THREADS_MAX) == -E2BIG);
	clear_memory(seen, TIDS_MAX / 8);
	CHECK(list_once(THREADS_MAX - 1) == THREADS_MAX);
	clear_memory(seen, TIDS_MAX / 8);
	__atomic_store_n(&held, 0, __ATOMIC_RELEASE);
	futex_wake(&held);
	pthread_join(other, NULL);
}

const struct edge_case hostile_cases[] = {
	{"state of a session that is none", state_of_a_session},
	{"generation at its end", generation_at_its_end},
	{"threads and end that are none", threads_and_end},
	{"counts of the grace", counts_of_the_grace},
	{"more threads than fit", more_threads_than_fit},
	{0},
};
