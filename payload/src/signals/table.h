/*
 * table.h: the table of the application's signals, shared by arm.c (what is noted when
 * an item begins) and poll.c (which thread reports it).
 */
#ifndef RTL_TABLE_H
#define RTL_TABLE_H

#include <hsa/amd_hsa_signal.h>
#include <stdatomic.h>

#include "core/sys.h"
#include "signals/signals.h"
#include "signals/times.h"

#define SIGNALS (1u << 17) /* power of two: places for application signals */
#define SIGNALS_MAX (SIGNALS / 8 * 3) /* known at once; with more, neighbouring groups would overlap */
#define HANDLE_NONE 0ull
#define HANDLE_GONE 1ull /* added to the handle of a destroyed signal: its place is for the next one at that address */

/* state: generation << 3 | one of these */
enum {
	IDLE = 0,
	PENDING = 1, /* the item is to be timed */
	FILLING = 2,
	SHARED = 3, /* several packets were published on it, and none is timed */
	PASSED = 4,  /* FILLING, and other packets have passed by */
};
#define STATE(generation, what) ((uint64_t)(generation) << 3 | (what))
#define WHAT(state) ((unsigned)(state) & 7)
#define TURNED(state, what) (((state) & ~7ull) | (what))
#define UNKNOWN_NUMBER (1ull << 32) /* of packets: shared until the application sets the signal */

/* Fields below state are written in FILLING only, and read optimistically: a reader's copy
 * counts if its CAS on state succeeds. Hence they are relaxed. */
struct app_signal {
	CACHE_ALIGNED _Atomic uint64_t handle;
	_Atomic uint64_t state;
	_Atomic int64_t armed_value;
	_Atomic uint64_t old_start, old_end;
	_Atomic uint64_t packets; /* in flight on this signal; 0: not seen in this session */
	_Atomic uint64_t lane;
	_Atomic uint64_t armed_at; /* see struct event */
	CACHE_ALIGNED _Atomic uint64_t item[ITEM_WORDS];
};

extern HIDDEN struct app_signal *signal_table; /* hidden: its address does not come from the GOT */

#define RELAXED(p) atomic_load_explicit((p), memory_order_relaxed)
#define SET_RELAXED(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)

/* The runtime makes signals in blocks: neighbours in memory, which are used
 * together, are neighbours here, on one page. */
#define NEIGHBOURS_BITS 4

static inline uint32_t signal_place(uint64_t handle)
{
	uint64_t line = handle >> 6, group = (line >> NEIGHBOURS_BITS) * 0x9E3779B97F4A7C15ull >> 44;

	return (uint32_t)(group << NEIGHBOURS_BITS | (line & ((1 << NEIGHBOURS_BITS) - 1))) & (SIGNALS - 1);
}

static inline struct app_signal *signal_find(uint64_t handle)
{
	for (uint32_t i = signal_place(handle);; i = (i + 1) & (SIGNALS - 1)) {
		uint64_t here = atomic_load_explicit(&signal_table[i].handle, memory_order_seq_cst);

		if (here == handle)
			return &signal_table[i];
		if (here == HANDLE_NONE)
			return NULL;
	}
}

/* The times that a signal shows: a kernel's, or those of a copy, which an engine may
 * have written elsewhere. */
static inline void signal_ticks(uint64_t lane, const amd_signal_t *hw, uint64_t *start, uint64_t *end)
{
	if (UNLIKELY(lane_kind(lane) == RTL_KIND_MEMORY_COPY)) {
		signal_copy_ticks(hw, start, end);
		return;
	}
	*start = __atomic_load_n(&hw->start_ts, __ATOMIC_RELAXED);
	*end = __atomic_load_n(&hw->end_ts, __ATOMIC_ACQUIRE);
}

/* A place for a handle that is not in the table. NULL: there are too many. */
struct app_signal *signal_enter(uint64_t handle);

/*
 * The hardware writes the times, then decrements the value. Where it does so
 * in the other order, the signal has fired without times for a moment.
 */
enum fire {
	UNFIRED,
	FIRED_LATE,
	FIRED,
	AMBIGUOUS, /* the times may be those of a packet that we have not seen */
};

/* A packet on this signal is not counted: the signal times nothing in this session any more.
 * After a second such signal no signal does. */
void signal_poison(uint64_t handle);

/* The item that is pending on a, if any, ends without times; the state of a is next then:
 * IDLE or SHARED. */
bool signal_end_pending(struct app_signal *a, uint32_t reason, unsigned next);

/* Reports the item that was pending on a, if it has fired. FIRED: nothing is pending now. */
enum fire signal_harvest_pending(struct app_signal *a, uint64_t state);

static inline enum fire signal_harvest(struct app_signal *a)
{
	uint64_t state = atomic_load_explicit(&a->state, memory_order_acquire);

	return WHAT(state) == PENDING ? signal_harvest_pending(a, state) : FIRED;
}

#endif
