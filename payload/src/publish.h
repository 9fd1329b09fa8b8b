/*
 * publish.h: what happens to a queue at its doorbell, and how it turns
 * virtual and raw again. The states and their orderings: queues.h.
 */
#ifndef RTL_PUBLISH_H
#define RTL_PUBLISH_H

#include "queues.h"

/* A raw queue tries to turn virtual; never waits for anybody. */
void queue_try_flip(struct queue *s);

/* Any thread: finishes a close that another thread has begun. word is the
 * value that was read, CLOSED|V. */
void queue_help(struct queue *s, uint64_t word);

/* The application rings; value is what it rang with. next: the store wrapper's
 * own next function. */
void queue_bell(struct queue *s, hsa_signal_value_t value, void (*next)(hsa_signal_t, hsa_signal_value_t));

/* Work that somebody left because the lock was taken. */
void queue_drain_pend(struct queue *s);

/* Worker: publishes complete packets for which no doorbell has come. */
bool queue_kick(struct queue *s);

/* Lock held: publishes what is complete, turns the queue raw, and reports the
 * slots claimed while virtual that are not published. */
void queue_close(struct queue *s);

#endif
