/*
 * publish.h: what happens to a queue at its doorbell (publish.c), and how it
 * turns virtual and raw again (flip.c). The states: queues.h.
 */
#ifndef RTL_PUBLISH_H
#define RTL_PUBLISH_H

#include "kinds/dispatch/queues.h"

/* A raw queue tries to turn virtual. Never waits. */
void queue_try_flip(struct queue *s);

/* Any thread: finishes a close that another thread has begun. word is the
 * value that was read, CLOSED|V. */
void queue_help(struct queue *s, uint64_t word);

/* doorbell.c. The application rings with value. next: the store wrapper's own next
 * function. */
void queue_bell(struct queue *s, hsa_signal_t doorbell, hsa_signal_value_t value,
		void (*next)(hsa_signal_t, hsa_signal_value_t));

/* Does the work that other threads left because the lock was taken. */
void queue_drain_pend(struct queue *s);

/* Worker: publishes complete packets for which no doorbell has come. */
bool queue_kick(struct queue *s);

/* Lock held: publishes what is complete, turns the queue raw, and reports the slots that
 * were claimed while it was virtual and are not published. Waits while there is no room for
 * these events, for CLOSE_PUSH_MOST_NS in all closes of a session. */
#define CLOSE_PUSH_MOST_NS (100 * NS_PER_MS)
void queue_close(struct queue *s);

/* Lock held: the index of the packet that follows, in this slot, the last one that was
 * instrumented. What it reads is written with the lock: relaxed. flip.c. */
uint64_t queue_packet_after(const struct queue *s, uint64_t slot);

/* Finds out where the queue's ring is. Our threads only. scrub.c. */
enum ring_kind queue_note_ring(struct queue *s);

/* Whether it was destroyed past our wrapper: its memory is not mapped any more. scrub.c. */
bool queue_is_gone(struct queue *s);

/* Lock held: removes our signals from consumed slots. Called before the queue is closed,
 * because a producer that writes only the fields that change would pass the signal to the
 * hardware again; and before signals are destroyed, when nothing is pending. A signal that
 * such a producer may have used meanwhile is leaked. In a device's ring of a raw queue they
 * stay, and are leaked. Our threads only. scrub.c. */
void queue_scrub_signals(struct queue *s);

/* --- between publish.c and flip.c; with the queue's lock ------------------- */

/* Publishes the complete packets of a virtual queue; false: there were none. */
bool queue_publish(struct queue *s);

/* A complete packet that the hardware has not seen: counts it. A dispatch gets a signal, or
 * its own is noted, and goes to the worker. */
void queue_note_packet(struct queue *s, hsa_kernel_dispatch_packet_t *p, int type, uint64_t index);

/* hsa_packet_type_t; acquire: the packet's body and its stamp can be read. */
int packet_type(const hsa_kernel_dispatch_packet_t *p);

uint64_t queue_read_index(const struct queue *s);

/* The real doorbell. */
void queue_ring(struct queue *s, uint64_t index);

/* Counters with one writer at a time. Relaxed: readers need no order. */
static inline void bump(_Atomic uint64_t *counter)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}

#endif
