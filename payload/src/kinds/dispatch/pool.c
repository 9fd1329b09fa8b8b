/* pool.c: the stock of signals of ours. */
#include "kinds/dispatch/pool.h"

#include <errno.h>

#include "core/runtime.h"
#include "core/session_flags.h"
#include "core/shared_hooks.h"

#define STOCK_MAX (1u << 20)
#define DEFERRED_LOOK_NS (5 * NS_PER_MS)

static uint64_t *stock;
static uint64_t in_stock, alive;
static _Atomic uint32_t closed, exhausted; /* hints between our threads; worker_round() orders what matters */

struct deferred {
	uint64_t handle, until_ns;
};
static struct deferred *deferred; /* a ring, with room for every signal there is */
static uint64_t deferred_head, deferred_tail;

#define SHARE_LEAST 512
static uint64_t share; /* of windows; 0: not known yet */
static uint64_t most_used; /* in one round of this window */
static bool was_starved;

uint64_t pool_share(void)
{
	return config.schedule[0] && share && share < config.signal_pool ? share : config.signal_pool;
}

void pool_note_use(uint64_t used, bool starved)
{
	if (used > most_used)
		most_used = used;
	was_starved |= starved;
}

/* A window is over. One that has recorded nothing tells nothing. */
static void learn_share(void)
{
	uint64_t want = 4 * most_used < SHARE_LEAST ? SHARE_LEAST : 4 * most_used;

	if (was_starved && want < 2 * share)
		want = 2 * share;
	if (most_used)
		share = want > share ? want : share - (share - want) / 8;
	most_used = 0;
	was_starved = false;
}

/* Signals that the application may have given to the hardware again. */
#define LEAKED_MAX 1024
static uint64_t leaked[LEAKED_MAX];
static uint32_t leaked_count;

int pool_init(void)
{
	if (!stock)
		stock = map_memory(STOCK_MAX * sizeof *stock);
	if (!deferred)
		deferred = map_memory(STOCK_MAX * sizeof *deferred);
	return stock && deferred ? 0 : -ENOMEM;
}

void pool_close(void)
{
	atomic_store(&closed, 1);
	atomic_store(&exhausted, 0);
}

void pool_open(void)
{
	atomic_store(&closed, 0);
}

bool pool_is_exhausted(void)
{
	return atomic_load(&exhausted);
}

static uint64_t create(void)
{
	hsa_signal_t signal = {0};

	if (runtime_is_lost() || alive == STOCK_MAX || rt.signal_create(POOL_ARMED, 0, NULL, HSA_AMD_SIGNAL_AMD_GPU_ONLY, &signal)) {
		atomic_store(&exhausted, 1);
		return 0;
	}
	alive++;
	COUNT(signals_created);
	return signal.handle;
}

static void rearm(uint64_t handle)
{
	amd_signal_t *hw = (amd_signal_t *)handle;

	if (runtime_is_lost())
		return;
	hw->start_ts = 0; /* old times would count as new ones */
	hw->end_ts = 0;
	__atomic_store_n(&hw->value, POOL_ARMED, __ATOMIC_RELAXED);
}

void pool_defer_reuse(uint64_t handle)
{
	deferred[deferred_head++ & (STOCK_MAX - 1)] = (struct deferred){handle, now_monotonic() + POOL_DEFER_NS};
}

/* The signal that was deferred first, if its time has passed; or 0. */
static uint64_t take_deferred(void)
{
	struct deferred *c = &deferred[deferred_tail & (STOCK_MAX - 1)];

	if (deferred_tail == deferred_head || now_monotonic() < c->until_ns)
		return 0;
	deferred_tail++;
	rearm(c->handle);
	return c->handle;
}

static uint64_t another(void)
{
	if (in_stock)
		return stock[--in_stock];
	uint64_t handle = take_deferred();
	return handle ? handle : create();
}

/* False: queue s has no room for another. */
static bool give(struct queue *s, uint64_t handle)
{
	uint64_t head = atomic_load_explicit(&s->free_head, memory_order_relaxed);

	if (head - s->seen_free_tail == SIGNALS_PER_QUEUE)
		/* acquire: pairs with the publisher's release of free_tail */
		s->seen_free_tail = atomic_load_explicit(&s->free_tail, memory_order_acquire);
	if (head - s->seen_free_tail == SIGNALS_PER_QUEUE)
		return false;
	s->free_signals[head & (SIGNALS_PER_QUEUE - 1)] = handle;
	atomic_store_explicit(&s->free_head, head + 1, memory_order_release); /* pairs with the publisher's acquire */
	return true;
}

int pool_fill(struct queue *s, uint64_t want)
{
	uint64_t have = atomic_load(&s->free_head) - atomic_load(&s->free_tail);

	if (atomic_load(&closed))
		return 0;
	if (want > SIGNALS_PER_QUEUE)
		want = SIGNALS_PER_QUEUE;
	for (; have < want; have++) {
		uint64_t handle = another();

		if (!handle)
			return -ENOMEM;
		if (!give(s, handle)) {
			stock[in_stock++] = handle;
			break;
		}
	}
	return 0;
}

void pool_put_back(struct queue *s, uint64_t handle)
{
	rearm(handle);
	if (!give(s, handle))
		stock[in_stock++] = handle;
}

void pool_quarantine(void)
{
	COUNT(signals_quarantined);
}

uint64_t pool_count(void)
{
	return alive;
}

void pool_leak(uint64_t handle)
{
	if (leaked_count < LEAKED_MAX)
		leaked[leaked_count] = handle;
	leaked_count++;
}

/* If more signals were leaked than there is room for, each may be one of them. */
static bool is_leaked(uint64_t handle)
{
	for (uint32_t i = 0; i < leaked_count && i < LEAKED_MAX; i++)
		if (leaked[i] == handle)
			return true;
	return leaked_count > LEAKED_MAX;
}

static void destroy(uint64_t handle)
{
	if (UNLIKELY(leaked_count) && is_leaked(handle)) {
		pool_quarantine();
		return;
	}
	if (!runtime_is_lost())
		NEXT(shared_hooks[SIGNAL_DESTROY], hsa_status_t (*)(hsa_signal_t))((hsa_signal_t){handle});
	alive--;
}

static void destroy_deferred(void)
{
	while (deferred_tail != deferred_head) {
		uint64_t handle = take_deferred();

		if (handle)
			destroy(handle);
		else
			sys_sleep_ns(DEFERRED_LOOK_NS);
	}
}

static void forget_stock(void)
{
	forget_memory(stock, STOCK_MAX * sizeof *stock);
	forget_memory(deferred, STOCK_MAX * sizeof *deferred);
}

void pool_drop_all(void)
{
	for (uint32_t i = 0; i < atomic_load(&queue_count); i++)
		atomic_store(&queue_all[i]->free_tail, atomic_load(&queue_all[i]->free_head));
	in_stock = alive = 0;
	learn_share();
	leaked_count = 0;
	deferred_tail = deferred_head;
	forget_stock();
}

void pool_destroy_all(bool process_ends)
{
	for (uint32_t i = 0; i < atomic_load(&queue_count); i++) {
		struct queue *s = queue_all[i];
		uint64_t tail = atomic_load(&s->free_tail), head = atomic_load(&s->free_head);

		for (; tail != head; tail++)
			destroy(s->free_signals[tail & (SIGNALS_PER_QUEUE - 1)]);
		atomic_store(&s->free_tail, tail);
	}
	while (in_stock)
		destroy(stock[--in_stock]);
	learn_share();
	if (!process_ends)
		destroy_deferred();
	leaked_count = 0;
	forget_stock();
}
