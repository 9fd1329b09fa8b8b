/* flip.c: how a queue turns virtual, and raw again (queues.h has the states). */
#include "core/session_flags.h"
#include "kinds/dispatch/dispatch.h"
#include "kinds/dispatch/publish.h"
#include "kinds/dispatch/real_index.h"
#include "record/event.h"

/*
 * Entrants that see TRANS stay out for a moment, a little longer after each
 * abort, so that a queue under constant load flips in the end; no thread waits for
 * more than some microseconds.
 */
#define FLIP_LOOKS 64

static bool no_thread_is_raw(struct queue *s)
{
	for (int i = 0; i < FLIP_LOOKS; i++) {
		if (atomic_load_explicit(&s->word, memory_order_relaxed) != WORD_TRANS)
			return false; /* an entrant aborted it */
		if (!atomic_load_explicit(&s->inflight, memory_order_seq_cst) &&
		    !atomic_load_explicit(&queue_untracked, memory_order_seq_cst))
			return true;
		cpu_relax();
	}
	return false;
}

static void open_window(struct queue *s, uint64_t index)
{
	atomic_store_explicit(&s->scan, index, memory_order_relaxed);
	s->base = index;
	s->seen_read = queue_read_index(s);
	s->before = index > s->seen_read ? index - s->seen_read : 0;
	atomic_store(&s->dispatches, 0);
	atomic_store(&s->others, 0);
	s->after = 0;
	atomic_store(&s->withheld, 0);
	s->opened_ns = now_boottime();
	s->opened_at = stamp_time();
	atomic_store(&s->window_closed, 0);
}

/* Lock held, session_flags.flips set. */
static void flip(struct queue *s)
{
	uint64_t word = WORD_RAW;

	/* seq_cst, here and on inflight: an entrant counts itself and then reads
	 * the word; we write the word and then read the count. */
	if (!atomic_compare_exchange_strong_explicit(&s->word, &word, WORD_TRANS, memory_order_seq_cst, memory_order_relaxed))
		return;
	bool alone = no_thread_is_raw(s);
	uint64_t index = real_index_load(s);

	word = WORD_TRANS;
	if (alone) {
		open_window(s, index);
		if (atomic_compare_exchange_strong_explicit(&s->word, &word, WORD_VIRT | index, memory_order_seq_cst,
							    memory_order_relaxed)) {
			/* The window is open, and nothing is published before this
			 * thread unlocks. release: pairs with has_window() in emit.c. */
			atomic_store_explicit(&s->window_generation, atomic_load(&session_flags.generation), memory_order_release);
			COUNT(flips);
			return;
		}
	}
	atomic_compare_exchange_strong_explicit(&s->word, &word, WORD_RAW, memory_order_seq_cst, memory_order_relaxed);
	COUNT(flip_aborts);
	uint32_t aborts = atomic_fetch_add_explicit(&s->aborts, 1, memory_order_relaxed);
	atomic_store_explicit(&s->skip, aborts < 8 ? 1u << aborts : 256, memory_order_relaxed);
}

void queue_try_flip(struct queue *s)
{
	uint32_t skip = atomic_load_explicit(&s->skip, memory_order_relaxed);

	if (s->excluded)
		return;
	if (skip) {
		atomic_store_explicit(&s->skip, skip - 1, memory_order_relaxed);
		return;
	}
	if (!queue_trylock(s))
		return;
	/* Read again under the lock: disarming clears flips and then takes this lock, so no
	 * queue flips after that. */
	if (atomic_load(&session_flags.flips) && atomic_load(&s->window_generation) != atomic_load(&session_flags.generation))
		flip(s);
	queue_unlock(s);
	queue_drain_pend(s);
}

static void mark_filled(struct queue *s, uint64_t index, bool filled)
{
	uint64_t slot = index & s->mask, bit = 1ull << slot % 64;

	s->filled[slot / 64] = filled ? s->filled[slot / 64] | bit : s->filled[slot / 64] & ~bit;
}

static bool was_filled(const struct queue *s, uint64_t index)
{
	uint64_t slot = index & s->mask;

	return s->filled[slot / 64] >> slot % 64 & 1;
}

/* Complete packets beyond an incomplete one are still hidden from the
 * hardware: instrument them too. Marks in s->filled which were. */
static void instrument_beyond_gaps(struct queue *s, uint64_t from, uint64_t claimed)
{
	uint64_t limit = queue_read_index(s) + s->size;

	for (uint64_t at = from; at < claimed && at - from < s->size; at++) {
		hsa_kernel_dispatch_packet_t *p = &s->ring[at & s->mask];
		int type = at < limit ? packet_type(p) : HSA_PACKET_TYPE_INVALID;

		mark_filled(s, at, type != HSA_PACKET_TYPE_INVALID);
		if (type != HSA_PACKET_TYPE_INVALID)
			queue_note_packet(s, p, type, at);
	}
}

uint64_t queue_packet_after(const struct queue *s, uint64_t slot)
{
	uint64_t published = atomic_load_explicit(&s->scan, memory_order_relaxed);
	uint64_t next = published + ((slot - published) & s->mask);
	bool beyond_gap = atomic_load_explicit(&s->window_closed, memory_order_relaxed) && next < s->closed_index && was_filled(s, next);

	return beyond_gap ? next + s->size : next;
}

/* On a thread of ours, or one that destroys its queue. Waits until the worker has taken
 * events; if the worker does not get on, once in a session only. */
static bool push_patiently(const struct event *e)
{
	static _Atomic uint32_t held_up; /* in this generation */
	uint64_t until = now_monotonic() + CLOSE_PUSH_MOST_NS;
	bool pushed;

	for (uint32_t turn = 0; !(pushed = event_push(e)) && events_have_consumer() && atomic_load(&held_up) != atomic_load(&session_flags.generation); turn++) {
		if (now_monotonic() > until)
			atomic_store(&held_up, atomic_load(&session_flags.generation));
		sys_back_off(turn);
	}
	return pushed;
}

static void report_range(struct queue *s, uint64_t from, uint64_t count)
{
	struct event e = {
		.kind = RTL_KIND_DISPATCH,
		.what = DISPATCH_RANGE,
		.reason = RTL_REASON_AFTER_DETACH,
		.generation = atomic_load(&session_flags.generation),
		.body = {[RANGE_QUEUE] = (uint64_t)s, [RANGE_FROM] = from, [RANGE_COUNT] = count},
	};

	if (!count)
		return;
	s->after += count;
	if (!push_patiently(&e)) {
		COUNT_N(kind[RTL_KIND_DISPATCH].untimed[RTL_REASON_AFTER_DETACH], count);
		count_lost(RTL_KIND_DISPATCH, 1);
	}
}

static void report_unpublished(struct queue *s, uint64_t from, uint64_t claimed)
{
	uint64_t first = from;

	for (uint64_t at = from; at < claimed; at++) {
		if (at - from >= s->size || !was_filled(s, at))
			continue;
		report_range(s, first, at - first);
		first = at + 1;
	}
	report_range(s, first, claimed - first);
}

void queue_close(struct queue *s)
{
	uint64_t word = atomic_load(&s->word);

	if (!(word & WORD_VIRT))
		return;
	queue_publish(s);
	uint64_t scan = atomic_load(&s->scan), looked_to = atomic_load(&s->word) & WORD_INDEX;
	instrument_beyond_gaps(s, scan, looked_to);
	word = atomic_load(&s->word);
	do {
		if (!(word & WORD_VIRT))
			return; /* destroyed past the lock */
	} while (!atomic_compare_exchange_weak_explicit(&s->word, &word, (word & WORD_INDEX) | WORD_CLOSED, memory_order_acq_rel,
						      memory_order_acquire));
	uint64_t claimed = word & WORD_INDEX;
	for (uint64_t at = looked_to; at < claimed && at - scan < s->size; at++)
		mark_filled(s, at, false); /* claimed since */
	queue_help(s, claimed | WORD_CLOSED);
	if (claimed != scan)
		queue_ring(s, claimed - 1);
	s->closed_index = claimed;
	s->closed_ns = now_boottime();
	report_unpublished(s, scan, claimed);
	atomic_store_explicit(&s->window_closed, 1, memory_order_release);
}
