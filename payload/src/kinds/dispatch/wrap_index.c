/*
 * wrap_index.c: the write-index functions. A virtual queue's producers claim
 * from its word; those of a raw queue call the runtime, and are counted for flips.
 */
#include "core/session_flags.h"
#include "kinds/dispatch/hooks.h"
#include "kinds/dispatch/publish.h"
#include "kinds/dispatch/real_index.h"

typedef uint64_t (*add_fn)(const hsa_queue_t *, uint64_t);
typedef uint64_t (*cas_fn)(const hsa_queue_t *, uint64_t, uint64_t);
typedef void (*store_fn)(const hsa_queue_t *, uint64_t);
typedef uint64_t (*load_fn)(const hsa_queue_t *);

static inline void stamp_one(struct queue *s, uint64_t index, uint64_t time, uint64_t owner)
{
	struct stamp *st = &s->stamps[index & s->mask];

	atomic_store_explicit(&st->owner, 0, memory_order_relaxed);
	atomic_store_explicit(&st->time, time, memory_order_release);
	atomic_store_explicit(&st->owner, owner << 32 | (uint32_t)index, memory_order_release);
}

static bool is_among(struct queue *s, uint32_t scrubbing, uint64_t index, uint64_t count)
{
	return scrubbing && ((scrubbing - 1 - index) & s->mask) < count;
}

/* Some nanoseconds, unless our thread loses its CPU between two instructions. */
static __attribute__((noinline, cold)) void await_scrub(struct queue *s, uint64_t index, uint64_t count)
{
	for (uint32_t turn = 0; is_among(s, atomic_load_explicit(&s->scrubbing, memory_order_acquire), index, count); turn++)
		sys_back_off(turn);
}

/* After a claim, whose exchange is seq_cst: see queue.scrubbing. */
static inline void stamp(struct queue *s, uint64_t index, uint64_t count)
{
	if (UNLIKELY(atomic_load_explicit(&s->scrubbing, memory_order_seq_cst)))
		await_scrub(s, index, count);
	uint64_t time = stamp_time(), tid = current_tid();

	for (uint64_t i = 0; i < count && i < s->size; i++)
		stamp_one(s, index + i, time, tid);
}

#define CLAIM_MOST INT32_MAX /* slots at once; more is an index that goes back */

#define PATIENCE_LOOKS 128 /* at most some microseconds */
#define ABORTS_BEFORE_PATIENCE 16

/* Waits for a flip in progress for a moment, if flips have failed before. */
static void let_flip(struct queue *s)
{
	if (atomic_load_explicit(&s->aborts, memory_order_relaxed) < ABORTS_BEFORE_PATIENCE)
		return;
	for (int i = 0; i < PATIENCE_LOOKS && atomic_load_explicit(&s->word, memory_order_relaxed) == WORD_TRANS; i++)
		cpu_relax();
}

/*
 * True: the caller is counted in inflight and may call the raw function.
 * False: the queue is virtual now, look at the word again.
 */
static bool enter_raw(struct queue *s)
{
	if (atomic_load_explicit(&session_flags.flips, memory_order_relaxed) &&
	    atomic_load_explicit(&s->word, memory_order_relaxed) == WORD_RAW) {
		queue_try_flip(s);
		if (atomic_load_explicit(&s->word, memory_order_relaxed) & WORD_VIRT)
			return false;
	}
	let_flip(s);
	/* seq_cst, both: see flip() in flip.c */
	atomic_fetch_add_explicit(&s->inflight, 1, memory_order_seq_cst);
	for (;;) {
		uint64_t word = atomic_load_explicit(&s->word, memory_order_seq_cst);

		if (word == WORD_RAW || (word & WORD_DEAD))
			return true;
		if (word == WORD_TRANS) /* aborts the flip instead of waiting for it */
			atomic_compare_exchange_strong_explicit(&s->word, &word, WORD_RAW, memory_order_seq_cst,
								memory_order_relaxed);
		else if (word & WORD_CLOSED)
			queue_help(s, word);
		else
			break;
	}
	atomic_fetch_sub_explicit(&s->inflight, 1, memory_order_seq_cst);
	return false;
}

/* s NULL: the queue has no state. */
static void count_raw(struct queue *s, uint64_t slots)
{
	if (!slots || slots > CLAIM_MOST || (s && s->excluded))
		return;
	if (s)
		atomic_fetch_add_explicit(&s->raw_claims, slots, memory_order_relaxed);
	COUNT_N(raw_claims, slots);
}

/* slots: how many were claimed. */
static void leave_raw(struct queue *s, uint64_t slots)
{
	if (atomic_load_explicit(&session_flags.flips, memory_order_relaxed))
		count_raw(s, slots);
	atomic_fetch_sub_explicit(&s->inflight, 1, memory_order_seq_cst);
}

/*
 * The state of q. NULL: the caller uses q raw; *untracked: it is counted in queue_untracked,
 * and calls leave_untracked() afterwards.
 */
static struct queue *state_of(const hsa_queue_t *q, bool *untracked)
{
	bool foreign;
	struct queue *s = queue_get(q, &foreign);

	*untracked = false;
	if (s || foreign)
		return s;
	atomic_fetch_add_explicit(&queue_untracked, 1, memory_order_seq_cst); /* then look again: queues.h */
	s = queue_find(q);
	if (s && s->hsa_id == q->id) {
		atomic_fetch_sub_explicit(&queue_untracked, 1, memory_order_seq_cst);
		return s;
	}
	*untracked = true;
	return NULL;
}

/* Another thread may have entered the queue in the table meanwhile. It does not flip before
 * this thread has left. */
static void leave_untracked(const hsa_queue_t *q, bool untracked, uint64_t slots)
{
	if (!untracked)
		return;
	struct queue *s = queue_find(q);
	count_raw(s && s->hsa_id == q->id ? s : NULL, slots);
	atomic_fetch_sub_explicit(&queue_untracked, 1, memory_order_seq_cst);
}

/* The slots that a store to the index of a queue without a state claims, if no other thread claims
 * meanwhile. */
static uint64_t slots_to(const hsa_queue_t *q, uint64_t value)
{
	return value - __atomic_load_n(&((const amd_queue_t *)q)->write_dispatch_id, __ATOMIC_RELAXED);
}

static inline bool is_claim(uint64_t word, uint64_t to)
{
	return LIKELY(to - (word & WORD_INDEX) <= CLAIM_MOST);
}

/*
 * Undefined by HSA: an index that goes back, or far beyond any ring. The queue
 * turns raw for the rest of the session, and the call does what it does without a session.
 * False: this thread itself is inside the queue's doorbell, below a signal handler; then
 * the call has no effect.
 */
static bool turn_raw(struct queue *s)
{
	if (!queue_lock_wait(s, LOCK_WAIT_NS))
		return false;
	queue_close(s);
	queue_unlock(s);
	queue_drain_pend(s);
	return true;
}

static __attribute__((noinline)) uint64_t add_slow(const hsa_queue_t *q, uint64_t n, add_fn next)
{
	bool untracked;
	struct queue *s = state_of(q, &untracked);
	uint64_t index;

	if (!s) {
		index = next(q, n);
		leave_untracked(q, untracked, n);
		return index;
	}
	for (;;) {
		uint64_t word = atomic_load_explicit(&s->word, memory_order_acquire);

		/* CAS, never fetch_add: that would count into the tags */
		while (word & WORD_VIRT) {
			if (!is_claim(word, (word & WORD_INDEX) + n)) {
				if (!turn_raw(s))
					return word & WORD_INDEX;
				break;
			}
			if (!atomic_compare_exchange_weak_explicit(&s->word, &word, word + n, memory_order_seq_cst,
								   memory_order_acquire))
				continue;
			stamp(s, word & WORD_INDEX, n);
			return word & WORD_INDEX;
		}
		if (!enter_raw(s))
			continue;
		index = next(q, n);
		leave_raw(s, n);
		return index;
	}
}

static inline uint64_t add(const hsa_queue_t *q, uint64_t n, add_fn next)
{
	if (UNLIKELY(!tracking()))
		return next(q, n);
	struct queue *s = queue_find(q);
	if (LIKELY(s && s->hsa_id == q->id && n <= CLAIM_MOST)) {
		uint64_t word = atomic_load_explicit(&s->word, memory_order_relaxed);

		while (LIKELY(word & WORD_VIRT)) {
			if (LIKELY(atomic_compare_exchange_weak_explicit(&s->word, &word, word + n, memory_order_seq_cst,
									 memory_order_relaxed))) {
				stamp(s, word & WORD_INDEX, n);
				return word & WORD_INDEX;
			}
		}
	}
	return add_slow(q, n, next);
}

static uint64_t cas(const hsa_queue_t *q, uint64_t expected, uint64_t value, cas_fn next)
{
	bool untracked;
	uint64_t was;

	if (UNLIKELY(!tracking()))
		return next(q, expected, value);
	struct queue *s = state_of(q, &untracked);
	if (!s) {
		was = next(q, expected, value);
		leave_untracked(q, untracked, was == expected ? value - expected : 0);
		return was;
	}
	for (;;) {
		uint64_t word = atomic_load_explicit(&s->word, memory_order_acquire);

		while (word & WORD_VIRT) {
			if ((word & WORD_INDEX) != expected)
				return word & WORD_INDEX;
			if (!is_claim(word, value)) {
				if (!turn_raw(s))
					return expected;
				break;
			}
			if (!atomic_compare_exchange_weak_explicit(&s->word, &word, WORD_VIRT | value, memory_order_seq_cst,
								   memory_order_acquire))
				continue;
			stamp(s, expected, value - expected);
			return expected;
		}
		if (!enter_raw(s))
			continue;
		was = next(q, expected, value);
		leave_raw(s, was == expected ? value - expected : 0);
		return was;
	}
}

static void store(const hsa_queue_t *q, uint64_t value, store_fn next)
{
	bool untracked;

	if (UNLIKELY(!tracking())) {
		next(q, value);
		return;
	}
	struct queue *s = state_of(q, &untracked);
	uint64_t slots;
	if (!s) {
		slots = untracked ? slots_to(q, value) : 0; /* a foreign one may be no amd_queue_t */
		next(q, value);
		leave_untracked(q, untracked, slots);
		return;
	}
	for (;;) {
		uint64_t word = atomic_load_explicit(&s->word, memory_order_acquire);

		while (word & WORD_VIRT) {
			if (!is_claim(word, value)) {
				if (!turn_raw(s))
					return;
				break;
			}
			if (!atomic_compare_exchange_weak_explicit(&s->word, &word, WORD_VIRT | value, memory_order_seq_cst,
								   memory_order_acquire))
				continue;
			stamp(s, word & WORD_INDEX, value - (word & WORD_INDEX));
			return;
		}
		if (!enter_raw(s))
			continue;
		slots = value - real_index_load(s);
		next(q, value);
		leave_raw(s, slots);
		return;
	}
}

static uint64_t load(const hsa_queue_t *q, load_fn next)
{
	if (UNLIKELY(!is_original_process()))
		return next(q);
	struct queue *s = queue_find(q);
	if (s && s->hsa_id == q->id) {
		uint64_t word = atomic_load_explicit(&s->word, memory_order_acquire);

		if (word & (WORD_VIRT | WORD_CLOSED))
			return word & WORD_INDEX;
	}
	return next(q);
}

#define INDEX_WRAPPERS(ORDER, order)                                                                  \
	uint64_t wrap_index_add_##order(const hsa_queue_t *q, uint64_t n)                             \
	{                                                                                             \
		return add(q, n, NEXT(dispatch_hooks[INDEX_ADD_##ORDER], add_fn));                                    \
	}                                                                                             \
	uint64_t wrap_index_cas_##order(const hsa_queue_t *q, uint64_t expected, uint64_t value)      \
	{                                                                                             \
		return cas(q, expected, value, NEXT(dispatch_hooks[INDEX_CAS_##ORDER], cas_fn));                      \
	}

INDEX_WRAPPERS(RELAXED, relaxed)
INDEX_WRAPPERS(SCACQUIRE, scacquire)
INDEX_WRAPPERS(SCRELEASE, screlease)
INDEX_WRAPPERS(SCACQ_SCREL, scacq_screl)

void wrap_index_store_relaxed(const hsa_queue_t *q, uint64_t value)
{
	store(q, value, NEXT(dispatch_hooks[INDEX_STORE_RELAXED], store_fn));
}

void wrap_index_store_screlease(const hsa_queue_t *q, uint64_t value)
{
	store(q, value, NEXT(dispatch_hooks[INDEX_STORE_SCRELEASE], store_fn));
}

uint64_t wrap_index_load_relaxed(const hsa_queue_t *q)
{
	return load(q, NEXT(dispatch_hooks[INDEX_LOAD_RELAXED], load_fn));
}

uint64_t wrap_index_load_scacquire(const hsa_queue_t *q)
{
	return load(q, NEXT(dispatch_hooks[INDEX_LOAD_SCACQUIRE], load_fn));
}

struct hook dispatch_hooks[DISPATCH_HOOKS] = {
	HOOKS_4_ORDERS(INDEX_ADD, "hsa_queue_add_write_index", wrap_index_add, HOOK_REQUIRED, HOOK_WITH_GRACE),
	HOOKS_4_ORDERS(INDEX_CAS, "hsa_queue_cas_write_index", wrap_index_cas, HOOK_REQUIRED, HOOK_WITH_GRACE),
	[INDEX_STORE_RELAXED] = HOOK_WITH_GRACE("hsa_queue_store_write_index_relaxed", wrap_index_store_relaxed, HOOK_REQUIRED),
	[INDEX_STORE_SCRELEASE] =
		HOOK_WITH_GRACE("hsa_queue_store_write_index_screlease", wrap_index_store_screlease, HOOK_REQUIRED),
	[INDEX_LOAD_RELAXED] = HOOK_WITH_GRACE("hsa_queue_load_write_index_relaxed", wrap_index_load_relaxed, HOOK_REQUIRED),
	[INDEX_LOAD_SCACQUIRE] =
		HOOK_WITH_GRACE("hsa_queue_load_write_index_scacquire", wrap_index_load_scacquire, HOOK_REQUIRED),
};
