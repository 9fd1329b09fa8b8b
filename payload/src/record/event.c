/* event.c: see event.h. */
#include "record/event.h"

#include <errno.h>
#include <stdatomic.h>

#include "core/sys.h"
#include "kinds/kind.h"

/* seq == position: free for it; == position + 1: filled; position + lap: free for the next lap */
struct cell {
	CACHE_ALIGNED _Atomic uint64_t seq;
	struct event event;
};
_Static_assert(sizeof(struct cell) == 2 * 64, "two cache lines");

static struct cell *cells;   /* room for the longest lap */
static _Atomic uint64_t lap; /* cells in use, a power of two */
static CACHE_ALIGNED _Atomic uint64_t head;
static CACHE_ALIGNED uint64_t tail;

static bool closed = true; /* written by arming and disarming; the worker reads it in between */
static bool kept;          /* by closing: its memory stays */

/*
 * A thread may sleep in event_push() until a later session, and still use the lap of the
 * earlier one. The number of the cell that it looks at is its position modulo the shorter
 * lap. If the cell's seq is that position, it is the position's cell under either lap.
 */
int events_init(bool lossless)
{
	if (!cells)
		cells = map_memory(EVENT_CELLS_LOSSLESS * sizeof *cells);
	if (!cells)
		return -ENOMEM;
	if (!closed)
		return 0;
	atomic_store(&lap, lossless ? EVENT_CELLS_LOSSLESS : EVENT_CELLS);
	for (uint64_t i = 0; i < atomic_load(&lap); i++)
		atomic_store_explicit(&cells[i].seq, i, memory_order_relaxed);
	tail = 0;
	atomic_store(&head, 0); /* last: now cells can be taken */
	closed = false;
	return 0;
}

/* Moves head ahead by the longest lap: then no push takes a cell, because each cell is free
 * for an earlier position, also in the next session, or for none if its memory is gone.
 * If a thread has taken a cell and not filled it, head stays. */
void events_close(void)
{
	struct event e;

	while (event_pop(&e))
		;
	uint64_t at = tail;
	if (closed || !atomic_compare_exchange_strong(&head, &at, tail + EVENT_CELLS_LOSSLESS))
		return;
	closed = true;
	if (!kept)
		events_give_back();
}

void events_keep(bool keep)
{
	kept = keep;
}

void events_give_back(void)
{
	if (closed)
		clear_memory(cells, EVENT_CELLS_LOSSLESS * sizeof *cells);
}

bool event_push(const struct event *e)
{
	/* head, always acquire: pairs with events_init(), for lap */
	uint64_t at = atomic_load_explicit(&head, memory_order_acquire);

	for (;;) {
		uint64_t mask = atomic_load_explicit(&lap, memory_order_relaxed) - 1;
		struct cell *c = &cells[at & mask];
		/* acquire: pairs with the release in event_pop */
		int64_t lead = (int64_t)(atomic_load_explicit(&c->seq, memory_order_acquire) - at);

		if (lead < 0)
			return false;
		if (lead > 0) {
			at = atomic_load_explicit(&head, memory_order_acquire);
			continue;
		}
		if (!atomic_compare_exchange_weak_explicit(&head, &at, at + 1, memory_order_acquire, memory_order_acquire))
			continue;
		c->event = *e;
		atomic_store_explicit(&c->seq, at + 1, memory_order_release); /* pairs with event_pop */
		prefetch_for_write(&cells[(at + 1) & mask], sizeof *c); /* the worker's core has it */
		return true;
	}
}

static struct cell *cell_of(uint64_t number)
{
	return &cells[number & (atomic_load_explicit(&lap, memory_order_relaxed) - 1)];
}

bool event_look(uint64_t number, struct event *e)
{
	if (closed || atomic_load_explicit(&cell_of(number)->seq, memory_order_acquire) != number + 1)
		return false;
	*e = cell_of(number)->event;
	return true;
}

bool event_pop(struct event *e)
{
	if (!event_look(tail, e))
		return false;
	atomic_store_explicit(&cell_of(tail)->seq, tail + atomic_load_explicit(&lap, memory_order_relaxed), memory_order_release);
	tail++;
	return true;
}

uint64_t events_pushed(void)
{
	return atomic_load(&head);
}

uint64_t events_popped(void)
{
	return tail;
}

void event_deliver(struct event *e)
{
	e->in_transit = 1;
	if (!event_push(e))
		kinds[e->kind]->count_dropped(e);
}

static _Atomic uint32_t consumer; /* a hint for callers of event_push(): a thread that reads it late pushes once more or less */

void events_set_consumer(bool runs)
{
	atomic_store(&consumer, runs);
}

bool events_have_consumer(void)
{
	return atomic_load(&consumer);
}
