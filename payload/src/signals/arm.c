/*
 * arm.c: a dispatch is published on a signal of the application's. Others
 * may be in flight on it, and other queues may arm it at this moment.
 */
#include <string.h>

#include "core/session_flags.h"
#include "signals/table.h"

static void copy_in(struct app_signal *a, const void *item)
{
	for (unsigned i = 0; i < ITEM_WORDS; i++) {
		uint64_t word;

		memcpy(&word, (const char *)item + i * sizeof word, sizeof word);
		SET_RELAXED(&a->item[i], word);
	}
}

/* Packets that nobody waits for are still in flight on a. */
static bool is_shared(struct app_signal *a, const amd_signal_t *hw)
{
	/* acquire: pairs with the release at the end of signal_arm */
	return WHAT(atomic_load_explicit(&a->state, memory_order_acquire)) == SHARED &&
	       __atomic_load_n(&hw->value, __ATOMIC_ACQUIRE) > RELAXED(&a->armed_value) - (int64_t)RELAXED(&a->packets);
}

/* A packet among those in flight on its signal. */
struct sharing {
	int64_t value;       /* before any of them */
	uint64_t packets;    /* this one included */
	uint64_t lane;       /* of all of them, LANE_NONE: of several */
	bool exact;          /* the times will be this one's */
};

/*
 * Others are in flight, and any may write the times last. An earlier one is
 * given up (counted); this one's times are exact if it starts after all others
 * have ended, which its barrier bit on the same queue says.
 */
static struct sharing share(struct app_signal *a, uint64_t lane, bool in_order)
{
	bool same = RELAXED(&a->lane) == lane;
	struct sharing with = {
		.value = RELAXED(&a->armed_value),
		.packets = RELAXED(&a->packets) + 1,
		.lane = same ? lane : LANE_NONE,
		.exact = same && in_order,
	};

	signal_end_pending(a, RTL_REASON_SHARED_SIGNAL, SHARED);
	return with;
}

static struct sharing sharing_of(struct app_signal *a, uint64_t lane, bool in_order)
{
	const amd_signal_t *hw = (const amd_signal_t *)RELAXED(&a->handle);

	if (signal_harvest(a) != FIRED || is_shared(a, hw))
		return share(a, lane, in_order);
	/* The value as the harvest found it: who was in flight has decremented it. */
	int64_t value = __atomic_load_n(&hw->value, __ATOMIC_RELAXED);
	return (struct sharing){.value = value, .packets = 1, .lane = lane, .exact = true};
}

#define FILL_TRIES 256 /* filling takes some stores, unless it is preempted */
#define FILL_TRIES_MOST 4096 /* each lost to another queue's packet: it does not come to that */

/* True: whoever is filling learns that a packet more is on its signal. Relaxed:
 * nothing is handed over; of this CAS and that of end_filling(), on one word, the
 * later one sees the earlier. */
static bool pass_by(struct app_signal *a)
{
	uint64_t state = atomic_load_explicit(&a->state, memory_order_relaxed);

	if (WHAT(state) == PASSED)
		return true;
	return WHAT(state) == FILLING &&
	       atomic_compare_exchange_strong_explicit(&a->state, &state, TURNED(state, PASSED), memory_order_relaxed,
						       memory_order_relaxed);
}

/*
 * Another queue may arm the signal at this moment. Its packet counts: what was
 * found out before its arming is void, and passing by unseen would leave it
 * alone in the account, and timed with our packet's times. False: passed by.
 */
static bool begin_filling(struct app_signal *a, uint64_t lane, bool in_order, struct sharing *with, uint32_t *generation)
{
	for (int i = 0; i < FILL_TRIES || !pass_by(a); i++) {
		if (i == FILL_TRIES_MOST) {
			signal_poison(RELAXED(&a->handle));
			break;
		}
		uint64_t before = atomic_load_explicit(&a->state, memory_order_acquire);

		if (WHAT(before) == FILLING || WHAT(before) == PASSED) {
			cpu_relax();
			continue;
		}
		*with = sharing_of(a, lane, in_order);
		uint64_t now = atomic_load_explicit(&a->state, memory_order_acquire);
		if (now >> 3 != before >> 3 || (WHAT(now) != IDLE && WHAT(now) != SHARED))
			continue;
		*generation = (uint32_t)(now >> 3) + 1;
		if (atomic_compare_exchange_strong_explicit(&a->state, &now, TURNED(now, FILLING), memory_order_acq_rel,
							    memory_order_relaxed))
			return true;
	}
	return false;
}

/* False: others have passed by meanwhile, and the signal is crowded. release:
 * pairs with is_shared() and signal_poll(). */
static bool end_filling(struct app_signal *a, uint32_t generation, unsigned what)
{
	uint64_t filling = STATE(generation - 1, FILLING);

	if (LIKELY(atomic_compare_exchange_strong_explicit(&a->state, &filling, STATE(generation, what), memory_order_release,
							   memory_order_relaxed)))
		return true;
	SET_RELAXED(&a->packets, UNKNOWN_NUMBER);
	atomic_store_explicit(&a->state, STATE(generation, SHARED), memory_order_release);
	return false;
}

/* Times of those who were on a before may still come: of one none have, or there were
 * several. */
static bool is_owed_times(struct app_signal *a, uint64_t start, uint64_t end)
{
	uint64_t packets = RELAXED(&a->packets);

	return packets > 1 || (packets && start == RELAXED(&a->old_start) && end == RELAXED(&a->old_end));
}

uint32_t signal_arm(uint64_t lane, uint64_t handle, const void *item, bool in_order, uint64_t *ref)
{
	amd_signal_t *hw = (amd_signal_t *)handle;
	struct app_signal *a = signal_find(handle);

	if (!a && !(a = signal_enter(handle)))
		return RTL_REASON_SIGNAL_TABLE;
	struct sharing with;
	uint32_t generation;
	if (!begin_filling(a, lane, in_order, &with, &generation))
		return RTL_REASON_SHARED_SIGNAL;
	with.exact = with.exact && ref;
	uint64_t start, end;
	signal_ticks(lane, hw, &start, &end);
	bool doubtful = is_owed_times(a, start, end);
	SET_RELAXED(&a->armed_value, with.value);
	SET_RELAXED(&a->packets, with.packets);
	SET_RELAXED(&a->old_start, start);
	SET_RELAXED(&a->old_end, end);
	SET_RELAXED(&a->lane, with.lane);
	SET_RELAXED(&a->armed_at, stamp_time() | (doubtful ? ARMED_IN_DOUBT : 0));
	if (with.exact)
		copy_in(a, item);
	if (!end_filling(a, generation, with.exact ? PENDING : SHARED) || !with.exact)
		return RTL_REASON_SHARED_SIGNAL;
	*ref = (uint64_t)(a - signal_table) << 32 | generation;
	return RTL_REASON_NONE;
}
