/*
 * pool.h: signals of ours for packets that carry none. GPU-only: no interrupt,
 * no kernel event. Used by one thread at a time: arming, then, when it is open, the worker.
 */
#ifndef RTL_POOL_H
#define RTL_POOL_H

#include "kinds/dispatch/queues.h"

/* The value of a pool signal in a packet; the hardware decrements it. */
#define POOL_ARMED 1

int pool_init(void);

/* While the pool is closed, no signal is made: the runtime could end, and free it. Arming
 * closes the pool, and opens it when every hsa_shut_down meets our wrapper. */
void pool_close(void);
void pool_open(void);
/* The runtime has refused to make a signal since the pool was opened. */
bool pool_is_exhausted(void);

/* Gives queue s free signals until it has want of them, and creates what is missing. 0, also
 * if the pool is closed, or -ENOMEM when the runtime makes no more. */
int pool_fill(struct queue *s, uint64_t want);

/*
 * How many signals a queue has ready before it is recorded. In a session with windows it is what the windows so far needed,
 * with a reserve: their signals are made before each one, and destroyed after it. Not kept in between: nothing would tell
 * that the runtime has ended meanwhile.
 */
uint64_t pool_share(void);
/* The worker: a queue has used so many signals in one round; some dispatches found none. */
void pool_note_use(uint64_t used, bool starved);

/* Resets a signal that has completed and gives it back to queue s. */
void pool_put_back(struct queue *s, uint64_t handle);

/* A signal that the hardware may still write: never used nor touched again. */
void pool_quarantine(void);

/* A signal that has completed without times, for which the worker has waited (pending.c): is
 * used again after POOL_DEFER_NS, when the hardware does not write them any more. */
#define POOL_DEFER_NS (250 * NS_PER_MS)
void pool_defer_reuse(uint64_t handle);

/* How many signals of ours there are, those in quarantine included. */
uint64_t pool_count(void);

/* The application may have given this signal to the hardware again: pool_destroy_all() does
 * not destroy it. */
void pool_leak(uint64_t handle);

/* Destroys all signals in the stock and in queues. No publisher may run. Unless the process
 * ends, waits for the deferred ones, POOL_DEFER_NS at most. */
void pool_destroy_all(bool process_ends);
/* Forgets all signals: the runtime has freed them, or keeps them. */
void pool_drop_all(void);

#endif
