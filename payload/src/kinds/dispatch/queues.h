/*
 * queues.h: the state of one HSA queue and its virtual write index
 * (docs/decisions/0002).
 *
 *   RAW ──flip──► VIRT|V ──close──► CLOSED|V ──help──► RAW        DEAD
 *     └──► TRANS ──┘  (an entrant may abort a flip: TRANS ──► RAW)
 *
 * While a queue is virtual its producers claim slots from the counter in
 * word; the real write_dispatch_id, which the hardware reads, moves only over
 * packets that are published: complete and instrumented.
 */
#ifndef RTL_QUEUES_H
#define RTL_QUEUES_H

#include <hsa/amd_hsa_queue.h>
#include <hsa/amd_hsa_signal.h>
#include <hsa/hsa.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/sys.h"
#include "kinds/dispatch/dispatch_abi.h"
#include "record/event.h"
#include "record/launches.h"

#define WORD_RAW 0ull
#define WORD_VIRT (1ull << 63)
#define WORD_CLOSED (1ull << 62)
#define WORD_TRANS (1ull << 61)
#define WORD_DEAD (1ull << 60)
#define WORD_INDEX (WORD_DEAD - 1) /* the virtual write index */

#define QUEUES_MAX 1024      /* known at once; the table has twice the places */
#define BACKLOG 32768        /* published dispatches that the worker has not taken yet, per queue */
#define SIGNALS_PER_QUEUE 32768 /* places for free pooled signals, per queue */
#define PACKETS_MAX (1u << 17)  /* the largest ring that HSA_AGENT_INFO_QUEUE_MAX_SIZE allows on AMD */

/* Who claimed a slot, and when; written by the claimer, read by the publisher
 * once the packet's header is valid (which orders them). owner is written
 * first as 0 and last as the index's low half with the thread id, so that a
 * later lap's stamp in the same place is told apart; an earlier queue's, which
 * had the same index, by its time. */
struct stamp {
	_Atomic uint64_t time; /* TSC ticks or CLOCK_BOOTTIME ns */
	_Atomic uint64_t owner;/* low 32 bits: index, high 32 bits: tid */
};

#define ENTRY_APP_SIGNAL 1u
#define ENTRY_BARRIER 2u
#define ENTRY_STAMPED 4u
#define ENTRY_LATE 8u        /* fired without times; the two bits above say since which period */
#define ENTRY_LATE_SHIFT 4

/* One dispatch on its way from the publisher to the worker. may_alias: the worker reads
 * the entry in an event's item, in place. */
struct __attribute__((may_alias)) entry {
	uint64_t index;
	uint64_t signal; /* pooled: its handle; application's: a ref of signal_arm() */
	uint64_t stamp;
	union {
		struct kernel_call call;
		uint64_t launch; /* once it is pending: the launch's id, in place of the kernel object */
	};
};
_Static_assert(sizeof(struct entry) == 8 * ITEM_WORDS, "one cache line");

struct queue {
	/* Claimers. */
	CACHE_ALIGNED _Atomic uint64_t word;
	_Atomic(const hsa_queue_t *) hsa; /* key: address … */
	uint64_t hsa_id;                  /* … and hsa_queue_t.id: queues are re-created in place */
	struct stamp *stamps;             /* one per slot */
	uint64_t mask;                    /* slots - 1 */
	_Atomic uint32_t inflight;        /* threads inside a raw index function; seq_cst with word */
	_Atomic uint32_t aborts;          /* flips given up */
	_Atomic uint32_t skip;            /* calls to let pass before the next try */

	/* Publishers, under lock; pend is set by whoever finds it taken. seq_cst
	 * with lock: one of both sides sees the other. pend is changed by exchange
	 * only: who takes a note has then seen the packets of all who left one. */
	CACHE_ALIGNED _Atomic uint32_t lock;
	_Atomic uint32_t pend;
	_Atomic uint32_t ours; /* threads of ours that are in the ring, or about to be; see queue_enter_ours() */
	_Atomic uint32_t released; /* a user of a shared one has destroyed it: the runtime may have freed it. Relaxed: under the lock */
	_Atomic uint64_t scan; /* == the real write index while virtual */
	uint64_t base;         /* first virtual index of this session */
	hsa_kernel_dispatch_packet_t *ring;
	uint64_t size;
	volatile uint64_t *write_index;
	volatile uint64_t *read_index;
	hsa_signal_t doorbell;

	/* Publishers, too. What others move on, the hardware and the worker, is
	 * read anew only when the copy of last time (seen_*) says "full" or
	 * "empty": each look would take the line from them. */
	CACHE_ALIGNED _Atomic uint64_t entry_head; /* entries: publisher → worker */
	_Atomic uint64_t free_tail;                /* free pooled signals: worker → publisher */
	struct entry *entries;
	uint64_t *free_signals;
	uint64_t *placed; /* by slot: the signal of ours that was put there last */
	uint64_t seen_read, seen_entry_tail, seen_free_head;
	uint64_t opened_at; /* stamp: no slot of this window was claimed before */

	/* The worker's side of the two. */
	CACHE_ALIGNED _Atomic uint64_t entry_tail;
	_Atomic uint64_t free_head;
	uint64_t seen_free_tail;

	/* This session's window; written by publishers under lock. */
	CACHE_ALIGNED _Atomic uint64_t dispatches;
	_Atomic uint64_t others; /* barrier and vendor packets */
	uint64_t before; /* packets in front of the window that the hardware had not taken yet */
	uint64_t opened_ns;
	uint64_t closed_ns;
	uint64_t closed_index;
	uint64_t after; /* claimed in the window, unpublished at its end */
	_Atomic uint64_t raw_claims;
	_Atomic uint64_t handoff_drops; /* taken by wrappers, and the queue of events was full */
	_Atomic uint64_t starved; /* dispatches that found no free signal */
	_Atomic uint64_t skipped_full;  /* dispatches that were not noted: session_flags.full. Set back with the worker's skipped_counted alone */
	_Atomic uint32_t window_generation; /* of the last flip; 0: none yet */
	_Atomic uint32_t window_closed;
	uint64_t *filled; /* close only: bitmap over slots instrumented beyond a gap */
	uint64_t address; /* of the hsa_queue_t, also after its end */
	uint32_t type;    /* hsa_queue_type_t */

	/* Worker only. */
	CACHE_ALIGNED struct entry *pending;
	uint64_t pending_count;
	uint32_t id; /* in this session's records; 0: not told yet */
	uint32_t open_emitted, close_emitted;
	uint32_t agent; /* index into agents + 1, 0: unknown */
	uint32_t profiled_by_us;
	int64_t in_transit; /* dispatches that wrappers have taken and not yet handed over */
	uint64_t backed, backed_end; /* entries below backed have memory; at backed_end all have */
	uint32_t slots_backed; /* stamps, placed */
	uint64_t want_signals;  /* free ones to keep */
	uint64_t seen_starved, skipped_counted;
	uint64_t dead_since_ns; /* destroyed was seen then */
	bool parked;     /* has been held ready in this session */
	uint32_t settled; /* dead, destroyed, and nothing owed; then … */
	uint64_t handed_over; /* … the handoff had so many */
	_Atomic uint32_t destroyed; /* the runtime's hsa_queue_destroy has returned: nothing writes its signals now */
	_Atomic uint32_t in_use;
};

#define PENDING_MAX (PACKETS_MAX + BACKLOG)

/* All states ever made; entries up to queue_count never change. */
extern struct queue *queue_all[QUEUES_MAX];
extern _Atomic uint32_t queue_count;

/* The state of a queue, or NULL. Any thread; takes no lock. */
struct queue *queue_find(const hsa_queue_t *q);

/* The state of a queue, made at need from those held ready. Never waits.
 * NULL with *foreign: not one to record (its doorbell is no hardware's).
 * NULL without: not known now; an index call must be counted in untracked. */
struct queue *queue_get(const hsa_queue_t *q, bool *foreign);

/* A doorbell of q rings, and no index call of q has been seen: it counts as seen, as
 * one that nothing is recorded of until there is one. */
void queue_rung(const hsa_queue_t *q);

/* Threads inside a raw index function for a queue that has no state. seq_cst
 * with the table: such a thread counts itself, then looks the queue up again;
 * a flip enters the queue in the table, then reads this. */
extern _Atomic uint32_t queue_untracked;

/* Makes states until at least n are ready for queue_get(), each with its
 * signals, once the pool is open. Our threads only. 0 or -ENOMEM. */
int queue_make_ready(uint32_t n);

/* A new session: no queue is known, every state is ready. Only while no
 * wrapper keeps account; a thread left in one by the last session finds its
 * state raw until the grace is over, and the grace waits for it. False: such a
 * thread is just discovering a queue, and does not get on with it. */
bool queue_reset_all(void);

/* Worker only: keeps memory ready behind what a queue's threads write next. */
void queue_back(struct queue *s);

/* Gives the memory behind all states back; they stay mapped. */
void queue_forget_memory(void);

/* Takes a queue out of the table, and its word is DEAD. The caller holds its lock, or
 * the queue goes all the same, and who holds it sees that. */
void queue_forget(struct queue *s);

/* A dead state with nothing outstanding becomes ready again. Worker only. */
void queue_recycle(struct queue *s);

/* Locks. Application threads only ever try. */
static inline bool trylock(_Atomic uint32_t *lock)
{
	uint32_t free = 0;

	/* seq_cst, also when it fails: pairs with queue_unlock() */
	return atomic_load_explicit(lock, memory_order_seq_cst) == 0 &&
	       atomic_compare_exchange_strong_explicit(lock, &free, 1, memory_order_seq_cst, memory_order_seq_cst);
}

static inline bool queue_trylock(struct queue *s)
{
	return trylock(&s->lock);
}

static inline void queue_unlock(struct queue *s)
{
	/* seq_cst: pairs with the load of pend after it, and with the store of
	 * pend before a failed trylock. */
	atomic_store_explicit(&s->lock, 0, memory_order_seq_cst);
}

/*
 * For the ends of sessions and for hsa_queue_destroy: waits for the holder, who
 * needs microseconds. False: it does not let go. A thread that is stopped does
 * not, nor one whose signal handler calls exit(), and so comes here itself.
 */
#define LOCK_WAIT_NS (2 * NS_PER_S)
bool queue_lock_wait(struct queue *s, uint64_t timeout_ns);

/*
 * Around what a thread of ours does in a queue's ring, with its lock. Who frees the
 * ring waits for that one: it may have lost its processor, and goes on in freed
 * memory. seq_cst: it counts itself, and then sees that the queue is dead, or the
 * runtime lost; who has made it so then reads the count.
 */
static inline void queue_enter_ours(struct queue *s)
{
	atomic_fetch_add_explicit(&s->ours, 1, memory_order_seq_cst);
}

static inline void queue_leave_ours(struct queue *s)
{
	atomic_fetch_sub_explicit(&s->ours, 1, memory_order_seq_cst);
}

#define OURS_WAIT_MOST_NS (30 * NS_PER_S)
void queue_await_ours(struct queue *s);

/* As queue_lock_wait(), for who frees the ring next. What keeps a thread of the
 * application's that holds the lock is the application's affair. */
bool queue_lock_to_destroy(struct queue *s);

#endif
