/* edge_signals.c: the application's signals and the pool's. */
#include "edge.h"

#include <pthread.h>

#include "core/session_flags.h"
#include "record/worker.h"
#include "session/control_block.h"
#include "session/entry.h"
#include "signals/table.h"
#include "toy.h"

#define SHARED_ROUNDS 20000
static struct {
	struct queue s[2];
	hsa_signal_t signal;
	uint64_t ref[2];
	uint32_t reason[2];
	_Atomic uint32_t arrived;
} shared;

static bool is_any(struct event *o, bool timed) { return o && timed; }

static void *arm_shared(void *number)
{
	uint64_t me = (uint64_t)number;
	struct entry e = {0};

	for (uint32_t round = 1; round <= SHARED_ROUNDS; round++) {
		atomic_fetch_add(&shared.arrived, 1);
		for (int i = 0; atomic_load(&shared.arrived) < 4 * round - 2; i++)
			if (i > 2000) /* at the same time, if there are two CPUs */
				sys_yield();
		shared.reason[me] = signal_arm(lane_of(RTL_KIND_DISPATCH, &shared.s[me]), shared.signal.handle, &e, false, &shared.ref[me]);
		atomic_fetch_add(&shared.arrived, 1);
		while (atomic_load(&shared.arrived) < 4 * round)
			sys_yield();
		if (me == 0) {
			amd_signal_t *hw = (amd_signal_t *)shared.signal.handle;
			struct event o;

			hw->start_ts++, hw->end_ts++;
			hw->value = 1; /* one of the two has ended */
			for (int i = 0; i < 2; i++)
				CHECK(shared.reason[i] || signal_poll(shared.ref[i], is_any, &o) != SIGNAL_FIRED);
			signal_before_set(shared.signal.handle);
			hw->value = 2;
			while (event_pop(&o))
				;
		}
	}
	return NULL;
}

/* Two queues publish on one signal at the same time: neither counts as the only one. */
static void two_queues_one_signal(void)
{
	pthread_t other;

	CHECK(OnLoad(NULL, 0, 0, NULL) && !signals_init() && !events_init(false));
	rt.signal_create(2, 0, NULL, 0, &shared.signal);
	for (int i = 0; i < 2; i++)
		atomic_store(&shared.s[i].word, WORD_VIRT);
	pthread_create(&other, NULL, arm_shared, (void *)1);
	arm_shared(NULL);
	pthread_join(other, NULL);
}

static uint64_t arm_alone(struct queue *s, amd_signal_t *hw)
{
	struct entry e = {0};
	uint64_t ref;

	hw->value = 1;
	CHECK(signal_arm(lane_of(RTL_KIND_DISPATCH, s), (uint64_t)hw, &e, false, &ref) == RTL_REASON_NONE);
	return ref;
}

static void end_of(amd_signal_t *hw, bool destroyed)
{
	struct event o;

	fire(hw);
	if (destroyed)
		CHECK(signal_before_destroy((uint64_t)hw));
	else
		signal_before_set((uint64_t)hw);
	CHECK(event_pop(&o) && o.what == EVENT_TIMED);
}

/* A signal has one place in the table, whichever signals come and go around it. */
static void one_place_for_a_signal(void)
{
	enum { OF_THEM = 30000 };
	static amd_signal_t signals[OF_THEM];
	static uint64_t ref[OF_THEM];
	static struct queue s;

	CHECK(OnLoad(NULL, 0, 0, NULL) && !signals_init() && !events_init(false));
	atomic_store(&s.word, WORD_VIRT);
	for (int i = 0; i < OF_THEM; i++)
		ref[i] = arm_alone(&s, &signals[i]);
	for (int i = 0; i < OF_THEM; i++)
		end_of(&signals[i], i % 2 == 0);
	for (int i = 1; i < OF_THEM; i += 2) /* these stay */
		CHECK(arm_alone(&s, &signals[i]) >> 32 == ref[i] >> 32);
}

/* Other threads arm a signal again and again before this one, which passes by in the end: the
 * signal times nothing more. */
static void arming_lost_to_others(void)
{
	static amd_signal_t signals[2];
	static struct queue s;
	struct entry e = {0};
	uint64_t ref;

	CHECK(OnLoad(NULL, 0, 0, NULL) && !signals_init() && !events_init(false));
	atomic_store(&s.word, WORD_VIRT);
	for (int i = 0; i < 2; i++)
		arm_alone(&s, &signals[i]);
	for (int i = 0; i < 2; i++)
		end_of(&signals[i], false);
	struct app_signal *a = signal_find((uint64_t)&signals[0]);
	atomic_store(&a->state, STATE(9, 7)); /* a state from which filling cannot begin */
	CHECK(signal_arm(lane_of(RTL_KIND_DISPATCH, &s), (uint64_t)&signals[0], &e, false, &ref) == RTL_REASON_SHARED_SIGNAL);
	atomic_store(&a->state, STATE(9, IDLE));
	for (int i = 0; i < 2; i++) {
		struct event o;

		ref = arm_alone(&s, &signals[i]);
		fire(&signals[i]);
		CHECK(signal_poll(ref, is_any, &o) == (i ? SIGNAL_FIRED : SIGNAL_TAKEN));
	}
}

/* The application turns profiling off: its dispatches end without times and are recorded so,
 * and their signals are reused. */
static void profiling_turned_off(void)
{
	enum { BATCHES = 60, BATCH = 16 };
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);
	uint64_t created = 0;

	begin("RTL_SIGNAL_POOL", "16");
	for (uint64_t n = 1; n <= BATCHES; n++) {
		for (int i = 0; i < BATCH; i++)
			submit(q, 0x1000);
		for (int i = 0; i < BATCH; i++)
			take_packet(q)->value--;
		while (counters->kind[RTL_KIND_DISPATCH].untimed[RTL_REASON_NO_TIMES] < n * BATCH)
			CHECK(worker_round(ROUND_MOST_NS));
		if (n == 1)
			created = counters->signals_created;
	}
	CHECK(counters->signals_created - created < BATCHES * BATCH / 2);
	submit(q, 0x1000);
	fire(take_packet(q));
	CHECK(rtl_detach() == 0);
	CHECK(counters->timed_pool == 1);
	CHECK(control->signals_kept == 0); /* the end has waited for the deferred ones */
}

/* Signals that fire and never get times delay neither others nor a detach. */
static void never_given_times(void)
{
	enum { SIGNALS_FIRED = 200 };
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);
	hsa_signal_t s;

	begin("RTL_DRAIN_TIMEOUT_MS", "600000");
	for (int i = 0; i < SIGNALS_FIRED; i++) {
		create_signal(1, 0, NULL, 0, &s);
		submit_on(q, HSA_PACKET_TYPE_KERNEL_DISPATCH, (amd_signal_t *)s.handle);
		__atomic_fetch_sub(&take_packet(q)->value, 1, __ATOMIC_SEQ_CST);
	}
	submit(q, 0x1000);
	fire(take_packet(q));
	CHECK(comes(&counters->timed_pool, 1));
	CHECK(comes(&counters->kind[RTL_KIND_DISPATCH].untimed[RTL_REASON_NO_TIMES], SIGNALS_FIRED));
	CHECK(rtl_detach() == 0);
	CHECK(!counters->kind[RTL_KIND_DISPATCH].untimed[RTL_REASON_NOT_COMPLETED]);
}

const struct edge_case signal_cases[] = {
	{"two queues, one signal", two_queues_one_signal},
	{"one place for a signal", one_place_for_a_signal},
	{"arming lost to others", arming_lost_to_others},
	{"profiling turned off", profiling_turned_off},
	{"never given times", never_given_times},
	{0},
};
