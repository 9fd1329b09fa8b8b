/* noted.h: queues that a session has seen and does not record, for each to be counted once. */
#ifndef RTL_NOTED_H
#define RTL_NOTED_H

#include <hsa/hsa.h>
#include <stdbool.h>

#define NOTED_MAX 64
typedef _Atomic(const hsa_queue_t *) noted_queues[NOTED_MAX];

/* From any thread. True once in a session for each queue, as far as the list goes. */
bool noted_anew(noted_queues list, const hsa_queue_t *q);

bool noted(noted_queues list, const hsa_queue_t *q);

/* One thread at a time. True: it was in the list, and is not any more. */
bool noted_no_more(noted_queues list, const hsa_queue_t *q);

/* While nobody notes. */
void noted_clear(noted_queues list);

#endif
