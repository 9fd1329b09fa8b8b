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
#define WORKER_ROUND_MOST_NS NS_PER_S /* a longer round waits for something */
#define WORKER_DRAIN_OVER_NS (WORKER_ROUND_MOST_NS / 10) /* of worker_drain(), above its time-out */
#define WORKER_ABANDON_MOST_NS (2 * WORKER_ROUND_MOST_NS)
#define WORKER_SESSION_END_MOST_NS (2 * NS_PER_S) /* while the recorder is late */
#define WORKER_DELIVERY_STALLED_NS (5 * NS_PER_S) /* the recorder has taken nothing for so long: it does not read */
#define WORKER_STOP_MOST_NS (WORKER_SESSION_END_MOST_NS + WORKER_ROUND_MOST_NS)

/* Starts it; everything it uses is ready. 0 or -errno. */
int worker_start(void);

/* Waits for a whole round that begins after the call. False: timed out. */
bool worker_round(uint64_t timeout_ns);

/* Waits until every item that has begun has its outcome, or *skip or *cancel is set. False:
 * some have none. */
bool worker_drain(uint64_t timeout_ns, const uint32_t *skip, const uint32_t *cancel);

/* Lossless: waits until all records are in the ring, for as long as the recorder
 * makes room there, or until *skip or *cancel is set. After worker_drain() or
 * worker_abandon(). */
void worker_deliver(const uint32_t *skip, const uint32_t *cancel);

/* Reports what is still pending as not completed; its signals go into
 * quarantine. Queues are closed. */
void worker_abandon(void);

/* The runtime or the process is about to end, and the worker goes on: from now on it reads
 * no signal and does not call the runtime, unless it sleeps inside already. frees: the
 * runtime frees what the worker reads, so this waits for a worker that is starved. */
void worker_stop_touching_runtime(bool frees);

/*
 * Writes the ends of the windows and the last record, and ends the thread. False: not in
 * time, because it waits inside the runtime: forever, if a signal handler has called exit()
 * while its thread held a lock of the runtime. What the worker uses must stay mapped; the
 * next call waits again.
 */
bool worker_stop(uint32_t why, uint64_t armed_ns, uint64_t detached_ns);

int worker_tid(void);

#endif
