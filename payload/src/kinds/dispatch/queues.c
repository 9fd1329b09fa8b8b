#include "kinds/dispatch/queues.h"

#include <errno.h>
#include <string.h>

#include "core/runtime.h"
#include "core/session_flags.h"
#include "kinds/dispatch/pool.h"
#include "kinds/dispatch/queue_set.h"

#define TABLE_SIZE (2 * QUEUES_MAX) /* power of two, never more than half full */

struct queue *queue_all[QUEUES_MAX];
_Atomic uint32_t queue_count;

static _Atomic(struct queue *) table[TABLE_SIZE];
static struct queue tombstone; /* a place that a dead queue has left */
static _Atomic uint32_t discovering;
_Atomic uint32_t queue_untracked;

#define READY_MAX 64
static _Atomic(struct queue *) ready[READY_MAX];

static bool lock_wait(_Atomic uint32_t *lock, uint64_t timeout_ns)
{
	struct deadline d = deadline_in(timeout_ns);

	for (uint32_t turn = 0; !trylock(lock); turn++) {
		if (!deadline_left(&d))
			return false;
		if (d.looks)
			sys_sleep_ns(LAST_LOOK_NS);
		else
			sys_back_off(turn);
	}
	return true;
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
		/* seq_cst: pairs with table_put and queue_untracked; a plain load on x86 */
		struct queue *s = atomic_load_explicit(&table[i], memory_order_seq_cst);

		if (!s)
			return NULL;
		/* acquire: pairs with describe(). The caller compares hsa_id next, and
		 * s may have become another queue's since it was read from the table. */
		if (LIKELY(atomic_load_explicit(&s->hsa, memory_order_acquire) == q))
			return s;
	}
}

/* With discovering held: in old's place, or in the first free one. Also where
 * old ought to be and is not: a new session has emptied the table meanwhile. */
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
 * With discovering held. A tombstone is needed only where a search goes on past
 * it: those at the end of a run become free again. Else an application that
 * makes and destroys queues for long enough would leave no free place, and a
 * search for an unknown queue would never end.
 */
static void table_remove(const struct queue *s, const hsa_queue_t *q)
{
	uint32_t i = place_of(q);

	for (struct queue *here; (here = atomic_load(&table[i])) != s; i = next_place(i))
		if (!here)
			return; /* a new session has emptied the table meanwhile */
	atomic_store(&table[i], &tombstone);
	if (atomic_load(&table[next_place(i)]))
		return;
	for (; atomic_load(&table[i]) == &tombstone; i = (i - 1) & (TABLE_SIZE - 1))
		atomic_store(&table[i], NULL);
}

static struct queue *take_ready(void)
{
	for (int i = 0; i < READY_MAX; i++) {
		if (!atomic_load_explicit(&ready[i], memory_order_relaxed))
			continue;
		/* acquire: pairs with the release in put_ready */
		struct queue *s = atomic_exchange_explicit(&ready[i], NULL, memory_order_acquire);
		if (s)
			return s;
	}
	return NULL;
}

static bool put_ready(struct queue *s)
{
	for (int i = 0; i < READY_MAX; i++) {
		struct queue *none = NULL;

		if (atomic_compare_exchange_strong_explicit(&ready[i], &none, s, memory_order_release, memory_order_relaxed))
			return true;
	}
	return false;
}

static uint32_t count_ready(void)
{
	uint32_t n = 0;

	for (int i = 0; i < READY_MAX; i++)
		n += atomic_load_explicit(&ready[i], memory_order_relaxed) != NULL;
	return n;
}

/* Doorbells of hardware queues know their queue; those of soft queues and of
 * other tools' intercept queues are ordinary signals. */
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
	/* For good: it cannot be withdrawn safely. Newer runtimes take a lock for it and
	 * ask the driver for its clocks; the worker would come too late for a new queue's
	 * first dispatches. */
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
	s->window_generation = 0;
	atomic_store(&s->raw_claims, 0);
	atomic_store(&s->starved, 0);
	atomic_store(&s->handoff_drops, 0);
	atomic_store(&s->skipped_full, 0);
	s->want_signals = s->seen_starved = s->skipped_counted = 0;
	s->in_transit = 0;
	atomic_store(&s->released, 0);
	atomic_store(&s->destroyed, 0);
	enable_profiling(s, amd);
	atomic_store_explicit(&s->word, WORD_RAW, memory_order_relaxed);
	atomic_store_explicit(&s->hsa, q, memory_order_release); /* pairs with queue_find() */
	atomic_store_explicit(&s->in_use, 1, memory_order_release);
}

static queue_set foreign_seen, refused_seen, rung_seen;

void queue_rung(const hsa_queue_t *q)
{
	if (queue_set_has(rung_seen, q) || !trylock(&discovering))
		return; /* if somebody looks for a queue just now, the next doorbell says it */
	const struct queue *s = queue_find(q);

	if ((!s || s->hsa_id != q->id) && queue_set_add(rung_seen, q))
		COUNT(queues_seen);
	atomic_store_explicit(&discovering, 0, memory_order_release);
}

static bool is_recordable(const hsa_queue_t *q)
{
	uint32_t size = q->size;

	return has_hardware_doorbell(q) && size && size <= PACKETS_MAX && !(size & (size - 1));
}

/* With discovering held. */
static struct queue *discover(const hsa_queue_t *q)
{
	struct queue *old = queue_find(q);

	if (old && old->hsa_id == q->id)
		return old;
	struct queue *s = take_ready();
	if (!s) {
		if (queue_set_add(refused_seen, q))
			COUNT(queues_refused);
		return NULL;
	}
	if (!queue_set_remove(rung_seen, q))
		COUNT(queues_seen);
	describe(s, q);
	table_put(s, old, q);
	if (old) { /* destroyed and re-created while nobody listened */
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
	if (!trylock(&discovering))
		return NULL;
	s = discover(q);
	atomic_store_explicit(&discovering, 0, memory_order_release);
	return s;
}

enum { PART_STAMPS, PART_PLACED, PART_SIGNALS, PART_ENTRIES, PART_FILLED, PART_PENDING, PARTS };
static const size_t part_bytes[PARTS] = {
	[PART_STAMPS] = PACKETS_MAX * sizeof(struct stamp),
	[PART_PLACED] = PACKETS_MAX * sizeof(uint64_t),
	[PART_SIGNALS] = SIGNALS_PER_QUEUE * sizeof(uint64_t),
	[PART_ENTRIES] = BACKLOG * sizeof(struct entry),
	[PART_FILLED] = PACKETS_MAX / 8,
	[PART_PENDING] = PENDING_MAX * sizeof(struct entry),
};
#define STATE_BYTES ((sizeof(struct queue) + RTL_PAGE - 1) & ~(size_t)(RTL_PAGE - 1))

static size_t parts_size(void)
{
	size_t total = 0;

	for (int i = 0; i < PARTS; i++)
		total += part_bytes[i]; /* each a multiple of the page */
	return total;
}

#define ENTRIES_PER_PAGE (RTL_PAGE / sizeof(struct entry))
#define BACKED_READY 1024 /* entries of a state held ready */
#define BACKED_AHEAD 4096 /* entries of a queue in use */

/* The memory was given back at the end of the last session. */
static void nothing_is_backed(struct queue *s)
{
	s->backed = atomic_load(&s->entry_head) & ~(ENTRIES_PER_PAGE - 1);
	s->backed_end = s->backed + BACKLOG;
	s->slots_backed = 0;
}

/* All memory of a state at once, lazily backed: it costs what is touched. */
static struct queue *make_state(void)
{
	char *at = map_memory(STATE_BYTES + parts_size()), *part[PARTS];
	struct queue *s = (struct queue *)at;

	if (!at)
		return NULL;
	at += STATE_BYTES;
	for (int i = 0; i < PARTS; i++) {
		part[i] = at;
		at += part_bytes[i];
	}
	s->stamps = (struct stamp *)part[PART_STAMPS];
	s->placed = (uint64_t *)part[PART_PLACED];
	s->free_signals = (uint64_t *)part[PART_SIGNALS];
	s->entries = (struct entry *)part[PART_ENTRIES];
	s->filled = (uint64_t *)part[PART_FILLED];
	s->pending = (struct entry *)part[PART_PENDING];
	nothing_is_backed(s);
	atomic_store(&s->word, WORD_DEAD);
	return s;
}

static void back_entries(struct queue *s, uint64_t ahead)
{
	uint64_t to = atomic_load_explicit(&s->entry_head, memory_order_relaxed) + ahead;

	if (s->backed == s->backed_end || s->backed + ahead / 2 > to)
		return; /* all of them, or enough */
	to = to < s->backed_end ? to & ~(ENTRIES_PER_PAGE - 1) : s->backed_end;
	while (s->backed < to) {
		uint64_t at = s->backed & (BACKLOG - 1), n = to - s->backed;

		n = n < BACKLOG - at ? n : BACKLOG - at;
		back_memory(&s->entries[at], n * sizeof *s->entries);
		s->backed += n;
	}
}

void queue_back(struct queue *s)
{
	back_entries(s, BACKED_AHEAD);
	if (s->slots_backed)
		return;
	back_memory(s->stamps, s->size * sizeof *s->stamps);
	back_memory(s->placed, s->size * sizeof *s->placed);
	s->slots_backed = 1;
}

void queue_forget_memory(void)
{
	for (uint32_t i = 0; i < atomic_load(&queue_count); i++) {
		struct queue *s = queue_all[i];

		forget_memory((char *)s + STATE_BYTES, parts_size());
		/* A signal at an address of ours is the application's from now on. */
		clear_memory(s->placed, part_bytes[PART_PLACED]);
	}
}

static void reset(struct queue *s)
{
	s->id = s->open_emitted = s->close_emitted = 0;
	s->dead_since_ns = 0;
	s->settled = 0;
	atomic_store(&s->window_generation, 0);
	atomic_store(&s->aborts, 0);
	atomic_store(&s->skip, 0);
	atomic_store_explicit(&s->in_use, 0, memory_order_release);
}

bool queue_reset_all(void)
{
	if (!lock_wait(&discovering, LOCK_WAIT_NS))
		return false;
	for (uint32_t i = 0; i < TABLE_SIZE; i++)
		atomic_store(&table[i], NULL);
	for (int i = 0; i < READY_MAX; i++)
		atomic_store(&ready[i], NULL);
	queue_set_clear(foreign_seen);
	queue_set_clear(refused_seen);
	queue_set_clear(rung_seen);
	for (uint32_t i = 0; i < atomic_load(&queue_count); i++) {
		struct queue *s = queue_all[i];

		atomic_store(&s->word, WORD_DEAD);
		atomic_store(&s->hsa, NULL);
		s->pending_count = 0;
		atomic_store(&s->entry_tail, atomic_load(&s->entry_head));
		nothing_is_backed(s);
		reset(s);
		s->parked = put_ready(s);
	}
	atomic_store_explicit(&discovering, 0, memory_order_release);
	return true;
}

static int stock_ready(void)
{
	int err = 0;

	for (int i = 0; i < READY_MAX && !err; i++) {
		struct queue *s = atomic_load(&ready[i]);

		/* Taken by an application thread meanwhile: still ours to fill, the
		 * free signals have one producer. */
		if (!s)
			continue;
		back_entries(s, BACKED_READY);
		err = pool_fill(s, config.signal_pool);
	}
	return err;
}

/* A state of an earlier session for which the shelf had no room yet, or a new
 * one. NULL: no memory, or *none_left. */
static struct queue *another_state(bool *none_left)
{
	uint32_t count = atomic_load(&queue_count);
	struct queue *s;

	for (uint32_t i = 0; i < count; i++)
		if (!queue_all[i]->parked)
			return queue_all[i];
	*none_left = count == QUEUES_MAX;
	if (*none_left || !(s = make_state()))
		return NULL;
	queue_all[count] = s;
	atomic_store_explicit(&queue_count, count + 1, memory_order_release);
	return s;
}

int queue_make_ready(uint32_t n)
{
	while (count_ready() < n) {
		bool none_left = false;
		struct queue *s = another_state(&none_left);

		if (none_left)
			break; /* what is there is all there will be; queues_refused counts */
		if (!s)
			return -ENOMEM;
		s->parked = put_ready(s);
	}
	return stock_ready();
}

bool queue_lock_wait(struct queue *s, uint64_t timeout_ns)
{
	return lock_wait(&s->lock, timeout_ns);
}

void queue_await_ours(struct queue *s)
{
	struct deadline d = deadline_in(OURS_WAIT_MOST_NS);

	for (uint32_t turn = 0; atomic_load(&s->ours) && deadline_left(&d); turn++)
		sys_back_off(turn);
}

bool queue_lock_to_destroy(struct queue *s)
{
	if (queue_lock_wait(s, LOCK_WAIT_NS))
		return true;
	queue_await_ours(s);
	return queue_trylock(s);
}

void queue_forget(struct queue *s)
{
	const hsa_queue_t *q = atomic_load(&s->hsa);
	bool held = lock_wait(&discovering, LOCK_WAIT_NS);

	if (held) /* else it stays, and no search will take it for q */
		table_remove(s, q);
	atomic_store(&s->word, WORD_DEAD);
	atomic_store(&s->hsa, NULL);
	if (held)
		atomic_store_explicit(&discovering, 0, memory_order_release);
}

void queue_recycle(struct queue *s)
{
	if (atomic_load(&s->inflight) || !queue_trylock(s))
		return;
	reset(s);
	queue_unlock(s);
	if (!put_ready(s)) /* a full shelf: tried again next round */
		atomic_store_explicit(&s->in_use, 1, memory_order_release);
}
