/*
 * worker.h: the completion worker, one thread per session. It polls pending
 * signals (plain memory), names kernels, and is the ring's only producer.
 */
#ifndef RTL_WORKER_H
#define RTL_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/sys.h"

/* What the waits below take at most. */
#define WORKER_ROUND_MOST_NS NS_PER_S /* then something holds it up */
#define WORKER_DRAIN_OVER_NS (WORKER_ROUND_MOST_NS / 10) /* of worker_drain(), above its time-out */
#define WORKER_ABANDON_MOST_NS (2 * WORKER_ROUND_MOST_NS)
#define WORKER_SESSION_END_MOST_NS (2 * NS_PER_S) /* while the recorder is late */
#define WORKER_DELIVERY_STALLED_NS (5 * NS_PER_S) /* nothing was taken for so long: nobody reads */
#define WORKER_STOP_MOST_NS (WORKER_SESSION_END_MOST_NS + WORKER_ROUND_MOST_NS)

/* Starts it; everything it uses is ready. 0 or -errno. */
int worker_start(void);

/* Waits for a whole round that begins after the call. False: timed out. */
bool worker_round(uint64_t timeout_ns);

/* Waits until nothing published is without its outcome, or *skip or *hurry is set. */
bool worker_drain(uint64_t timeout_ns, const uint32_t *skip, const uint32_t *hurry);

/* Lossless: waits until all records are in the ring, for as long as the recorder
 * makes room there, or until *skip or *cancel is set. After worker_drain() or
 * worker_abandon(). */
void worker_deliver(const uint32_t *skip, const uint32_t *cancel);

/* Reports what is still pending as not completed; its signals go into
 * quarantine. Queues are closed. */
void worker_abandon(void);

/* The runtime or the process is about to end, and the worker goes on: sees to it that it
 * reads no signal any more, nor asks the runtime, unless it sleeps inside already. A
 * runtime that ends frees what it reads: a starved worker is waited for then. */
void worker_stop_touching_runtime(bool frees);

/*
 * Writes the windows' ends and the last record, and ends the thread. False: not
 * in time. A function of the runtime holds it up, for good if a signal handler
 * has called exit() while its thread held a lock there. What the worker uses must
 * stay; the next call waits for it anew.
 */
bool worker_stop(uint32_t why, uint64_t armed_ns, uint64_t detached_ns);

int worker_tid(void);

#endif
