/* lanes.c: see lanes.h. */
#define _GNU_SOURCE
#include "record/lanes.h"

#include <errno.h>
#include <sys/mman.h>

#include "core/session_flags.h"
#include "kinds/kind.h"

#define LANE_BYTES (LANE_CELLS * sizeof(struct lane_cell))
#define TAKEN_BATCH 128 /* cells after which producers are told that they are free again */

struct lane lanes[LANES];
_Atomic uint32_t lanes_closed_gate;
_Atomic uint32_t *lanes_gate = &lanes_closed_gate;

static struct lane_cell *memory; /* of all lanes; never unmapped: a thread may be late in a cell */
static bool in_use;
static bool kept; /* by releasing: the memory stays */

static int make_gate(void)
{
	if (lanes_gate != &lanes_closed_gate)
		return 0;
	void *page = map_memory(RTL_PAGE);
	if (!page)
		return -ENOMEM;
	if (madvise(page, RTL_PAGE, MADV_WIPEONFORK)) {
		unmap_memory(page, RTL_PAGE);
		return -ENOMEM;
	}
	lanes_gate = page;
	return 0;
}

static struct lane_cell *cell_at(struct lane *l, uint64_t position)
{
	return &memory[(size_t)(l - lanes) * LANE_CELLS + position % LANE_CELLS];
}

static bool is_published(struct lane *l, uint64_t position)
{
	return atomic_load_explicit(&cell_at(l, position)->seq, memory_order_acquire) == position + 1;
}

/* Passes over what late threads have published since the worker's end. True: no cell of the
 * lane is claimed. */
static bool is_empty(struct lane *l)
{
	uint64_t at = atomic_load(&l->tail);

	while (at != atomic_load(&l->head) && is_published(l, at))
		at++;
	atomic_store(&l->tail, at);
	return at == atomic_load(&l->head);
}

/* A lane in which a thread has claimed a cell, and has not come to publish it, is not used until
 * it does; its threads use the next one. */
int lanes_prepare(void)
{
	if (in_use)
		return 0; /* another kind of the session has them ready */
	if (make_gate() || (!memory && !(memory = map_memory(LANES * LANE_BYTES))))
		return -ENOMEM;
	back_memory(memory, LANES * LANE_BYTES);
	for (struct lane *l = lanes; l < lanes + LANES; l++) {
		atomic_store(&l->cells, is_empty(l) ? cell_at(l, 0) : NULL);
		for (uint32_t kind = 0; kind < RTL_KINDS_MAX; kind++)
			atomic_store(&l->lost[kind], 0);
	}
	in_use = true;
	return 0;
}

/* A late thread finds the lane full meanwhile: what it published there would be gone, and the
 * lane never empty again. */
static void forget(struct lane *l)
{
	uint64_t at = is_empty(l) ? atomic_load(&l->tail) : UINT64_MAX;

	if (at == UINT64_MAX || !atomic_compare_exchange_strong(&l->head, &at, at + LANE_CELLS))
		return;
	forget_memory(cell_at(l, 0), LANE_BYTES);
	atomic_store(&l->tail, at + LANE_CELLS);
}

void lanes_release(void)
{
	if (!in_use)
		return;
	for (struct lane *l = lanes; l < lanes + LANES; l++) {
		atomic_store(&l->cells, NULL);
		if (!kept)
			forget(l);
	}
	in_use = false;
}

void lanes_keep(bool keep)
{
	kept = keep;
}

void lanes_give_back(void)
{
	if (!in_use && memory)
		for (struct lane *l = lanes; l < lanes + LANES; l++)
			forget(l);
}

void lanes_open(uint32_t kind)
{
	uint32_t session = atomic_load(&session_flags.generation) << 16;
	uint32_t open = atomic_load(lanes_gate);

	atomic_store(lanes_gate, session | (open & 0xffff) | 1u << kind);
}

static void await_published(struct lane *l, uint64_t until_ns)
{
	uint64_t at = atomic_load(&l->tail), head = atomic_load(&l->head);

	for (uint32_t turn = 0; at < head && now_monotonic() < until_ns;) {
		if (is_published(l, at) || atomic_load(&l->tail) > at)
			at++;
		else
			sys_back_off(turn++);
	}
}

#define PUBLISH_MOST_NS (50 * NS_PER_MS) /* a thread that is late for longer may never publish: its signal handler has jumped away */

void lanes_close(uint32_t kind, uint64_t until_ns)
{
	uint64_t most = now_monotonic() + PUBLISH_MOST_NS;
	uint32_t now = atomic_load(lanes_gate), left = now & ~(1u << kind);

	atomic_store(lanes_gate, left & 0xffff ? left : 0);
	for (struct lane *l = lanes; l < lanes + LANES; l++)
		if (atomic_load(&l->cells)) /* else its late thread has nothing of this session */
			await_published(l, until_ns < most ? until_ns : most);
}

const struct lane_cell *lane_following(const struct lane_cell *c, uint32_t i)
{
	size_t number = (size_t)(c - memory), lane = number - number % LANE_CELLS;

	return &memory[lane + (number + i) % LANE_CELLS];
}

static void count_lost_calls(uint32_t kind, uint64_t calls, uint32_t reason)
{
	COUNT_N(kind[kind].begun, calls);
	COUNT_N(kind[kind].untimed[reason], calls);
	count_lost(kind, calls);
}

static void count_full(struct lane *l)
{
	for (uint32_t kind = 0; kind < RTL_KINDS_MAX; kind++) {
		if (LIKELY(!atomic_load_explicit(&l->lost[kind], memory_order_relaxed)))
			continue;
		count_lost_calls(kind, atomic_exchange(&l->lost[kind], 0), RTL_REASON_BACKLOG);
	}
}

static void take_cell(const struct lane_cell *c)
{
	if (LIKELY(c->kind < RTL_KINDS_MAX))
		kinds[c->kind]->take_cell(c);
}

/* Not more than a lap: the other lanes have work, too. */
static uint64_t take_lane(struct lane *l)
{
	uint64_t from = atomic_load_explicit(&l->tail, memory_order_relaxed), at = from;

	for (; at - from < LANE_CELLS && is_published(l, at); at++) {
		take_cell(cell_at(l, at));
		if ((at - from) % TAKEN_BATCH == TAKEN_BATCH - 1)
			atomic_store_explicit(&l->tail, at + 1, memory_order_release); /* pairs with lane_claim() */
	}
	if (at != from)
		atomic_store_explicit(&l->tail, at, memory_order_release);
	return at - from;
}

uint64_t lanes_take(void)
{
	uint64_t n = 0;

	if (!in_use)
		return 0;
	for (struct lane *l = lanes; l < lanes + LANES; l++) {
		if (LIKELY(atomic_load_explicit(&l->cells, memory_order_relaxed)))
			n += take_lane(l);
		count_full(l);
	}
	return n;
}

static uint64_t claimed(struct lane *l)
{
	return atomic_load(&l->cells) ? atomic_load(&l->head) - atomic_load(&l->tail) : 0;
}

uint64_t lanes_waiting(void)
{
	uint64_t n = 0;

	for (struct lane *l = lanes; l < lanes + LANES; l++)
		n += claimed(l);
	return n;
}

static uint64_t awaited[LANES]; /* by the worker: cells before this position */

bool lanes_caught_up(void)
{
	for (uint32_t i = 0; i < LANES; i++)
		if (atomic_load_explicit(&lanes[i].cells, memory_order_relaxed) && atomic_load_explicit(&lanes[i].tail, memory_order_relaxed) < awaited[i])
			return false;
	for (uint32_t i = 0; i < LANES; i++)
		awaited[i] = atomic_load(&lanes[i].head); /* seq_cst: pairs with lane_claim() */
	return true;
}

/* Takes the cells that are published behind one that is not. Returns how many are not. */
static uint64_t take_behind(struct lane *l)
{
	uint64_t unpublished = 0;

	if (!atomic_load(&l->cells))
		return 0;
	for (uint64_t at = atomic_load(&l->tail), head = atomic_load(&l->head); at != head; at++) {
		if (is_published(l, at))
			take_cell(cell_at(l, at));
		else
			unpublished++;
	}
	return unpublished;
}

/* Of which kind they are is in the cell, which is not filled: they count for the first one. */
void lanes_count_unpublished(void)
{
	uint64_t cells = 0;

	for (struct lane *l = lanes; l < lanes + LANES; l++)
		cells += take_behind(l);

	for (uint32_t kind = 0; kind < RTL_KINDS_MAX && cells; kind++) {
		if (!is_recorded(kind) || !kinds[kind]->take_cell)
			continue;
		count_lost_calls(kind, cells, RTL_REASON_NOT_COMPLETED);
		return;
	}
}
