/*
 * lanes.h: records of calls, from the threads that make them to the worker. A lane is a
 * bounded queue of many producers and one consumer. A thread always uses the same lane, so that
 * a lane has one or few threads, and its lines stay on their core until the worker reads them.
 *
 * The functions here run on application threads at the end of an intercepted call: no lock, no
 * system call, no allocation, no thread-local data. A signal handler may interrupt them, and
 * make intercepted calls itself. Files that use them in a generic wrapper are compiled without
 * vector registers (kinds/calls/leave.c).
 */
#ifndef RTL_LANES_H
#define RTL_LANES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi.h"
#include "core/sys.h"

#define LANES 64
#define LANE_CELLS 2048 /* 256 KiB a lane */
#define LANE_WORDS 11
#define LANE_VOID 0xff /* kind of a cell whose call is not recorded */
#define LANE_TEXT 0xfe /* kind of a cell that belongs to the one before */

struct lane_cell {
	_Atomic uint64_t seq; /* position + 1: filled. Zeroed memory is never filled. */
	uint64_t start, end;  /* stamps (core/clocks.h) */
	uint64_t result;
	uint32_t tid;
	uint16_t what;  /* the kind's own: which function */
	uint8_t kind;   /* enum rtl_kind, or LANE_VOID */
	uint8_t detail; /* the kind's own */
	uint64_t words[LANE_WORDS];
};
_Static_assert(sizeof(struct lane_cell) == 2 * 64, "two cache lines");

/* Positions never repeat in the life of a process: a thread that sleeps in here until a later
 * session never takes a cell of that session by an old position. */
struct lane {
	CACHE_ALIGNED _Atomic uint64_t head; /* claimed */
	CACHE_ALIGNED _Atomic uint64_t tail; /* taken; the worker stores it once for many cells */
	_Atomic(struct lane_cell *) cells;   /* NULL: not in use, see lanes_prepare() */
	CACHE_ALIGNED _Atomic uint32_t lost[RTL_KINDS_MAX]; /* no cell was free; until the worker counts them */
	CACHE_ALIGNED _Atomic uint32_t losses; /* the same of all kinds, never set back */
};
extern struct lane lanes[LANES];

/*
 * What may be recorded: the kinds that are open, a bit each, and the session's number modulo
 * 65,536 above them; 0: nothing is. In a page that reads as zero in a forked child.
 */
extern _Atomic uint32_t *lanes_gate;
extern _Atomic uint32_t lanes_closed_gate; /* before the page exists */

/* Whether a call of that kind, which began when the gate was at_start, is recorded now. */
static inline bool lane_is_open(uint32_t kind, uint32_t at_start)
{
	uint32_t now = atomic_load_explicit(lanes_gate, memory_order_seq_cst);

	return now >> 16 == at_start >> 16 && (now & at_start) >> kind & 1;
}

/* By the thread's descriptor, which pthread_self() returns. Descriptors are some 8 MiB apart, those
 * of small stacks less. */
static inline uint32_t lane_number(void)
{
	uintptr_t self;

	__asm__("movq %%fs:0x10, %0" : "=r"(self));
	return (uint32_t)(self >> 12 ^ self >> 18 ^ self >> 23) % LANES;
}

/* Cells that follow each other in a lane, from position on. */
struct lane_claim {
	struct lane *lane; /* NULL: there is none, and the record is counted as lost */
	struct lane_cell *cells;
	uint64_t position;
};

static inline struct lane_cell *lane_cell(const struct lane_claim *c, uint32_t i)
{
	return &c->cells[(c->position + i) % LANE_CELLS];
}

static inline void lane_lose(struct lane *l, uint32_t kind)
{
	atomic_fetch_add_explicit(&l->lost[kind], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&l->losses, 1, memory_order_relaxed);
}

/*
 * Claims the next cells of the thread's lane. The caller asks lane_is_open() again, fills the cells,
 * with kind LANE_VOID if it is not, and publishes them. seq_cst: pairs with lanes_close(), which
 * closes the gate and then reads head.
 */
static inline struct lane_claim lane_claim(uint32_t kind, uint32_t cells_wanted)
{
	uint32_t first = lane_number(), turn = 0;
	struct lane *l = &lanes[first];
	struct lane_cell *cells;

	while (UNLIKELY(!(cells = atomic_load_explicit(&l->cells, memory_order_acquire)))) {
		if (++turn == LANES) {
			lane_lose(l, kind);
			return (struct lane_claim){0};
		}
		l = &lanes[(first + turn) % LANES];
	}
	uint64_t at = atomic_load_explicit(&l->head, memory_order_relaxed);
	do {
		/* acquire: the worker has read the cells that are written next. Signed: at may be old, and
		 * tail beyond it. */
		if (UNLIKELY((int64_t)(at + cells_wanted - atomic_load_explicit(&l->tail, memory_order_acquire)) > LANE_CELLS)) {
			lane_lose(l, kind);
			return (struct lane_claim){0};
		}
	} while (!atomic_compare_exchange_weak_explicit(&l->head, &at, at + cells_wanted, memory_order_seq_cst, memory_order_relaxed));
	return (struct lane_claim){l, cells, at};
}

/* The first cell last: the worker then finds all. */
static inline void lane_publish(const struct lane_claim *c, uint32_t cells)
{
	while (cells--) /* release: pairs with lanes_take() */
		atomic_store_explicit(&lane_cell(c, cells)->seq, c->position + cells + 1, memory_order_release);
}

/* Arming: memory, which is populated, and empty lanes. 0 or -ENOMEM. */
int lanes_prepare(void);
/* The kind is recorded from now on. */
void lanes_open(uint32_t kind);
/* No call of the kind is recorded any more. Waits until those that have claimed a cell have
 * published it, or until_ns (now_monotonic()); lanes_count_unpublished() counts the others. */
void lanes_close(uint32_t kind, uint64_t until_ns);
/* The worker has ended: gives the memory back, unless another window follows: see lanes_keep(). */
void lanes_release(void);
/* Whether lanes_release() keeps the memory, until lanes_give_back(): see events_keep(). */
void lanes_keep(bool keep);
void lanes_give_back(void);

/* The worker: hands each published cell to its kind (struct kind, take_cell). Returns how many. */
uint64_t lanes_take(void);
/* The worker, in take_cell(): the i-th cell after c, of kind LANE_TEXT. */
const struct lane_cell *lane_following(const struct lane_cell *c, uint32_t i);
/* The worker: claimed cells that it has not taken. */
uint64_t lanes_waiting(void);
/* The worker, after lanes_take(): whether it has taken all cells that were claimed when this was true last.
 * A thread that is late between the claim and the publication holds up the cells behind, too. */
bool lanes_caught_up(void);
/* When the worker ends: cells that were claimed and not published count as lost. */
void lanes_count_unpublished(void);

#endif
