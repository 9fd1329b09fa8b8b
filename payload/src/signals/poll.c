/* poll.c: which thread reports an item on a signal of the application, and when it ended. */
#include "signals/signals.h"

#include <errno.h>

#include "core/session_flags.h"
#include "signals/table.h"

struct app_signal *signal_table;

static _Atomic uint64_t known;
static _Atomic uint64_t poisoned; /* a handle; EVERY_HANDLE */
#define EVERY_HANDLE HANDLE_GONE
#define HAZARD_WAIT_NS (2 * NS_PER_S)
static _Atomic uint64_t hazard; /* the handle that the worker is reading */

int signals_init(void)
{
	if (!signal_table)
		signal_table = map_memory(SIGNALS * sizeof *signal_table);
	return signal_table ? 0 : -ENOMEM;
}

/*
 * A place for a new handle: at the end of its run, or the place of a destroyed signal at the
 * same address, because the runtime reuses addresses. In the place of any other destroyed
 * signal it could come before the place that it has already, or that another queue gives it
 * at the same time.
 */
struct app_signal *signal_enter(uint64_t handle)
{
	for (uint32_t i = signal_place(handle);; i = (i + 1) & (SIGNALS - 1)) {
		uint64_t here = RELAXED(&signal_table[i].handle);

		if (here == HANDLE_NONE && RELAXED(&known) >= SIGNALS_MAX)
			return NULL;
		if ((here == HANDLE_NONE || here == (handle | HANDLE_GONE)) &&
		    atomic_compare_exchange_strong(&signal_table[i].handle, &here, handle)) {
			if (here == HANDLE_NONE)
				atomic_fetch_add_explicit(&known, 1, memory_order_relaxed);
			return &signal_table[i];
		}
		if (here == handle)
			return &signal_table[i];
	}
}

static void copy_out(uint64_t *item, struct app_signal *a)
{
	for (unsigned i = 0; i < ITEM_WORDS; i++)
		item[i] = RELAXED(&a->item[i]);
}

void signal_poison(uint64_t handle)
{
	uint64_t was = HANDLE_NONE;

	if (!atomic_compare_exchange_strong(&poisoned, &was, handle) && was != handle)
		atomic_store(&poisoned, EVERY_HANDLE);
}

/* Read after the times: a packet that could have written them was published after its signal
 * was poisoned. */
static bool is_poisoned(uint64_t handle)
{
	uint64_t named = atomic_load(&poisoned);

	return UNLIKELY(named) && (named == handle || named == EVERY_HANDLE);
}

static enum fire fire_of(struct app_signal *a, uint64_t handle, struct event *out)
{
	amd_signal_t *hw = (amd_signal_t *)handle;
	int64_t value = __atomic_load_n(&hw->value, __ATOMIC_ACQUIRE); /* before the times */
	int64_t fired = RELAXED(&a->armed_value) - (int64_t)RELAXED(&a->packets);

	if (value > fired)
		return UNFIRED;
	signal_ticks(RELAXED(&a->lane), hw, &out->start_ticks, &out->end_ticks);
	if (out->end_ticks == RELAXED(&a->old_end) || out->start_ticks == RELAXED(&a->old_start))
		return FIRED_LATE;
	/* Above 0 the signal may also be on packets that are not noted: those of raw queues,
	 * copies. They show in the value, or will; at 0 all packets on it are known. */
	if (value < fired || fired > 0 || is_poisoned(handle))
		return AMBIGUOUS;
	return FIRED;
}

/* Tries to become the thread that reports the item that was armed as state. next: IDLE or
 * SHARED. */
static bool take(struct app_signal *a, uint64_t state, unsigned next, struct event *out)
{
	copy_out(out->item, a);
	out->lane = RELAXED(&a->lane);
	out->kind = (uint8_t)lane_kind(out->lane);
	out->signal = RELAXED(&a->handle);
	out->armed_at = RELAXED(&a->armed_at);
	out->generation = RELAXED(&session_flags.generation); /* before the CAS: after it this thread may sleep until the next session */
	out->what = EVENT_TIMED;
	out->reason = RTL_REASON_NONE;
	/* release: the copy above is complete before anyone can arm again.
	 * seq_cst: signal_before_destroy() then reads the hazard, see signal_poll() */
	return atomic_compare_exchange_strong_explicit(&a->state, &state, TURNED(state, next), memory_order_seq_cst,
						       memory_order_relaxed);
}

bool signal_end_pending(struct app_signal *a, uint32_t reason, unsigned next)
{
	uint64_t state = atomic_load_explicit(&a->state, memory_order_acquire);
	struct event o; /* filled by take(): clearing it first would cost each re-arming some 10 ns */

	if (WHAT(state) != PENDING || !take(a, state, next, &o))
		return false;
	o.start_ticks = o.end_ticks = 0;
	o.what = EVENT_UNTIMED;
	o.reason = (uint8_t)reason;
	event_deliver(&o);
	return true;
}

static bool end_untimed(struct app_signal *a, uint32_t reason)
{
	return signal_end_pending(a, reason, IDLE);
}

enum fire signal_harvest_pending(struct app_signal *a, uint64_t state)
{
	struct event o; /* filled by fire_of() and take() */
	uint64_t handle = RELAXED(&a->handle);

	if (UNLIKELY(!handle || handle & HANDLE_GONE))
		return FIRED; /* the caller has slept until the end of the session or of the signal */
	enum fire f = fire_of(a, handle, &o);

	if (f == FIRED && take(a, state, IDLE, &o))
		event_deliver(&o);
	if (f == AMBIGUOUS)
		end_untimed(a, RTL_REASON_SHARED_SIGNAL);
	return f == AMBIGUOUS ? FIRED : f;
}

/* The caller is about to overwrite the times that a late item would still get. */
static void harvest_or_end(struct app_signal *a, uint32_t reason)
{
	enum fire f = signal_harvest(a);

	if (f != FIRED)
		end_untimed(a, f == FIRED_LATE ? RTL_REASON_NO_TIMES : reason);
}

/* With the hazard set. The times may be those of an earlier kernel, written late: judge()
 * decides. */
static enum signal_state look(struct app_signal *a, uint64_t state, bool (*judge)(struct event *, bool timed),
			      struct event *out)
{
	uint64_t handle = RELAXED(&a->handle);

	if (!handle || handle & HANDLE_GONE)
		return SIGNAL_TAKEN;
	out->lane = RELAXED(&a->lane);
	out->signal = handle;
	out->armed_at = RELAXED(&a->armed_at);
	if (UNLIKELY(lane_kind(out->lane) != RTL_KIND_DISPATCH)) /* a dispatch's judge needs its lane only */
		copy_out(out->item, a); /* take() copies what counts */
	enum fire f = fire_of(a, handle, out);
	if (f == AMBIGUOUS) {
		end_untimed(a, RTL_REASON_SHARED_SIGNAL);
		return SIGNAL_TAKEN;
	}
	if (f == UNFIRED || !judge(out, f == FIRED)) {
		if (atomic_load(&a->state) != state)
			return SIGNAL_TAKEN;
		return f == UNFIRED ? SIGNAL_WAITING : SIGNAL_LATE;
	}
	return take(a, state, IDLE, out) ? SIGNAL_FIRED : SIGNAL_TAKEN;
}

enum signal_state signal_poll(uint64_t ref, bool (*judge)(struct event *, bool timed), struct event *out)
{
	struct app_signal *a = &signal_table[ref >> 32];
	uint64_t state = atomic_load_explicit(&a->state, memory_order_acquire);

	if (state != STATE((uint32_t)ref, PENDING))
		return SIGNAL_TAKEN;
	/* seq_cst: pairs with signal_before_destroy, which leaves PENDING and
	 * then waits for the hazard; we set it and then read the state again. */
	atomic_store_explicit(&hazard, RELAXED(&a->handle), memory_order_seq_cst);
	enum signal_state r = SIGNAL_TAKEN;
	if (atomic_load_explicit(&a->state, memory_order_seq_cst) == state)
		r = look(a, state, judge, out);
	atomic_store_explicit(&hazard, HANDLE_NONE, memory_order_release);
	return r;
}

/* The application sets the signal: nothing is in flight on it any more. */
static void empty(struct app_signal *a)
{
	uint64_t state = RELAXED(&a->state);

	if (WHAT(state) == SHARED)
		atomic_compare_exchange_strong_explicit(&a->state, &state, TURNED(state, IDLE), memory_order_relaxed,
							memory_order_relaxed);
}

void signal_before_set(uint64_t handle)
{
	struct app_signal *a = signal_find(handle);

	if (!a)
		return;
	prefetch_for_write(a, sizeof *a); /* the worker's core has it, and signal_arm() comes next */
	empty(a);
	if (WHAT(RELAXED(&a->state)) == PENDING)
		harvest_or_end(a, RTL_REASON_REARMED);
}

void signal_before_add(uint64_t handle, int64_t delta)
{
	struct app_signal *a = signal_find(handle);

	if (LIKELY(!a || WHAT(RELAXED(&a->state)) == IDLE))
		return;
	if (WHAT(RELAXED(&a->state)) == SHARED) {
		atomic_fetch_add_explicit(&a->armed_value, delta, memory_order_relaxed);
		return;
	}
	switch (signal_harvest(a)) {
	case UNFIRED: /* it will be decremented from there */
		atomic_fetch_add_explicit(&a->armed_value, delta, memory_order_relaxed);
		break;
	case FIRED_LATE:
		end_untimed(a, RTL_REASON_NO_TIMES);
		break;
	default:
		break;
	}
}

/* The worker is between two loads, unless it waits in the runtime, which converts times, or
 * gets no CPU because the caller has a higher priority. */
static bool wait_for_hazard(uint64_t handle)
{
	uint64_t until = now_monotonic() + HAZARD_WAIT_NS;

	for (uint32_t turn = 0; atomic_load_explicit(&hazard, memory_order_seq_cst) == handle; turn++) {
		if (now_monotonic() > until)
			return false;
		sys_back_off(turn);
	}
	return true;
}

bool signal_before_destroy(uint64_t handle)
{
	struct app_signal *a = signal_find(handle);

	if (LIKELY(!a))
		return true;
	empty(a); /* the next signal at this address starts without packets */
	harvest_or_end(a, RTL_REASON_DESTROYED);
	if (UNLIKELY(atomic_load_explicit(&hazard, memory_order_seq_cst) == handle && !wait_for_hazard(handle)))
		return false;
	SET_RELAXED(&a->packets, 0);
	SET_RELAXED(&a->handle, handle | HANDLE_GONE);
	return true;
}

void signal_give_up(uint64_t ref, uint32_t reason)
{
	struct app_signal *a = &signal_table[ref >> 32];

	if (atomic_load_explicit(&a->state, memory_order_acquire) == STATE((uint32_t)ref, PENDING))
		end_untimed(a, reason);
}

bool signal_drop(uint64_t ref)
{
	uint64_t state = STATE((uint32_t)ref, PENDING);

	return atomic_compare_exchange_strong(&signal_table[ref >> 32].state, &state, STATE((uint32_t)ref, IDLE));
}

void signals_reset(void)
{
	clear_memory(signal_table, SIGNALS * sizeof *signal_table);
	atomic_store(&known, 0);
	atomic_store(&poisoned, HANDLE_NONE);
}
