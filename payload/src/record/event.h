/*
 * event.h: events from any thread to the worker, which is the ring's only producer. A
 * bounded queue with many producers and one consumer, after D. Vyukov. A push takes one
 * compare-and-swap; it never waits and never allocates.
 */
#ifndef RTL_EVENT_H
#define RTL_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "abi.h"

#define ITEM_WORDS 8   /* what a kind keeps of one item, 64 bytes */
#define BODY_WORDS 14

enum event_what {
	EVENT_TIMED,   /* an item on a signal ended: start_ticks, end_ticks */
	EVENT_UNTIMED, /* an item on a signal ended without times: reason */
	EVENT_OF_KIND, /* a kind's own numbers begin here, with a body of its own */
};

struct event {
	uint8_t kind;   /* enum rtl_kind */
	uint8_t what;   /* enum event_what */
	uint8_t reason; /* enum rtl_reason */
	uint8_t in_transit; /* the worker counts on this event: its item was pending there */
	uint32_t generation; /* of the session in which the item began: a later one has other items */
	union {
		uint64_t body[BODY_WORDS];
		struct {
			uint64_t item[ITEM_WORDS]; /* as signal_arm() was given it */
			uint64_t lane;     /* see lane_of() */
			uint64_t start_ticks;
			uint64_t end_ticks;
			uint64_t signal;   /* the application's, 0: none */
			uint64_t armed_at; /* stamp of its publication, before it starts; 0: unknown */
		};
	};
};

#define ARMED_IN_DOUBT (1ull << 63) /* in armed_at: an earlier packet's times may have come after it */

/*
 * A lane is a sequence of items of one kind, such as a queue's. It is one word: the address
 * of the queue's state, a multiple of 64, with the kind in the low bits, so that a reader
 * learns the kind without reading the state. A kind without queues has one lane.
 */
#define LANE_KINDS 63ull
#define LANE_NONE 0ull
_Static_assert(RTL_KINDS_MAX <= LANE_KINDS + 1, "a kind fits below the address");

static inline uint64_t lane_of(uint32_t kind, const void *place)
{
	return (uint64_t)place | kind;
}

static inline uint32_t lane_kind(uint64_t lane)
{
	return lane & LANE_KINDS;
}

static inline void *lane_place(uint64_t lane)
{
	return (void *)(lane & ~LANE_KINDS);
}

/* Powers of two. The longer queue is for a worker that gets no CPU for seconds. Each lap
 * touches all cells. */
#define EVENT_CELLS 16384
#define EVENT_CELLS_LOSSLESS (16 * EVENT_CELLS)

/* Arming: maps the queue, or opens it again. 0 or -errno. */
int events_init(bool lossless);

/* False: the queue is full. */
bool event_push(const struct event *e);

/* Pushes an event that the worker counts on. If the queue is full, the event's kind counts
 * the item as lost (struct kind's count_dropped()). */
void event_deliver(struct event *e);

/* Whether the worker runs and takes events: a thread that finds the queue full may then
 * push again. Set by worker_start() and worker_stop(). */
void events_set_consumer(bool runs);
bool events_have_consumer(void);

/* Takes the next event; false: there is none. The worker only, or the thread that closes
 * the queue. */
bool event_pop(struct event *e);

/* The worker only. How many events were pushed, with those that are being pushed; and how
 * many were popped. */
uint64_t events_pushed(void);
uint64_t events_popped(void);
/* Copies the event of a number between the two. False: a thread is writing it. */
bool event_look(uint64_t number, struct event *e);

/* When no worker runs: drops all events, and event_push() finds the queue full until
 * events_init(). Gives the memory back, unless a thread is writing an event, or another window follows: see events_keep(). */
void events_close(void);
/* Whether events_close() keeps the memory, until events_give_back(), which drops nothing of an open queue: to touch
 * all of it again takes longer than many a time between two windows. */
void events_keep(bool keep);
void events_give_back(void);

#endif
