/* queue_set.h: queues that a session has seen and does not record, for each to be counted once. */
#ifndef RTL_QUEUE_SET_H
#define RTL_QUEUE_SET_H

#include <hsa/hsa.h>
#include <stdbool.h>

#define QUEUE_SET_MAX 64
typedef _Atomic(const hsa_queue_t *) queue_set[QUEUE_SET_MAX];

/* Any thread. True once in a session for each queue; false when the list is full. */
bool queue_set_add(queue_set list, const hsa_queue_t *q);

bool queue_set_has(queue_set list, const hsa_queue_t *q);

/* One thread at a time. True: it was in the list, and is not any more. */
bool queue_set_remove(queue_set list, const hsa_queue_t *q);

/* Only while no thread uses the list. */
void queue_set_clear(queue_set list);

#endif
