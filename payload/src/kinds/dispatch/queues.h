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
#include <stddef.h>

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

/*
 * Which thread claimed a slot, and when. The claimer writes it, the publisher reads it when
 * the packet's header is valid; the producer's release of the header orders the two. owner
 * is written first as 0 and last as the low half of the index with the thread id: a
 * publisher that meets a stamp of a later lap, or half of one, sees another owner. A stamp
 * of an earlier queue, which may have the same index, has an earlier time.
 */
struct stamp {
	_Atomic uint64_t time; /* TSC ticks or CLOCK_BOOTTIME ns */
	_Atomic uint64_t owner; /* low 32 bits: index, high 32 bits: tid */
};

#define ENTRY_APP_SIGNAL 1u
#define ENTRY_BARRIER 2u
#define ENTRY_STAMPED 4u
#define ENTRY_LATE 8u        /* fired without times, since the period in the two bits above */
#define ENTRY_LATE_SHIFT 4

/* One dispatch on its way from the publisher to the worker. may_alias: the worker reads
 * the entry in an event's item, in place. */
struct __attribute__((may_alias)) entry {
	uint64_t index;
	uint64_t signal; /* a pool signal's handle, or the ref of signal_arm() */
	uint64_t stamp;
	union {
		struct kernel_call call;
		uint64_t launch; /* of a pending dispatch: the launch's id, in place of the kernel object */
	};
};
_Static_assert(sizeof(struct entry) == 8 * ITEM_WORDS, "one cache line");

/*
 * Where the packets are. In the GPU's memory, behind PCIe, stores may be combined and reordered,
 * and locked instructions are not for it.
 */
enum ring_kind { RING_UNKNOWN, RING_OF_HOST, RING_OF_DEVICE };

/*
 * Each group of fields begins on a cache line of its own. The groups differ in who writes
 * them while dispatches flow. A plain field whose group does not say otherwise is written
 * by describe() in queue_table.c, before the release of hsa, and is constant as long as the
 * state belongs to that queue; the acquire of hsa in queue_find() makes it visible.
 */
struct queue {
	/*
	 * Claims. Written without the lock by threads that claim slots; word also by the
	 * lock's holder (flip, close) and by any thread that finishes a close. Read by each
	 * index call and each doorbell.
	 */
	CACHE_ALIGNED _Atomic uint64_t word; /* acq_rel; a flip is seq_cst, see inflight */
	_Atomic(const hsa_queue_t *) hsa;    /* key: the address and hsa_id, because queues are … */
	uint64_t hsa_id;                     /* … made again at the address of a destroyed one */
	struct stamp *stamps;                /* one per slot */
	uint64_t mask;                       /* slots - 1 */
	/* Threads inside a raw index function. seq_cst with word: such a thread counts
	 * itself and then reads word; a flip writes word and then reads the count. */
	_Atomic uint32_t inflight;
	_Atomic uint32_t aborts; /* flips given up; a relaxed hint */
	_Atomic uint32_t skip;   /* index calls to let pass before the next flip; a relaxed hint */
	/* A slot + 1 that scrub.c writes; 0: none. seq_cst with word: scrub.c writes it and then
	 * looks for a claim of the slot; a thread that claims slots then reads it, and waits. */
	_Atomic uint32_t scrubbing;

	/* Publication. Written and read with the lock, but for what is noted. */
	CACHE_ALIGNED _Atomic uint32_t lock;
	/* Set without the lock by a thread that finds it taken. seq_cst with lock: either that
	 * thread gets the lock, or the holder sees pend after it has unlocked. Changed by
	 * exchange only: the thread that clears it sees the packets of all that set it. */
	_Atomic uint32_t pend;
	_Atomic uint64_t scan; /* the real write index while virtual. The release in queue_publish() pairs with queue_help(), which has no lock */
	uint64_t base;         /* first virtual index of this session; also read without the lock, after VIRT was read from word */
	hsa_kernel_dispatch_packet_t *ring;
	uint64_t size;
	volatile uint64_t *write_index;
	volatile uint64_t *read_index;
	hsa_signal_t doorbell;

	/*
	 * The publisher's end of the two lists that it shares with the worker. Written with
	 * the lock; the worker acquires entry_head and free_tail. The hardware and the worker
	 * write the other ends: the publisher reads those only when its copy of last time
	 * (seen_*) says "full" or "empty", because each read takes the line from the writer.
	 */
	CACHE_ALIGNED _Atomic uint64_t entry_head; /* entries, from the publisher to the worker */
	_Atomic uint64_t free_tail;                /* free pool signals, from the worker to the publisher */
	struct entry *entries;
	uint64_t *free_signals;
	uint64_t *placed; /* by slot: the pool signal in the packet that was published there last, or 0 */
	uint64_t seen_read, seen_entry_tail, seen_free_head;

	/* The worker's end of the two lists. Written by the worker; the publisher acquires both. */
	CACHE_ALIGNED _Atomic uint64_t entry_tail;
	_Atomic uint64_t free_head;
	uint64_t seen_free_tail;

	/*
	 * This session's window. Written with the lock, handoff_drops and raw_claims by any
	 * thread. The worker reads the relaxed counters in each round. It reads the plain
	 * fields of the beginning after window_generation, those of the end after
	 * window_closed, each with acquire; the lock's holder stores them with release.
	 */
	CACHE_ALIGNED _Atomic uint64_t dispatches;
	_Atomic uint64_t others; /* barrier and vendor packets */
	uint64_t opened_at;      /* stamp: no slot of this window was claimed before */
	_Atomic uint64_t starved; /* dispatches that found no free signal */
	_Atomic uint64_t skipped_full; /* dispatches that were not noted: session_flags.full. Reset with the worker's skipped_counted only */
	_Atomic uint64_t handoff_drops; /* outcomes that wrappers could not hand over: the queue of events was full */
	_Atomic uint64_t raw_claims;
	_Atomic uint32_t ring_kind; /* enum ring_kind; one of our threads finds out. Relaxed: a hint to publishers, until then they are careful */
	_Atomic uint32_t withheld;  /* no signals of ours any more; written with the lock */
	uint64_t clean_at;          /* when the hardware has come here, no signal of ours is in a packet that it still reads */
	uint64_t before; /* packets in front of the window that the hardware had not consumed */
	uint64_t opened_ns;
	uint64_t closed_ns;
	uint64_t closed_index;
	uint64_t after; /* claimed in the window, unpublished at its end */
	_Atomic uint32_t window_generation; /* of the last flip; 0: none yet */
	_Atomic uint32_t window_closed;
	uint64_t *filled; /* bitmap over slots: the packets from scan to closed_index that the close has instrumented behind an incomplete one */
	uint64_t address; /* of the hsa_queue_t, also after it was destroyed */
	uint32_t type;    /* hsa_queue_type_t */
	bool excluded;    /* of a GPU that is not recorded: it stays raw, and nothing of it is counted. Constant while hsa is set */

	/* The worker only, while in_use is set. */
	CACHE_ALIGNED struct entry *pending;
	uint64_t pending_count;
	uint32_t id; /* in this session's records; 0: not written yet */
	uint32_t open_emitted, close_emitted;
	uint32_t agent; /* index into agents + 1, 0: unknown */
	uint32_t profiled_by_us; /* constant, as above */
	int64_t in_transit; /* dispatches whose outcome a wrapper is handing over */
	uint64_t backed, backed_end; /* entries below backed have memory; at backed_end all have */
	uint32_t slots_backed; /* stamps and placed have memory */
	uint64_t want_signals; /* free ones to keep */
	uint64_t seen_starved, seen_taken, skipped_counted;
	uint64_t dead_since_ns; /* when the worker saw that it was destroyed */
	bool parked;      /* has been held ready in this session */
	uint32_t settled; /* destroyed, every dispatch has its outcome, and then … */
	uint64_t handed_over; /* … so many events had been pushed */

	/* The end of the queue, and of the state's use for it. Any thread, seldom. */
	CACHE_ALIGNED _Atomic uint32_t in_use; /* the release in describe() pairs with the worker's acquire */
	_Atomic uint32_t destroyed; /* the runtime's hsa_queue_destroy has returned: nothing writes its signals now */
	_Atomic uint32_t released;  /* a user of a shared queue has destroyed it: the runtime may have freed it. Relaxed: under the lock */
	_Atomic uint32_t ours;      /* threads of ours that are in the ring, or about to be; see queue_enter_ours() */
};
/* `rtl-attach stuck` reads these from outside, at the beginning of a page (internal/stuck/virtual.go). */
_Static_assert(offsetof(struct queue, word) == 0 && offsetof(struct queue, hsa) == 8 && offsetof(struct queue, hsa_id) == 16 &&
	offsetof(struct queue, stamps) == 24 && offsetof(struct queue, mask) == 32 && offsetof(struct queue, base) == 80 &&
	offsetof(struct queue, opened_at) == 272 && offsetof(struct queue, opened_ns) == 336 && sizeof(struct stamp) == 16, "stuck reads them");
_Static_assert(offsetof(struct queue, entry_head) == offsetof(struct queue, lock) + 64, "one cache line");
_Static_assert(offsetof(struct queue, entry_tail) == offsetof(struct queue, entry_head) + 64, "one cache line");

#define PENDING_MAX (PACKETS_MAX + BACKLOG)

/* All states ever made. Entries below queue_count never change. */
extern struct queue *queue_all[QUEUES_MAX];
extern _Atomic uint32_t queue_count;

/* Stores before it, combined ones too, are seen before those after it. */
static inline void store_fence(void)
{
	__asm__ volatile("sfence" ::: "memory");
}

/* --- queue_table.c --------------------------------------------------------- */

/* The state of a queue, or NULL. Any thread; takes no lock. */
struct queue *queue_find(const hsa_queue_t *q);

/* The state of a queue. If it has none, it gets one that is held ready. Never waits. NULL
 * with *foreign: the queue is not to be recorded (its doorbell is not a hardware queue's).
 * NULL without: its state is not known now; the caller counts itself in queue_untracked. */
struct queue *queue_get(const hsa_queue_t *q, bool *foreign);

/* A doorbell of q rings, and no index call of q has been seen. Counts q as seen; its
 * dispatches are not recorded until there is an index call. */
void queue_rung(const hsa_queue_t *q);

/* Threads inside a raw index function for a queue that has no state. seq_cst with the
 * table: such a thread counts itself, and then searches for the queue again; a thread that
 * flips the queue has entered it in the table, and then reads the count. */
extern _Atomic uint32_t queue_untracked;

/* Removes a queue from the table and sets its word to WORD_DEAD. The caller should hold the
 * queue's lock; if it does not, the holder sees WORD_DEAD. */
void queue_forget(struct queue *s);

/* --- queues.c -------------------------------------------------------------- */

/* Makes states until n are held ready for queue_get(), each with its signals if the pool
 * is open. Our threads only. 0 or -ENOMEM. */
int queue_make_ready(uint32_t n);

/* A new session: no queue is known, and every state is held ready. Only while no wrapper
 * records. A thread of the last session that is still inside a wrapper finds its state raw
 * until the grace period is over, and the grace period waits for it. False: such a thread
 * holds the table's lock, and does not unlock in time. */
bool queue_reset_all(void);

/* The worker only. Holds a state ready again whose queue was destroyed and whose dispatches
 * all have their outcome. If a thread still uses it, or there is no room, in_use stays set,
 * and the worker tries again. */
void queue_recycle(struct queue *s);

/* Locks. A thread that dispatches only tries. */
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
	/* seq_cst: pairs with the load of pend after it, and with the store of pend before
	 * a trylock that fails */
	atomic_store_explicit(&s->lock, 0, memory_order_seq_cst);
}

/*
 * Waits until the holder unlocks, which takes it some microseconds. False: it does not
 * unlock in time. Its thread may be stopped, or may itself be the caller: a signal handler
 * above the wrapper calls exit() or hsa_queue_destroy. For the ends of sessions and queues.
 */
#define LOCK_WAIT_NS (2 * NS_PER_S)
bool lock_wait(_Atomic uint32_t *lock, uint64_t timeout_ns);
bool queue_lock_wait(struct queue *s, uint64_t timeout_ns);

/*
 * Around what a thread of ours does in a queue's ring with its lock. A thread that frees the
 * ring waits for ours, which may have lost its CPU and would go on in freed memory. seq_cst:
 * our thread counts itself, and then reads whether the queue is dead or the runtime lost;
 * the other thread writes that, and then reads the count.
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

/* As queue_lock_wait(), for a thread that frees the ring next. It waits longer if a thread
 * of ours holds the lock, and not for threads of the application. */
bool queue_lock_to_destroy(struct queue *s);

#endif
