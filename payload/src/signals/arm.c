/*
 * arm.c: an item begins on a signal of the application. Other items may be in flight on that
 * signal, and other threads may arm it at the same time.
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

/* Packets that are not timed are still in flight on a. */
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
 * Other packets are in flight, and any of them may write the times last. A pending item ends
 * without times. The new item's times are exact if it starts after all others have ended,
 * which its barrier bit on the same queue says.
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
	/* The value that the harvest found: packets that were in flight have decremented it. */
	int64_t value = __atomic_load_n(&hw->value, __ATOMIC_RELAXED);
	return (struct sharing){.value = value, .packets = 1, .lane = lane, .exact = true};
}

#define FILL_TRIES 256 /* filling takes some stores, unless it is preempted */
#define FILL_TRIES_MOST 4096 /* each fails because another queue has armed the signal: not expected */

/* True: the thread that fills learns that one more packet is on the signal. Relaxed: no data
 * is passed; this CAS and the one in end_filling() are on one word, and the later one sees
 * the earlier. */
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
 * Another queue may arm the signal at the same time. Its packet counts: then this thread
 * looks again at what is in flight. If this thread gave up without pass_by(), the other
 * packet would count as the only one, and could get our packet's times. False: passed by.
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

/* False: other packets have passed by, and the signal is shared. release:
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

/* Whether times of packets that were on a before may still come: there were several, or one
 * whose times have not come. */
static bool may_get_old_times(struct app_signal *a, uint64_t start, uint64_t end)
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
	bool doubtful = may_get_old_times(a, start, end);
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
