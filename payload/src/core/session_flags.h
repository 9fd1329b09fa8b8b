/*
 * session_flags.h: what the threads of a session share: the configuration, the
 * counters, and the flags that application threads read on every call.
 */
#ifndef RTL_SESSION_FLAGS_H
#define RTL_SESSION_FLAGS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "abi.h"
#include "core/env.h"
#include "core/sys.h"

/*
 * Read by every wrapper. Written by arming and disarming only, but for full.
 *
 * track   wrappers record: set before the first slot is patched, cleared after the last
 *         is restored. Load-acquire: a thread that reads 0 also sees all the worker's
 *         writes to signals.
 * flips   queues may turn virtual. Disarming clears it and then takes every queue's
 *         lock; a flip holds that lock and reads it again, so no queue flips after
 *         that (flip.c).
 * lost    the runtime may have ended while the worker runs: pending items get no times
 *         any more, and no thread may touch their signals. Stored by
 *         worker_stop_touching_runtime() before it waits for a round. seq_cst, also in
 *         runtime_is_lost(): pairs with queue_enter_ours() and queue_await_ours().
 * full    a relaxed hint from the worker: a thread that reads it late notes one
 *         dispatch more or less, and both are counted.
 */
struct session_flags {
	CACHE_ALIGNED _Atomic uint32_t track;
	_Atomic uint32_t flips;
	_Atomic uint32_t lost;
	_Atomic uint32_t full; /* records are being lost: dispatches are only counted */
	_Atomic uint32_t generation;
	_Atomic uint32_t stamp_boottime; /* enum rtl_stamp */
	_Atomic uint32_t tid_offset;     /* of the thread id from %fs:0, 0: unknown */
	_Atomic uint32_t unavailable;    /* bits of kinds that cannot be recorded (record/unavailable.h); arming writes it */
};
extern struct session_flags session_flags;

static inline bool runtime_is_lost(void)
{
	return UNLIKELY(atomic_load_explicit(&session_flags.lost, memory_order_seq_cst));
}

/* A page that reads as zero in a forked child: the child has our wrappers in
 * its slots but neither worker nor control block, so its wrappers pass through. */
extern const volatile uint32_t *fork_canary;

static inline bool is_original_process(void)
{
	return LIKELY(*fork_canary != 0);
}

/* Wrappers record, in this process. */
static inline bool tracking(void)
{
	return is_original_process() && atomic_load_explicit(&session_flags.track, memory_order_acquire);
}

/* The clock that stamps claims and publications: cheap, on any thread.
 * clocks.h turns a stamp into CLOCK_BOOTTIME ns. */
static inline uint64_t stamp_time(void)
{
	if (UNLIKELY(atomic_load_explicit(&session_flags.stamp_boottime, memory_order_relaxed)))
		return now_boottime();
	return tsc_now();
}

/* The thread id, from where the C library keeps it: no system call, no TLS of
 * our own. The offset was found and checked by the control thread. */
static inline uint32_t current_tid(void)
{
	uint64_t offset = atomic_load_explicit(&session_flags.tid_offset, memory_order_relaxed);
	uint32_t tid;

	if (!offset)
		return 0;
	__asm__("movl %%fs:(%1), %0" : "=r"(tid) : "r"(offset));
	return tid;
}

/* Threads inside hsa_shut_down. While there are some, no thread of ours may take a
 * reference to the runtime. */
extern _Atomic uint32_t runtime_shutting_down;

extern struct rtl_config config;
extern struct rtl_control *control;   /* the control memfd; NULL until control_create() */
extern struct rtl_counters *counters; /* in the control memfd */

/* Several threads write the counters. Relaxed: readers need sums, and no order. */
static inline void count_n(uint64_t *counter, uint64_t n)
{
	__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}
#define COUNT(field) count_n(&counters->field, 1)
/* For counters that only the worker writes. */
#define TALLY(field) __atomic_store_n(&counters->field, counters->field + 1, __ATOMIC_RELAXED)
#define COUNT_N(field, n) count_n(&counters->field, (n))

/* Counts records of a kind (enum rtl_kind) that the tool never gets. */
static inline void count_lost(uint32_t kind, uint64_t records)
{
	COUNT_N(kind[kind].lost, records);
	COUNT_N(records_lost, records);
}

/* The session records this kind (enum rtl_kind): it was asked for, and is possible. Relaxed: the worker, which
 * may read it while a kind's start() fails, may treat the kind as recorded once more; nothing of it has begun. */
static inline bool is_recorded(uint32_t kind)
{
	return (config.trace & ~atomic_load_explicit(&session_flags.unavailable, memory_order_relaxed)) >> kind & 1;
}

#endif
