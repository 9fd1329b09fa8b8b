/* publish.c: packets that are complete become visible to the hardware, each dispatch with
 * a signal that its times are read from. */
#include "kinds/dispatch/publish.h"

#include <string.h>

#include "core/runtime.h"
#include "core/session_flags.h"
#include "core/shared_hooks.h"
#include "kinds/dispatch/packets.h"
#include "kinds/dispatch/pool.h"
#include "kinds/dispatch/real_index.h"
#include "record/event.h"
#include "signals/signals.h"

typedef void (*store_fn)(hsa_signal_t, hsa_signal_value_t);

void queue_ring(struct queue *s, uint64_t index)
{
	NEXT(shared_hooks[STORE_SCRELEASE], store_fn)(s->doorbell, (hsa_signal_value_t)index);
}

static uint64_t lane(const struct queue *s)
{
	return lane_of(RTL_KIND_DISPATCH, s);
}

static void report_untimed(struct queue *s, const struct entry *entry, uint32_t reason)
{
	struct event e = {
		.kind = RTL_KIND_DISPATCH,
		.what = EVENT_UNTIMED,
		.reason = (uint8_t)reason,
		.generation = atomic_load_explicit(&session_flags.generation, memory_order_relaxed),
		.lane = lane(s),
	};

	memcpy(e.item, entry, sizeof e.item);
	if (event_push(&e))
		return;
	count_n(&counters->kind[RTL_KIND_DISPATCH].untimed[reason], 1);
	count_lost(RTL_KIND_DISPATCH, 1);
}

/* The claimer's stamp, if it is of this lap, and of this queue. */
static void read_stamp(struct queue *s, uint64_t index, struct entry *e)
{
	struct stamp *st = &s->stamps[index & s->mask];
	uint64_t owner = atomic_load_explicit(&st->owner, memory_order_acquire);
	uint64_t time = atomic_load_explicit(&st->time, memory_order_acquire);

	e->stamp = 0;
	e->call.tid = 0;
	if ((uint32_t)owner != (uint32_t)index || atomic_load_explicit(&st->owner, memory_order_relaxed) != owner ||
	    time < s->opened_at)
		return;
	e->stamp = time;
	e->call.tid = (uint32_t)(owner >> 32);
	e->call.flags |= ENTRY_STAMPED;
}

static void describe(struct queue *s, const hsa_kernel_dispatch_packet_t *p, int type, uint64_t index, struct entry *e)
{
	e->index = index;
	e->call.kernel_object = p->kernel_object;
	if (LIKELY(type == HSA_PACKET_TYPE_KERNEL_DISPATCH)) {
		e->call.grid[0] = p->grid_size_x;
		e->call.grid[1] = p->grid_size_y;
		e->call.grid[2] = p->grid_size_z;
	} else {
		extended_grid((const void *)p, e->call.grid);
	}
	e->call.workgroup[0] = p->workgroup_size_x;
	e->call.workgroup[1] = p->workgroup_size_y;
	e->call.workgroup[2] = p->workgroup_size_z;
	e->call.group_segment_bytes = p->group_segment_size;
	e->call.private_segment_bytes = p->private_segment_size;
	e->call.flags = p->header & (1u << HSA_PACKET_HEADER_BARRIER) ? ENTRY_BARRIER : 0;
	read_stamp(s, index, e);
}

static uint64_t take_signal(struct queue *s)
{
	uint64_t tail = atomic_load_explicit(&s->free_tail, memory_order_relaxed);

	if ((int64_t)(s->seen_free_head - tail) <= 0) /* <: pool_destroy_all() moves the tail */
		/* acquire: pairs with give() in pool.c */
		s->seen_free_head = atomic_load_explicit(&s->free_head, memory_order_acquire);
	if (tail == s->seen_free_head)
		return 0;
	uint64_t handle = s->free_signals[tail & (SIGNALS_PER_QUEUE - 1)];
	atomic_store_explicit(&s->free_tail, tail + 1, memory_order_release);
	return handle;
}

static bool is_backlog_full(struct queue *s, uint64_t head)
{
	if (LIKELY(head - s->seen_entry_tail < BACKLOG))
		return false;
	/* acquire: pairs with the worker's release in pending_take() */
	s->seen_entry_tail = atomic_load_explicit(&s->entry_tail, memory_order_acquire);
	return head - s->seen_entry_tail == BACKLOG;
}

/* A packet that is not timed still counts on its signal: other items on that signal could
 * get its times. */
static void pass(struct queue *s, hsa_signal_t signal)
{
	if (signal.handle)
		signal_arm(lane(s), signal.handle, NULL, false, NULL);
}

static void instrument(struct queue *s, hsa_kernel_dispatch_packet_t *p, int type, uint64_t index)
{
	uint64_t head = atomic_load_explicit(&s->entry_head, memory_order_relaxed);
	struct entry *e = &s->entries[head & (BACKLOG - 1)];
	uint32_t reason = RTL_REASON_NONE;
	struct entry overflow;

	bump(&s->dispatches);
	if (UNLIKELY(atomic_load_explicit(&session_flags.full, memory_order_relaxed))) {
		bump(&s->skipped_full); /* the ring would have no room for its times */
		pass(s, p->completion_signal);
		return;
	}
	if (is_backlog_full(s, head)) {
		describe(s, p, type, index, &overflow);
		report_untimed(s, &overflow, RTL_REASON_BACKLOG);
		pass(s, p->completion_signal);
		return;
	}
	describe(s, p, type, index, e);
	if (p->completion_signal.handle) {
		reason = signal_arm(lane(s), p->completion_signal.handle, e, e->call.flags & ENTRY_BARRIER, &e->signal);
		e->call.flags |= ENTRY_APP_SIGNAL;
	} else if (UNLIKELY(atomic_load_explicit(&s->withheld, memory_order_relaxed))) {
		reason = RTL_REASON_NO_SIGNAL;
	} else if ((e->signal = take_signal(s))) {
		p->completion_signal.handle = s->placed[index & s->mask] = e->signal;
	} else {
		bump(&s->starved);
		reason = RTL_REASON_NO_SIGNAL;
	}
	if (UNLIKELY(reason)) {
		report_untimed(s, e, reason);
		return;
	}
	atomic_store_explicit(&s->entry_head, head + 1, memory_order_release); /* pairs with the worker */
	/* Otherwise the next locked instruction waits for stores that miss. */
	prefetch_for_write(&s->entries[(head + 2) & (BACKLOG - 1)], sizeof *s->entries);
}

static bool is_dispatch(const hsa_kernel_dispatch_packet_t *p, int type)
{
	return type == HSA_PACKET_TYPE_KERNEL_DISPATCH ||
	       (type == HSA_PACKET_TYPE_VENDOR_SPECIFIC && vendor_format(p) == FORMAT_EXTENDED_DISPATCH);
}

/* Of the packets that are no dispatches. One of the vendor's is known to have a signal in the
 * same place. */
static bool has_signal(const hsa_kernel_dispatch_packet_t *p, int type)
{
	return type == HSA_PACKET_TYPE_BARRIER_AND || type == HSA_PACKET_TYPE_BARRIER_OR ||
	       (type == HSA_PACKET_TYPE_VENDOR_SPECIFIC && vendor_format(p) == HSA_AMD_PACKET_TYPE_BARRIER_VALUE);
}

/* A producer that writes only the fields that change leaves our signal of the last lap in
 * its packet, where it expects 0. */
static void clear_our_signal(struct queue *s, hsa_kernel_dispatch_packet_t *p, uint64_t index)
{
	uint64_t ours = s->placed[index & s->mask];

	if (!ours)
		return;
	s->placed[index & s->mask] = 0;
	if (UNLIKELY(p->completion_signal.handle == ours))
		p->completion_signal.handle = 0;
}

void queue_note_packet(struct queue *s, hsa_kernel_dispatch_packet_t *p, int type, uint64_t index)
{
	if (LIKELY(is_dispatch(p, type))) {
		clear_our_signal(s, p, index);
		instrument(s, p, type, index);
		return;
	}
	bump(&s->others);
	if (has_signal(p, type)) {
		clear_our_signal(s, p, index);
		pass(s, p->completion_signal);
	} else {
		s->placed[index & s->mask] = 0; /* its last words are its own */
	}
}

int packet_type(const hsa_kernel_dispatch_packet_t *p)
{
	/* acquire: pairs with the producer's release of the header: the packet's
	 * body and our stamp were written before. */
	return __atomic_load_n(&p->header, __ATOMIC_ACQUIRE) & 0xff;
}

uint64_t queue_read_index(const struct queue *s)
{
	return __atomic_load_n(s->read_index, __ATOMIC_ACQUIRE);
}

/*
 * Lock held, queue virtual. The read index is read before the headers: a slot
 * below it + size has been consumed in its previous lap, and its header was
 * set to INVALID then, so that a valid header is this lap's.
 */
bool queue_publish(struct queue *s)
{
	uint64_t claimed = atomic_load_explicit(&s->word, memory_order_acquire) & WORD_INDEX;
	uint64_t from = atomic_load_explicit(&s->scan, memory_order_relaxed), to = from, read;

	for (;;) {
		uint64_t limit = s->seen_read + s->size;

		for (; to < claimed && to < limit; to++) {
			hsa_kernel_dispatch_packet_t *p = &s->ring[to & s->mask];
			int type = packet_type(p);

			if (type == HSA_PACKET_TYPE_INVALID)
				goto incomplete;
			queue_note_packet(s, p, type, to);
		}
		if (to == claimed || (read = queue_read_index(s)) == s->seen_read)
			break;
		s->seen_read = read;
	}
incomplete:
	if (to == from || UNLIKELY(!(atomic_load_explicit(&s->word, memory_order_relaxed) & WORD_VIRT)))
		return false; /* nothing, or queue_forget() has set WORD_DEAD without the lock, for which it has waited two seconds: relaxed */
	atomic_store_explicit(&s->scan, to, memory_order_release);
	if (UNLIKELY(atomic_load_explicit(&s->ring_kind, memory_order_relaxed) != RING_OF_HOST))
		store_fence(); /* our signals are there before the index is, which is elsewhere */
	real_index_store(s, to);
	queue_ring(s, to - 1);
	return true;
}

void queue_help(struct queue *s, uint64_t word)
{
	uint64_t claimed = word & WORD_INDEX;
	uint64_t scan = atomic_load_explicit(&s->scan, memory_order_acquire);

	/* Only the first helper moves it: the real index is monotonic, so a late helper cannot
	 * move it back. */
	if (scan < claimed)
		real_index_move(s, scan, claimed);
	atomic_compare_exchange_strong_explicit(&s->word, &word, WORD_RAW, memory_order_acq_rel, memory_order_relaxed);
}

bool queue_kick(struct queue *s)
{
	uint64_t word = atomic_load_explicit(&s->word, memory_order_relaxed);
	bool moved = false;

	if (!(word & WORD_VIRT) || (word & WORD_INDEX) <= atomic_load_explicit(&s->scan, memory_order_relaxed))
		return false;
	queue_enter_ours(s);
	if (!runtime_is_lost() && queue_trylock(s)) {
		if (atomic_load(&s->word) & WORD_VIRT)
			moved = queue_publish(s);
		queue_unlock(s);
		queue_drain_pend(s);
	}
	queue_leave_ours(s);
	return moved;
}
