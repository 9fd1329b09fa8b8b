/*
 * pool.h: signals of ours for packets that carry none. GPU-only: no interrupt,
 * no kernel event. Used by one thread at a time: arming, then, when it is open, the worker.
 */
#ifndef RTL_POOL_H
#define RTL_POOL_H

#include "kinds/dispatch/queues.h"

/* The value of a pooled signal on its way; the hardware decrements it. */
#define POOL_ARMED 1

int pool_init(void);

/* While it is closed no signal is made: it could go with a runtime that ends. Arming
 * closes it, and opens it when nobody can end the runtime behind our back. */
void pool_close(void);
void pool_open(void);
/* Since it was opened the runtime has refused to make one. */
bool pool_is_exhausted(void);

/* Gives queue s free signals until it has want of them; created at need.
 * 0, also of a closed pool, or -ENOMEM when the runtime makes no more. */
int pool_fill(struct queue *s, uint64_t want);

/* Resets a signal that has completed and gives it back to queue s. */
void pool_put_back(struct queue *s, uint64_t handle);

/* A signal that the hardware may still write: never used nor touched again. */
void pool_quarantine(void);

/* A signal that has completed without times: used again when the hardware can no
 * longer be about to write them. The worker has waited for them before, see pending.c. */
#define POOL_COOLING_NS (250 * NS_PER_MS)
void pool_defer_reuse(uint64_t handle);

/* How many signals of ours there are, those in quarantine included. */
uint64_t pool_count(void);

/* The hardware may have been given this one once more, behind our back:
 * pool_destroy_all() leaves it alone. */
void pool_leak(uint64_t handle);

/* Destroys every signal in the stock and in queues. No publisher may run. Waits for
 * those that cool, POOL_COOLING_NS at most, or they would be lost: not when the
 * process ends. */
void pool_destroy_all(bool process_ends);
/* They have gone with the runtime, or stay with it for good. */
void pool_drop_all(void);

#endif
