#include "handoff.h"

#include <errno.h>


/* seq == position: free for it; == position + 1: filled; + HANDOFF_CELLS: free for the next lap */
struct cell {
	CACHE_ALIGNED _Atomic uint64_t seq;
	struct outcome outcome;
};
_Static_assert(sizeof(struct cell) == 2 * 64, "two cache lines");

static struct cell *cells;
static CACHE_ALIGNED _Atomic uint64_t head;
static CACHE_ALIGNED uint64_t tail;

int handoff_init(void)
{
	if (cells)
		return 0;
	struct cell *c = map_memory(HANDOFF_CELLS * sizeof *c);
	if (!c)
		return -ENOMEM;
	for (uint64_t i = 0; i < HANDOFF_CELLS; i++)
		atomic_store_explicit(&c[i].seq, i, memory_order_relaxed);
	cells = c;
	return 0;
}

#define BACKED_AHEAD 2048 /* cells */

void handoff_back(void)
{
	static uint64_t backed; /* cells; they are never given back */
	uint64_t to = atomic_load_explicit(&head, memory_order_relaxed) + BACKED_AHEAD;

	if (!cells || backed == HANDOFF_CELLS || backed + BACKED_AHEAD / 2 > to)
		return;
	to = to < HANDOFF_CELLS ? to & ~(RTL_PAGE / sizeof *cells - 1) : HANDOFF_CELLS;
	back_memory(&cells[backed], (to - backed) * sizeof *cells);
	backed = to;
}

bool handoff_push(const struct outcome *o)
{
	uint64_t at = atomic_load_explicit(&head, memory_order_relaxed);

	for (;;) {
		struct cell *c = &cells[at & (HANDOFF_CELLS - 1)];
		/* acquire: pairs with the release in handoff_pop */
		int64_t lead = (int64_t)(atomic_load_explicit(&c->seq, memory_order_acquire) - at);

		if (lead < 0)
			return false;
		if (lead > 0) {
			at = atomic_load_explicit(&head, memory_order_relaxed);
			continue;
		}
		if (!atomic_compare_exchange_weak_explicit(&head, &at, at + 1, memory_order_relaxed, memory_order_relaxed))
			continue;
		c->outcome = *o;
		atomic_store_explicit(&c->seq, at + 1, memory_order_release); /* pairs with handoff_pop */
		prefetch_for_write(&cells[(at + 1) & (HANDOFF_CELLS - 1)], sizeof *c); /* the worker's core has it */
		return true;
	}
}

bool handoff_pop(struct outcome *o)
{
	if (!cells)
		return false;
	struct cell *c = &cells[tail & (HANDOFF_CELLS - 1)];

	if (atomic_load_explicit(&c->seq, memory_order_acquire) != tail + 1)
		return false;
	*o = c->outcome;
	atomic_store_explicit(&c->seq, tail + HANDOFF_CELLS, memory_order_release);
	tail++;
	return true;
}
