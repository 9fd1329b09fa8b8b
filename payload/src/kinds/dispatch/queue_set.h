/* queue_set.h: queues that a session has seen and does not record, for each to be counted once. */
#ifndef RTL_QUEUE_SET_H
#define RTL_QUEUE_SET_H

#include <hsa/hsa.h>
#include <stdbool.h>

#define QUEUE_SET_MAX 64
typedef _Atomic(const hsa_queue_t *) queue_set[QUEUE_SET_MAX];

/* From any thread. True once in a session for each queue, as far as the list goes. */
bool queue_set_add(queue_set list, const hsa_queue_t *q);

bool queue_set_has(queue_set list, const hsa_queue_t *q);

/* One thread at a time. True: it was in the list, and is not any more. */
bool queue_set_remove(queue_set list, const hsa_queue_t *q);

/* While nobody notes. */
void queue_set_clear(queue_set list);

#endif
