/* queue_table.c: which state belongs to which queue. Any thread searches, without a lock; a
 * thread that meets a queue for the first time enters it. */
#include "kinds/dispatch/queue_table.h"

#include "core/runtime.h"
#include "core/session_flags.h"
#include "kinds/dispatch/gpus.h"
#include "kinds/dispatch/queue_set.h"

#define TABLE_SIZE (2 * QUEUES_MAX) /* power of two, never more than half full */

static _Atomic(struct queue *) table[TABLE_SIZE];
static struct queue tombstone; /* in a place that a destroyed queue has left */
static _Atomic uint32_t table_lock; /* application threads only try */
_Atomic uint32_t queue_untracked;

static queue_set foreign_seen, refused_seen, rung_seen;

bool queue_table_lock(void)
{
	return lock_wait(&table_lock, LOCK_WAIT_NS);
}

void queue_table_unlock(void)
{
	atomic_store_explicit(&table_lock, 0, memory_order_release); /* pairs with trylock() */
}

void queue_table_clear(void)
{
	for (uint32_t i = 0; i < TABLE_SIZE; i++)
		atomic_store(&table[i], NULL);
	queue_set_clear(foreign_seen);
	queue_set_clear(refused_seen);
	queue_set_clear(rung_seen);
}

static uint32_t place_of(const hsa_queue_t *q)
{
	/* Fibonacci hashing; queues are at least 256 bytes apart. */
	return (uint32_t)(((uint64_t)q >> 8) * 0x9E3779B97F4A7C15ull >> 40) & (TABLE_SIZE - 1);
}

static uint32_t next_place(uint32_t i)
{
	return (i + 1) & (TABLE_SIZE - 1);
}

struct queue *queue_find(const hsa_queue_t *q)
{
	for (uint32_t i = place_of(q);; i = next_place(i)) {
		/* seq_cst: pairs with table_put() and queue_untracked; a plain load on x86 */
		struct queue *s = atomic_load_explicit(&table[i], memory_order_seq_cst);

		if (!s)
			return NULL;
		/* acquire: pairs with the release in describe(). The caller compares hsa_id
		 * next: s may be the state of another queue since it was read from the table. */
		if (LIKELY(atomic_load_explicit(&s->hsa, memory_order_acquire) == q))
			return s;
	}
}

/* With the table's lock: enters s in the place of old, or in the first free one, also if
 * old is not in the table any more because a new session has emptied it. */
static void table_put(struct queue *s, const struct queue *old, const hsa_queue_t *q)
{
	for (uint32_t i = place_of(q);; i = next_place(i)) {
		struct queue *here = atomic_load_explicit(&table[i], memory_order_relaxed);

		if (!here || here == (old ? old : &tombstone)) {
			atomic_store_explicit(&table[i], s, memory_order_seq_cst);
			return;
		}
	}
}

/*
 * With the table's lock. A tombstone is needed only where a search goes on past it;
 * tombstones at the end of a run become free again. Otherwise an application that makes
 * and destroys enough queues would leave no free place, and a search for an unknown queue
 * would never end.
 */
static void table_remove(const struct queue *s, const hsa_queue_t *q)
{
	uint32_t i = place_of(q);

	for (struct queue *here; (here = atomic_load(&table[i])) != s; i = next_place(i))
		if (!here)
			return; /* a new session has emptied the table */
	atomic_store(&table[i], &tombstone);
	if (atomic_load(&table[next_place(i)]))
		return;
	for (; atomic_load(&table[i]) == &tombstone; i = (i - 1) & (TABLE_SIZE - 1))
		atomic_store(&table[i], NULL);
}

/* The doorbell of a hardware queue names its queue. Doorbells of soft queues and of other
 * tools' intercept queues are ordinary signals. */
static bool has_hardware_doorbell(const hsa_queue_t *q)
{
	const amd_signal_t *d = (const amd_signal_t *)q->doorbell_signal.handle;

	return d && (d->kind == AMD_SIGNAL_KIND_DOORBELL || d->kind == AMD_SIGNAL_KIND_LEGACY_DOORBELL) &&
	       (const hsa_queue_t *)d->queue_ptr == q;
}

static void enable_profiling(struct queue *s, const amd_queue_t *amd)
{
	s->profiled_by_us = !(amd->queue_properties & AMD_QUEUE_PROPERTIES_ENABLE_PROFILING);
	if (!s->profiled_by_us)
		return;
	/* It stays on: it cannot be turned off safely. Newer runtimes take a lock for this
	 * call and ask the driver for its clocks. The worker does not make it, because it would
	 * come too late for the first dispatches of a new queue. */
	rt.set_profiling((hsa_queue_t *)&amd->hsa_queue, 1);
	__atomic_fetch_add(&control->queues_profiled, 1, __ATOMIC_RELAXED);
}

static void describe(struct queue *s, const hsa_queue_t *q)
{
	amd_queue_t *amd = (amd_queue_t *)q;

	s->hsa_id = q->id;
	s->address = (uint64_t)q;
	s->type = q->type;
	s->ring = q->base_address;
	s->size = q->size;
	s->mask = q->size - 1;
	s->write_index = &amd->write_dispatch_id;
	s->read_index = &amd->read_dispatch_id;
	s->doorbell = q->doorbell_signal;
	s->agent = 0;
	atomic_store(&s->ring_kind, RING_UNKNOWN);
	atomic_store(&s->withheld, 0);
	s->window_generation = 0;
	atomic_store(&s->raw_claims, 0);
	atomic_store(&s->starved, 0);
	atomic_store(&s->handoff_drops, 0);
	atomic_store(&s->skipped_full, 0);
	s->want_signals = s->seen_starved = s->skipped_counted = 0;
	s->seen_taken = atomic_load(&s->free_tail);
	s->in_transit = 0;
	atomic_store(&s->released, 0);
	atomic_store(&s->destroyed, 0);
	s->excluded = gpus_exclude(q);
	s->profiled_by_us = 0;
	if (!s->excluded)
		enable_profiling(s, amd);
	atomic_store_explicit(&s->word, WORD_RAW, memory_order_relaxed);
	atomic_store_explicit(&s->hsa, q, memory_order_release); /* pairs with queue_find() */
	atomic_store_explicit(&s->in_use, 1, memory_order_release);
}

void queue_rung(const hsa_queue_t *q)
{
	if (queue_set_has(rung_seen, q) || !trylock(&table_lock))
		return; /* another thread has the table's lock: the next doorbell counts */
	const struct queue *s = queue_find(q);

	if ((!s || s->hsa_id != q->id) && queue_set_add(rung_seen, q) && !gpus_exclude(q))
		COUNT(queues_seen);
	queue_table_unlock();
}

static bool is_recordable(const hsa_queue_t *q)
{
	uint32_t size = q->size;

	return has_hardware_doorbell(q) && size && size <= PACKETS_MAX && !(size & (size - 1));
}

/* With the table's lock. */
static struct queue *discover(const hsa_queue_t *q)
{
	struct queue *old = queue_find(q);

	if (old && old->hsa_id == q->id)
		return old;
	struct queue *s = queue_take_ready();
	if (!s) {
		if (queue_set_add(refused_seen, q))
			COUNT(queues_refused);
		return NULL;
	}
	describe(s, q);
	if (s->excluded)
		COUNT(queues_excluded);
	if (!queue_set_remove(rung_seen, q) && !s->excluded)
		COUNT(queues_seen);
	table_put(s, old, q);
	if (old) { /* destroyed past our wrapper, and made again at the same address */
		atomic_store(&old->word, WORD_DEAD);
		atomic_store(&old->hsa, NULL);
		atomic_store(&old->destroyed, 1);
	}
	return s;
}

struct queue *queue_get(const hsa_queue_t *q, bool *foreign)
{
	struct queue *s = queue_find(q);

	*foreign = false;
	if (LIKELY(s && s->hsa_id == q->id))
		return s;
	if (!is_recordable(q)) {
		*foreign = true;
		if (queue_set_add(foreign_seen, q))
			COUNT(queues_foreign);
		return NULL;
	}
	if (!atomic_load_explicit(&session_flags.track, memory_order_acquire))
		return NULL;
	if (!trylock(&table_lock))
		return NULL;
	s = discover(q);
	queue_table_unlock();
	return s;
}

void queue_forget(struct queue *s)
{
	const hsa_queue_t *q = atomic_load(&s->hsa);
	bool held = queue_table_lock();

	if (held) /* else it stays in the table, and no search finds it: its hsa is NULL */
		table_remove(s, q);
	atomic_store(&s->word, WORD_DEAD);
	atomic_store(&s->hsa, NULL);
	if (held)
		queue_table_unlock();
}
