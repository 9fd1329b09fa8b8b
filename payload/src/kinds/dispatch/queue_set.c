/*
 * queue_set.c: lists of queues. All accesses are relaxed: pointers are compared and not
 * followed, and one compare-and-swap takes a place.
 */
#include "kinds/dispatch/queue_set.h"

#include <stdatomic.h>
#include <stddef.h>

static const char gone; /* in a place that was removed: a search goes on past it */

bool queue_set_add(queue_set list, const hsa_queue_t *q)
{
	for (unsigned i = 0; i < QUEUE_SET_MAX; i++) {
		const hsa_queue_t *here = atomic_load_explicit(&list[i], memory_order_relaxed);

		if (!here && atomic_compare_exchange_strong_explicit(&list[i], &here, q, memory_order_relaxed, memory_order_relaxed))
			return true;
		if (here == q)
			return false;
	}
	return false;
}

bool queue_set_has(queue_set list, const hsa_queue_t *q)
{
	for (unsigned i = 0; i < QUEUE_SET_MAX; i++)
		if (atomic_load_explicit(&list[i], memory_order_relaxed) == q)
			return true;
	return false;
}

bool queue_set_remove(queue_set list, const hsa_queue_t *q)
{
	for (unsigned i = 0; i < QUEUE_SET_MAX; i++)
		if (atomic_load_explicit(&list[i], memory_order_relaxed) == q) {
			atomic_store_explicit(&list[i], (const hsa_queue_t *)&gone, memory_order_relaxed);
			return true;
		}
	return false;
}

void queue_set_clear(queue_set list)
{
	for (unsigned i = 0; i < QUEUE_SET_MAX; i++)
		atomic_store_explicit(&list[i], NULL, memory_order_relaxed);
}
