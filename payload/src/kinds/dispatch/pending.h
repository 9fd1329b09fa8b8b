/*
 * pending.h: dispatches between their publication and their outcome. The
 * worker only.
 */
#ifndef RTL_PENDING_H
#define RTL_PENDING_H

#include "kinds/dispatch/queues.h"

/* Takes what was published since the last call, and finds its launches. abandon: also
 * dispatches whose launch the ring has no room to define. */
void pending_take(struct queue *s, bool abandon);

/*
 * Records the outcome of pending dispatches that have one, in any order: a slow kernel
 * delays no other. abandon: all others end as not completed. Returns how many ended.
 */
uint64_t pending_settle(struct queue *s, uint64_t now, bool abandon);

#endif
