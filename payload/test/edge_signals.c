/* edge_signals.c: the application's signals and the pool's. */
#include "edge.h"

#include <pthread.h>

#include "entry.h"
#include "session.h"
#include "signals.h"

#define SHARED_ROUNDS 20000
static struct {
	struct queue s[2];
	hsa_signal_t signal;
	uint64_t ref[2];
	uint32_t reason[2];
	_Atomic uint32_t arrived;
} shared;

static bool is_any(const struct outcome *o) { return o; }

static void *arm_shared(void *number)
{
	uint64_t me = (uint64_t)number;
	struct entry e = {0};

	for (uint32_t round = 1; round <= SHARED_ROUNDS; round++) {
		atomic_fetch_add(&shared.arrived, 1);
		for (int i = 0; atomic_load(&shared.arrived) < 4 * round - 2; i++)
			if (i > 2000) /* at one moment, if there are two processors */
				sys_yield();
		shared.reason[me] = signal_arm(&shared.s[me], shared.signal.handle, &e, &shared.ref[me]);
		atomic_fetch_add(&shared.arrived, 1);
		while (atomic_load(&shared.arrived) < 4 * round)
			sys_yield();
		if (me == 0) {
			amd_signal_t *hw = (amd_signal_t *)shared.signal.handle;
			struct outcome o;

			hw->start_ts++, hw->end_ts++;
			hw->value = 1; /* one of both has ended */
			for (int i = 0; i < 2; i++)
				CHECK(shared.reason[i] || signal_poll(shared.ref[i], is_any, &o) != SIGNAL_FIRED);
			signal_before_set(shared.signal.handle);
			hw->value = 2;
			while (handoff_pop(&o))
				;
		}
	}
	return NULL;
}

/* Two queues publish at one moment on one signal: neither is timed as if alone. */
static void two_queues_one_signal(void)
{
	pthread_t other;

	CHECK(OnLoad(NULL, 0, 0, NULL) && !signals_init() && !handoff_init());
	rt.signal_create(2, 0, NULL, 0, &shared.signal);
	signal_note_count(shared.signal.handle, 2);
	for (int i = 0; i < 2; i++)
		atomic_store(&shared.s[i].word, WORD_VIRT);
	pthread_create(&other, NULL, arm_shared, (void *)1);
	arm_shared(NULL);
	pthread_join(other, NULL);
}

const struct edge_case signal_cases[] = {
	{"two queues, one signal", two_queues_one_signal},
	{0},
};
