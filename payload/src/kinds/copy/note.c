/* note.c: what a thread does that submits a copy. No lock, no wait, no system call. */
#include "kinds/copy/copy.h"

#include <string.h>

#include "core/fault.h"
#include "core/session_flags.h"
#include "signals/signals.h"

_Atomic uint64_t copies_dropped;

/* Copies are noted; and the threads that are noting one. seq_cst, both: such a thread counts
 * itself, and then reads is_open; copies_close() clears is_open, and then reads inside. */
static _Atomic uint32_t is_open, inside;

void copies_open(void)
{
	atomic_store(&is_open, 1);
}

uint32_t copies_close(const struct ending *end, uint64_t until_ns)
{
	uint64_t most = now_monotonic() + COPIES_CLOSE_NS, until = most < until_ns ? most : until_ns;

	(void)end;
	atomic_store(&is_open, 0);
	for (uint32_t turn = 0; atomic_load(&inside); turn++) {
		if (now_monotonic() > until)
			return 1;
		sys_back_off(turn);
	}
	return fault_at("copies") != 0;
}

/* The queue of events is full: the worker does not get this copy. */
static void count_undelivered(const struct copy_note *n, uint32_t reason)
{
	COUNT(kind[RTL_KIND_MEMORY_COPY].begun);
	if (reason == RTL_REASON_NONE && !signal_drop(n->item.ref)) {
		atomic_fetch_sub(&copies_dropped, 1); /* another thread hands its outcome over */
		return;
	}
	COUNT(kind[RTL_KIND_MEMORY_COPY].untimed[reason ? reason : RTL_REASON_BACKLOG]);
	count_lost(RTL_KIND_MEMORY_COPY, 1);
}

static void note(struct copy_note *n, uint64_t signal)
{
	struct copy_item *item = &n->item;

	item->stamp = stamp_time();
	item->tid = current_tid();
	uint32_t reason = signal_arm(COPY_LANE, signal, item, false, &item->ref);
	struct event e; /* of its body, copy_take() reads the item and the signal only */

	e.kind = RTL_KIND_MEMORY_COPY;
	e.what = reason ? EVENT_UNTIMED : COPY_BEGUN;
	e.reason = (uint8_t)reason;
	e.in_transit = 0;
	e.generation = n->generation;
	e.signal = signal;
	memcpy(e.item, item, sizeof e.item);
	if (event_push(&e))
		n->noted = reason == RTL_REASON_NONE;
	else
		count_undelivered(n, reason);
}

void copy_note(struct copy_note *n, hsa_signal_t signal)
{
	n->noted = false;
	if (!is_original_process() || !signal.handle || LIKELY(!atomic_load_explicit(&is_open, memory_order_relaxed)))
		return;
	atomic_fetch_add(&inside, 1);
	n->generation = atomic_load(&session_flags.generation);
	if (atomic_load(&is_open))
		note(n, signal.handle);
	atomic_fetch_sub(&inside, 1);
}

static void undo_note(const struct copy_note *n)
{
	struct event e = {.kind = RTL_KIND_MEMORY_COPY, .what = COPY_REFUSED, .in_transit = 1, .generation = n->generation};

	if (atomic_load(&session_flags.generation) != n->generation || !signal_drop(n->item.ref))
		return; /* it has an outcome already, if a wrong one */
	if (event_push(&e))
		return;
	atomic_fetch_add(&copies_dropped, 1);
	__atomic_fetch_sub(&counters->kind[RTL_KIND_MEMORY_COPY].begun, 1, __ATOMIC_RELAXED);
}

hsa_status_t copy_submitted(const struct copy_note *n, hsa_status_t status)
{
	if (UNLIKELY(n->noted && status != HSA_STATUS_SUCCESS))
		undo_note(n);
	return status;
}
