/* doorbell.c: functions that store to a signal. A doorbell publishes packets; any other
 * signal may be the completion signal of a pending item. */
#include <hsa/amd_hsa_signal.h>

#include "core/session_flags.h"
#include "core/shared_hooks.h"
#include "kinds/dispatch/publish.h"
#include "kinds/dispatch/real_index.h"
#include "signals/signals.h"
#include "wrappers.h"

typedef void (*store_fn)(hsa_signal_t, hsa_signal_value_t);

/* Lock held: does what a doorbell asks for, in whatever state the queue is now. */
static void serve(struct queue *s)
{
	uint64_t word = atomic_load_explicit(&s->word, memory_order_acquire);

	if (word & WORD_DEAD || UNLIKELY(atomic_load_explicit(&s->released, memory_order_relaxed) && queue_is_gone(s)))
		return;
	if (word & WORD_VIRT) {
		if (!queue_publish(s) && queue_read_index(s) < s->base)
			queue_ring(s, s->base - 1); /* the hardware has not consumed the raw ones */
		return;
	}
	if (word & WORD_CLOSED)
		queue_help(s, word);
	uint64_t written = real_index_load(s);
	if (written)
		queue_ring(s, written - 1);
}

/* Makes the lock's holder look again. */
static void set_pending(struct queue *s)
{
	atomic_exchange_explicit(&s->pend, 1, memory_order_seq_cst);
}

static void clear_pending(struct queue *s)
{
	atomic_exchange_explicit(&s->pend, 0, memory_order_seq_cst);
}

void queue_drain_pend(struct queue *s)
{
	while (atomic_load_explicit(&s->pend, memory_order_seq_cst) && queue_trylock(s)) {
		clear_pending(s);
		serve(s);
		queue_unlock(s);
	}
}

void queue_bell(struct queue *s, hsa_signal_t doorbell, hsa_signal_value_t value, store_fn next)
{
	uint64_t word = atomic_load_explicit(&s->word, memory_order_acquire);

	if (!(word & WORD_VIRT)) {
		if (word & WORD_CLOSED)
			queue_help(s, word);
		next(doorbell, value);
		if (LIKELY(word != WORD_TRANS))
			return;
		/* The flip in progress may include this packet. */
		set_pending(s);
		queue_drain_pend(s);
		return;
	}
	/* Claimed raw: the hardware owns that slot. Or the caller has slept here until s was
	 * the state of another queue. */
	if (UNLIKELY((uint64_t)value < s->base || doorbell.handle != s->doorbell.handle))
		next(doorbell, value);
	if (!queue_trylock(s)) {
		set_pending(s);
		queue_drain_pend(s);
		return;
	}
	if (atomic_load_explicit(&s->pend, memory_order_relaxed))
		clear_pending(s); /* this thread serves it now */
	serve(s);
	queue_unlock(s);
	queue_drain_pend(s);
}

static void bell(hsa_signal_t doorbell, const hsa_queue_t *q, hsa_signal_value_t value, store_fn next)
{
	struct queue *s = queue_find(q);

	if (LIKELY(s && s->hsa_id == q->id)) {
		queue_bell(s, doorbell, value, next);
		return;
	}
	/* No index call of this queue has been seen: either its slots were
	 * claimed before the attach, or its producer keeps an index of its own. */
	COUNT(bells_unindexed);
	queue_rung(q);
	next(doorbell, value);
}

static inline void store(hsa_signal_t signal, hsa_signal_value_t value, store_fn next)
{
	const amd_signal_t *hw = (const amd_signal_t *)signal.handle;

	if (UNLIKELY(!tracking())) {
		next(signal, value);
		return;
	}
	if (hw->kind < 0) { /* AMD_SIGNAL_KIND_DOORBELL or _LEGACY_DOORBELL */
		bell(signal, &hw->queue_ptr->hsa_queue, value, next);
		return;
	}
	signal_before_set(signal.handle);
	next(signal, value);
}

void wrap_store_relaxed(hsa_signal_t s, hsa_signal_value_t v)
{
	store(s, v, NEXT(shared_hooks[STORE_RELAXED], store_fn));
}

void wrap_store_screlease(hsa_signal_t s, hsa_signal_value_t v)
{
	store(s, v, NEXT(shared_hooks[STORE_SCRELEASE], store_fn));
}

void wrap_silent_store_relaxed(hsa_signal_t s, hsa_signal_value_t v)
{
	store(s, v, NEXT(shared_hooks[SILENT_STORE_RELAXED], store_fn));
}

void wrap_silent_store_screlease(hsa_signal_t s, hsa_signal_value_t v)
{
	store(s, v, NEXT(shared_hooks[SILENT_STORE_SCRELEASE], store_fn));
}
