/*
 * buffers.h: what the files on buffers share: batch.c (records in the memory of one buffer), buffers.c (putting records in,
 * taking batches out), buffer_life.c (buffers and callback threads are made and destroyed).
 *
 * One lock for all: a put takes it for a few instructions, and no callback runs under it.
 */
#ifndef RTL_BUFFERS_H
#define RTL_BUFFERS_H

#include "core/sys.h"
#include "embed.h"

#define BUFFERS 32

struct buffer {
	uint64_t id; /* 0: free */
	rtl_buffer_options_t options;
	char *data;
	uint64_t head, tail;  /* count bytes and never wrap */
	uint64_t due;         /* flushed: everything before this position may be delivered */
	uint64_t dropped;     /* not yet said */
	uint32_t users;       /* threads in a function of this buffer */
	bool delivering, closing;
};

/* ---- batch.c, with the lock */

bool buffer_is_due(const struct buffer *b);
/* The records from tail on that are in one piece, and the position behind them. */
size_t buffer_count_batch(const struct buffer *b, uint64_t *end);
/* The record behind the last batch did not fit in front of the end of the memory. */
void buffer_skip_filler(struct buffer *b);
bool buffer_has_room(const struct buffer *b, size_t bytes);
/* There is room. True: the buffer is due now, and was not before. */
bool buffer_append(struct buffer *b, const rtl_record_t *r, const char *text, size_t text_bytes);

/* ---- buffers.c */

extern pthread_mutex_t buffers_lock;

/* With the lock. */
extern struct condition buffers_changed; /* of any buffer */
extern struct buffer all_buffers[BUFFERS];
extern bool buffers_stopping;
extern uint64_t buffers_dropped_in_all;
extern _Atomic uint32_t buffers_count; /* also without: a hint that there is nothing to put */
struct buffer *buffers_find(uint64_t id);
void buffers_wake(void);

/* A callback thread; data is its id. */
void *buffers_run_callbacks(void *data);

/* ---- buffer_life.c, with the lock */

void buffers_initialize(void);

#endif
