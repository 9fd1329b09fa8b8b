/*
 * handoff.h: the bounded queue on which any thread hands an outcome to the
 * worker, the ring's only producer. Multi-producer, single-consumer, after
 * D. Vyukov's bounded queue: one CAS to take a cell, no wait, no allocation.
 */
#ifndef RTL_HANDOFF_H
#define RTL_HANDOFF_H

#include <stdbool.h>
#include <stdint.h>

#include "kinds/dispatch/queues.h"

enum outcome_kind {
	OUTCOME_TIMED,   /* entry, start_ticks, end_ticks */
	OUTCOME_UNTIMED, /* entry, reason */
	OUTCOME_RANGE,   /* entry.index and count: slots never seen, reason */
	OUTCOME_NOTED,   /* a copy has begun: no outcome yet */
	OUTCOME_TAKEN_BACK, /* the runtime has refused it */
};

struct outcome {
	struct entry entry;
	struct queue *queue;
	union {
		uint64_t start_ticks;
		uint64_t count; /* OUTCOME_RANGE */
	};
	uint64_t end_ticks;
	uint64_t signal;   /* the application's, 0: none */
	uint64_t armed_at; /* stamp of its publication, before its kernel starts; 0: unknown */
	uint32_t kind;
	uint32_t reason;
	uint32_t owed; /* the worker is counting on this one (see signals.h) */
	uint32_t generation; /* of the session in which it was taken: a later one has other queues there */
};

#define ARMED_IN_DOUBT (1ull << 63) /* in armed_at: an earlier packet's times may have come after it */

/* Powers of two. The longer is for a worker that gets no processor for seconds; each
 * lap touches it all. */
#define HANDOFF_CELLS 16384
#define HANDOFF_CELLS_LOSSLESS (16 * HANDOFF_CELLS)

/* Arming: makes it, or opens it again. 0 or -errno. */
int handoff_init(bool lossless);

/* False: full. */
bool handoff_push(const struct outcome *o);

/* Worker only, or who closes it. */
bool handoff_pop(struct outcome *o);

/* Worker only. How many have been pushed, or are just being; and popped. */
uint64_t handoff_pushed(void);
uint64_t handoff_popped(void);
/* The one of that number between the two. False: a thread is filling it. */
bool handoff_look(uint64_t number, struct outcome *o);

/* No worker runs: what is left in it is dropped, and handoff_push() finds it full until
 * handoff_init(). Its memory is given back, unless a thread is filling a cell. */
void handoff_close(void);

#endif
