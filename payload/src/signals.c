#include "signals.h"

#include <errno.h>

#include "session.h"

#define SIGNALS (1u << 17) /* power of two: places for application signals */
#define SIGNALS_MAX (SIGNALS / 8 * 3) /* known at once; beyond, neighbourhoods would run into each other */
#define HANDLE_NONE 0ull
#define HANDLE_GONE 1ull /* added to a destroyed signal's: its place waits for the next one at that address */

/* state: generation << 3 | one of these */
enum {
	IDLE = 0,
	PENDING = 1, /* the entry's dispatch is to be timed */
	FILLING = 2,
	CROWDED = 3, /* several packets were published on it, and none is timed */
	PASSED = 4,  /* FILLING, and others did not wait for its end */
};
#define STATE(generation, what) ((uint64_t)(generation) << 3 | (what))
#define WHAT(state) ((unsigned)(state) & 7)
#define TURNED(state, what) (((state) & ~7ull) | (what))
#define UNKNOWN_NUMBER (1ull << 32) /* of packets: crowded until the application sets the signal anew */

/* Fields below state are written in FILLING only and read optimistically: a
 * reader's copy counts if its CAS on state succeeds. Hence relaxed atomics. */
struct app_signal {
	CACHE_ALIGNED _Atomic uint64_t handle;
	_Atomic uint64_t state;
	_Atomic int64_t armed_value;
	_Atomic uint64_t old_start, old_end;
	_Atomic uint64_t packets; /* in flight on this signal; 0: not seen in this session */
	_Atomic(struct queue *) queue;
	_Atomic uint64_t armed_at; /* stamp: no kernel of this dispatch started before */
	CACHE_ALIGNED _Atomic uint64_t entry[sizeof(struct entry) / 8];
};

static struct app_signal *table;
static _Atomic uint64_t known;
static _Atomic uint64_t hazard; /* the handle that the worker is reading */

#define RELAXED(p) atomic_load_explicit((p), memory_order_relaxed)
#define SET_RELAXED(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)

int signals_init(void)
{
	if (!table)
		table = map_memory(SIGNALS * sizeof *table);
	return table ? 0 : -ENOMEM;
}

/* The runtime makes signals in blocks: neighbours in memory, which are used
 * together, are neighbours here, on one page. */
#define NEIGHBOURS_BITS 4

static uint32_t place_of(uint64_t handle)
{
	uint64_t line = handle >> 6, group = (line >> NEIGHBOURS_BITS) * 0x9E3779B97F4A7C15ull >> 44;

	return (uint32_t)(group << NEIGHBOURS_BITS | (line & ((1 << NEIGHBOURS_BITS) - 1))) & (SIGNALS - 1);
}

static struct app_signal *find(uint64_t handle)
{
	for (uint32_t i = place_of(handle);; i = (i + 1) & (SIGNALS - 1)) {
		uint64_t here = atomic_load_explicit(&table[i].handle, memory_order_seq_cst);

		if (here == handle)
			return &table[i];
		if (here == HANDLE_NONE)
			return NULL;
	}
}

/*
 * A place for a new handle. Only ever at the end of its run, or where a signal at
 * the same address was before: in any other place that a destroyed signal has
 * left, it could stand before the one that it has already, or that another queue
 * gives it at this moment. The runtime uses its addresses again.
 */
static struct app_signal *enter(uint64_t handle)
{
	for (uint32_t i = place_of(handle);; i = (i + 1) & (SIGNALS - 1)) {
		uint64_t here = RELAXED(&table[i].handle);

		if (here == HANDLE_NONE && RELAXED(&known) >= SIGNALS_MAX)
			return NULL;
		if ((here == HANDLE_NONE || here == (handle | HANDLE_GONE)) &&
		    atomic_compare_exchange_strong(&table[i].handle, &here, handle)) {
			if (here == HANDLE_NONE)
				atomic_fetch_add_explicit(&known, 1, memory_order_relaxed);
			return &table[i];
		}
		if (here == handle)
			return &table[i];
	}
}

static void copy_out(struct entry *to, struct app_signal *a)
{
	uint64_t *word = (uint64_t *)to;

	for (unsigned i = 0; i < sizeof *to / 8; i++)
		word[i] = RELAXED(&a->entry[i]);
}

static void copy_in(struct app_signal *a, const struct entry *from)
{
	const uint64_t *word = (const uint64_t *)from;

	for (unsigned i = 0; i < sizeof *from / 8; i++)
		SET_RELAXED(&a->entry[i], word[i]);
}

/*
 * The hardware writes the times, then decrements the value. Where it does so
 * in the other order, the signal has fired without times for a moment.
 */
enum fire {
	UNFIRED,
	FIRED_LATE,
	FIRED,
	SPOILED, /* the times may be those of a packet that we have not seen */
};

static bool is_virtual(struct queue *s)
{
	return s && atomic_load_explicit(&s->word, memory_order_acquire) & WORD_VIRT;
}

static enum fire fire_of(struct app_signal *a, uint64_t handle, struct outcome *out)
{
	amd_signal_t *hw = (amd_signal_t *)handle;
	int64_t value = __atomic_load_n(&hw->value, __ATOMIC_ACQUIRE); /* before the times */
	int64_t fired = RELAXED(&a->armed_value) - (int64_t)RELAXED(&a->packets);

	if (value > fired)
		return UNFIRED;
	out->start_ticks = __atomic_load_n(&hw->start_ts, __ATOMIC_RELAXED);
	out->end_ticks = __atomic_load_n(&hw->end_ts, __ATOMIC_ACQUIRE);
	if (out->end_ticks == RELAXED(&a->old_end) || out->start_ticks == RELAXED(&a->old_start))
		return FIRED_LATE;
	/* A signal that still counts may carry further packets. Those that were
	 * published raw, once our queue had closed, are not known to us: they show
	 * by the value, or may be about to. */
	if (value < fired || (fired > 0 && !is_virtual(RELAXED(&a->queue))))
		return SPOILED;
	return FIRED;
}

/* Tries to become the one who reports the dispatch armed as state. next: IDLE or CROWDED. */
static bool take(struct app_signal *a, uint64_t state, unsigned next, struct outcome *out)
{
	copy_out(&out->entry, a);
	out->queue = RELAXED(&a->queue);
	out->signal = RELAXED(&a->handle);
	out->armed_at = RELAXED(&a->armed_at);
	out->generation = RELAXED(&gate.generation); /* not later: then this thread may have slept over its end */
	out->kind = OUTCOME_TIMED;
	out->reason = RTL_REASON_NONE;
	/* release: the copy above is complete before anyone can arm again.
	 * seq_cst: signal_before_destroy() then reads the hazard, see signal_poll() */
	return atomic_compare_exchange_strong_explicit(&a->state, &state, TURNED(state, next), memory_order_seq_cst,
						       memory_order_relaxed);
}

static void deliver(struct outcome *o)
{
	o->owed = 1;
	if (!handoff_push(o)) {
		atomic_fetch_add(&o->queue->undelivered, 1);
		COUNT(untimed[RTL_REASON_BACKLOG]);
		COUNT(records_lost);
	}
}

/* The dispatch that is pending on a, if any, ends without times. */
static bool end_pending(struct app_signal *a, uint32_t reason, unsigned next)
{
	uint64_t state = atomic_load_explicit(&a->state, memory_order_acquire);
	struct outcome o; /* filled by take(): clearing it first would cost each re-arming some 10 ns */

	if (WHAT(state) != PENDING || !take(a, state, next, &o))
		return false;
	o.start_ticks = o.end_ticks = 0;
	o.kind = OUTCOME_UNTIMED;
	o.reason = reason;
	deliver(&o);
	return true;
}

static bool end_untimed(struct app_signal *a, uint32_t reason)
{
	return end_pending(a, reason, IDLE);
}

/* Reports the pending dispatch if it has fired. FIRED: nothing is pending now. */
static enum fire harvest(struct app_signal *a)
{
	uint64_t state = atomic_load_explicit(&a->state, memory_order_acquire);
	struct outcome o; /* filled by fire_of() and take() */

	if (WHAT(state) != PENDING)
		return FIRED;
	enum fire f = fire_of(a, RELAXED(&a->handle), &o);
	if (f == FIRED && take(a, state, IDLE, &o))
		deliver(&o);
	if (f == SPOILED)
		end_untimed(a, RTL_REASON_SHARED_SIGNAL);
	return f == SPOILED ? FIRED : f;
}

/* The caller is about to overwrite what a dispatch that fired late would show. */
static void harvest_or_end(struct app_signal *a, uint32_t reason)
{
	enum fire f = harvest(a);

	if (f != FIRED)
		end_untimed(a, f == FIRED_LATE ? RTL_REASON_NO_TIMES : reason);
}

/* Packets that nobody waits for are still in flight on a. */
static bool is_crowded(struct app_signal *a, const amd_signal_t *hw)
{
	/* acquire: pairs with the release at the end of signal_arm */
	return WHAT(atomic_load_explicit(&a->state, memory_order_acquire)) == CROWDED &&
	       __atomic_load_n(&hw->value, __ATOMIC_ACQUIRE) > RELAXED(&a->armed_value) - (int64_t)RELAXED(&a->packets);
}

/* A packet among those in flight on its signal. */
struct sharing {
	int64_t value;       /* before any of them */
	uint64_t packets;    /* this one included */
	struct queue *queue; /* of all of them, NULL: of several */
	bool exact;          /* the times will be this one's */
};

/*
 * Others are in flight, and any may write the times last. An earlier one is
 * given up (counted); this one's times are exact if it starts after all others
 * have ended, which its barrier bit on the same queue says.
 */
static struct sharing share(struct app_signal *a, struct queue *s, const struct entry *entry)
{
	bool same = RELAXED(&a->queue) == s;
	struct sharing with = {
		.value = RELAXED(&a->armed_value),
		.packets = RELAXED(&a->packets) + 1,
		.queue = same ? s : NULL,
		.exact = same && (entry->flags & ENTRY_BARRIER),
	};

	end_pending(a, RTL_REASON_SHARED_SIGNAL, CROWDED);
	return with;
}

static struct sharing company(struct app_signal *a, struct queue *s, const struct entry *entry)
{
	const amd_signal_t *hw = (const amd_signal_t *)RELAXED(&a->handle);

	if (harvest(a) != FIRED || is_crowded(a, hw))
		return share(a, s, entry);
	/* The value as the harvest found it: who was in flight has decremented it. */
	int64_t value = __atomic_load_n(&hw->value, __ATOMIC_RELAXED);
	if (value > 1 && !RELAXED(&a->packets))
		return (struct sharing){.value = value, .packets = (uint64_t)value}; /* see signal_note_count */
	return (struct sharing){.value = value, .packets = 1, .queue = s, .exact = true};
}

#define FILL_TRIES 256 /* filling takes some stores, unless it is preempted */

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
static bool begin_filling(struct app_signal *a, struct queue *s, const struct entry *entry, struct sharing *with,
			  uint32_t *generation)
{
	for (int i = 0; i < FILL_TRIES || !pass_by(a); i++) {
		uint64_t before = atomic_load_explicit(&a->state, memory_order_acquire);

		if (WHAT(before) == FILLING || WHAT(before) == PASSED) {
			cpu_relax();
			continue;
		}
		*with = company(a, s, entry);
		uint64_t now = atomic_load_explicit(&a->state, memory_order_acquire);
		if (now >> 3 != before >> 3 || (WHAT(now) != IDLE && WHAT(now) != CROWDED))
			continue;
		*generation = (uint32_t)(now >> 3) + 1;
		if (atomic_compare_exchange_strong_explicit(&a->state, &now, TURNED(now, FILLING), memory_order_acq_rel,
							    memory_order_relaxed))
			return true;
	}
	return false;
}

/* False: others have passed by meanwhile, and the signal is crowded. release:
 * pairs with is_crowded() and signal_poll(). */
static bool end_filling(struct app_signal *a, uint32_t generation, unsigned what)
{
	uint64_t filling = STATE(generation - 1, FILLING);

	if (LIKELY(atomic_compare_exchange_strong_explicit(&a->state, &filling, STATE(generation, what), memory_order_release,
							   memory_order_relaxed)))
		return true;
	SET_RELAXED(&a->packets, UNKNOWN_NUMBER);
	atomic_store_explicit(&a->state, STATE(generation, CROWDED), memory_order_release);
	return false;
}

uint32_t signal_arm(struct queue *s, uint64_t handle, const struct entry *entry, uint64_t *ref)
{
	amd_signal_t *hw = (amd_signal_t *)handle;
	struct app_signal *a = find(handle);

	if (!a && !(a = enter(handle)))
		return RTL_REASON_SIGNAL_TABLE;
	struct sharing with;
	uint32_t generation;
	if (!begin_filling(a, s, entry, &with, &generation))
		return RTL_REASON_SHARED_SIGNAL;
	SET_RELAXED(&a->armed_value, with.value);
	SET_RELAXED(&a->packets, with.packets);
	SET_RELAXED(&a->old_start, hw->start_ts);
	SET_RELAXED(&a->old_end, hw->end_ts);
	SET_RELAXED(&a->queue, with.queue);
	SET_RELAXED(&a->armed_at, stamp_time());
	if (with.exact)
		copy_in(a, entry);
	if (!end_filling(a, generation, with.exact ? PENDING : CROWDED) || !with.exact)
		return RTL_REASON_SHARED_SIGNAL;
	*ref = (uint64_t)(a - table) << 32 | generation;
	return RTL_REASON_NONE;
}

/* Under the hazard. The times may be an earlier kernel's, written late: the
 * worker's judgement decides. */
static enum signal_state look(struct app_signal *a, uint64_t state, bool (*plausible)(const struct outcome *),
			      struct outcome *out)
{
	uint64_t handle = RELAXED(&a->handle);

	if (!handle || handle & HANDLE_GONE)
		return SIGNAL_TAKEN;
	out->queue = RELAXED(&a->queue);
	out->armed_at = RELAXED(&a->armed_at);
	enum fire f = fire_of(a, handle, out);
	if (f == SPOILED) {
		end_untimed(a, RTL_REASON_SHARED_SIGNAL);
		return SIGNAL_TAKEN;
	}
	if (f != FIRED || !plausible(out))
		return atomic_load(&a->state) == state ? SIGNAL_WAITING : SIGNAL_TAKEN;
	return take(a, state, IDLE, out) ? SIGNAL_FIRED : SIGNAL_TAKEN;
}

enum signal_state signal_poll(uint64_t ref, bool (*plausible)(const struct outcome *), struct outcome *out)
{
	struct app_signal *a = &table[ref >> 32];
	uint64_t state = atomic_load_explicit(&a->state, memory_order_acquire);

	if (state != STATE((uint32_t)ref, PENDING))
		return SIGNAL_TAKEN;
	/* seq_cst: pairs with signal_before_destroy, which leaves PENDING and
	 * then waits for the hazard; we set it and then read the state again. */
	atomic_store_explicit(&hazard, RELAXED(&a->handle), memory_order_seq_cst);
	enum signal_state r = SIGNAL_TAKEN;
	if (atomic_load_explicit(&a->state, memory_order_seq_cst) == state)
		r = look(a, state, plausible, out);
	atomic_store_explicit(&hazard, HANDLE_NONE, memory_order_release);
	return r;
}

/* The application begins anew: nothing is in flight any more. */
static void empty(struct app_signal *a)
{
	uint64_t state = RELAXED(&a->state);

	if (WHAT(state) == CROWDED)
		atomic_compare_exchange_strong_explicit(&a->state, &state, TURNED(state, IDLE), memory_order_relaxed,
							memory_order_relaxed);
}

void signal_before_set(uint64_t handle)
{
	struct app_signal *a = find(handle);

	if (!a)
		return;
	prefetch_for_write(a, sizeof *a); /* the worker's core has it, and signal_arm() comes next */
	empty(a);
	if (WHAT(RELAXED(&a->state)) == PENDING)
		harvest_or_end(a, RTL_REASON_REARMED);
}

void signal_before_add(uint64_t handle, int64_t delta)
{
	struct app_signal *a = find(handle);

	if (LIKELY(!a || WHAT(RELAXED(&a->state)) == IDLE))
		return;
	if (WHAT(RELAXED(&a->state)) == CROWDED) {
		atomic_fetch_add_explicit(&a->armed_value, delta, memory_order_relaxed);
		return;
	}
	switch (harvest(a)) {
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

/* The worker is between two loads, unless the runtime holds it up (it is asked to
 * convert times), or the caller's priority keeps it from running. */
static bool wait_for_hazard(uint64_t handle)
{
	uint64_t until = now_monotonic() + LOCK_WAIT_NS;

	while (atomic_load_explicit(&hazard, memory_order_seq_cst) == handle) {
		if (now_monotonic() > until)
			return false;
		sys_yield();
	}
	return true;
}

bool signal_before_destroy(uint64_t handle)
{
	struct app_signal *a = find(handle);

	if (LIKELY(!a))
		return true;
	empty(a); /* the next signal in this place starts alone */
	harvest_or_end(a, RTL_REASON_DESTROYED);
	if (UNLIKELY(atomic_load_explicit(&hazard, memory_order_seq_cst) == handle && !wait_for_hazard(handle)))
		return false;
	SET_RELAXED(&a->packets, 0);
	SET_RELAXED(&a->handle, handle | HANDLE_GONE);
	return true;
}

/*
 * Not known, and counting from more than one: packets that were published
 * before the attach may be in flight on it. Only a signal whose count was set
 * in this session is known to carry none.
 */
void signal_note_count(uint64_t handle, int64_t value)
{
	struct app_signal *a = value > 1 ? enter(handle) : NULL;
	uint64_t none = 0;

	if (a)
		atomic_compare_exchange_strong_explicit(&a->packets, &none, 1, memory_order_relaxed, memory_order_relaxed);
}

void signal_give_up(uint64_t ref, uint32_t reason)
{
	struct app_signal *a = &table[ref >> 32];

	if (atomic_load_explicit(&a->state, memory_order_acquire) == STATE((uint32_t)ref, PENDING))
		end_untimed(a, reason);
}

void signals_reset(void)
{
	forget_memory(table, SIGNALS * sizeof *table);
	atomic_store(&known, 0);
}
