/*
 * buffers.c: records in batches. The recorder's thread puts records into the buffers; callback threads, or
 * threads of the application, take batches out.
 */
#include "buffers.h"

#include <errno.h>
#include <string.h>

#define STALLED_NS (5 * NS_PER_S) /* a session that ends waits for the reader of a lossless buffer */
#define WAIT_NS (50 * NS_PER_MS)  /* between two heartbeats */

pthread_mutex_t buffers_lock = PTHREAD_MUTEX_INITIALIZER;
struct condition buffers_changed;
struct buffer all_buffers[BUFFERS];
bool buffers_stopping;
uint64_t buffers_dropped_in_all;
_Atomic uint32_t buffers_count;
static bool ending;

void buffers_wake(void)
{
	pthread_cond_broadcast(&buffers_changed.cond);
}

struct buffer *buffers_find(uint64_t id)
{
	for (struct buffer *b = all_buffers; id && b < all_buffers + BUFFERS; b++)
		if (b->id == id)
			return b;
	return NULL;
}

/* ---- taking */

/* With the lock, which it releases while the callback runs. The number of records. */
static size_t deliver(struct buffer *b, rtl_batch_callback_t callback, void *user)
{
	buffer_skip_filler(b);
	uint64_t end, dropped = b->dropped;
	size_t n = buffer_count_batch(b, &end);
	const rtl_record_t *first = (const rtl_record_t *)(b->data + b->tail % b->options.size_bytes);

	if ((n || dropped) && !atomic_load(&muted)) {
		b->dropped = 0;
		b->delivering = true;
		pthread_mutex_unlock(&buffers_lock);
		callback_begin();
		callback_end(invoke_batch(callback, (rtl_buffer_t){b->id}, first, n, dropped, user));
		pthread_mutex_lock(&buffers_lock);
		b->delivering = false;
	}
	b->tail = end;
	if (b->tail >= b->due)
		b->due = 0;
	buffers_wake();
	return n;
}

static struct buffer *find_due(uint64_t thread)
{
	for (struct buffer *b = all_buffers; b < all_buffers + BUFFERS; b++)
		if (b->id && !b->closing && !b->delivering && b->options.callback && b->options.thread.id == thread && buffer_is_due(b))
			return b;
	return NULL;
}

void *buffers_run_callbacks(void *data)
{
	uint64_t id = (uint64_t)(uintptr_t)data;
	struct buffer *b;

	pthread_mutex_lock(&buffers_lock);
	while (!buffers_stopping) {
		if ((b = find_due(id)))
			deliver(b, b->options.callback, b->options.user);
		else
			condition_wait(&buffers_changed, &buffers_lock, UINT64_MAX);
	}
	pthread_mutex_unlock(&buffers_lock);
	return NULL;
}

/* ---- putting */

/* A lossless buffer: false: it is gone, or nobody reads and the session ends. */
static bool await_room(struct buffer *b, size_t bytes, void (*beat)(void))
{
	uint64_t id = b->id, tail = b->tail, moved = now_monotonic();

	while (!buffer_has_room(b, bytes)) {
		b->due = b->head;
		buffers_wake();
		condition_wait(&buffers_changed, &buffers_lock, now_monotonic() + WAIT_NS);
		beat();
		if (b->id != id || b->closing || atomic_load(&muted))
			return false;
		if (b->tail != tail || !ending) {
			tail = b->tail;
			moved = now_monotonic();
		} else if (now_monotonic() - moved > STALLED_NS) {
			return false;
		}
	}
	return true;
}

static void drop(struct buffer *b)
{
	b->dropped++;
	buffers_dropped_in_all++;
}

void buffers_put(const rtl_record_t *r, void (*beat)(void))
{
	const char *text = r->kind == RTL_RECORD_MARKER ? ((const rtl_marker_record_t *)r)->text : NULL;
	size_t text_bytes = text ? (strlen(text) + 8) & ~7ul : 0; /* with the NUL */

	if (!atomic_load_explicit(&buffers_count, memory_order_relaxed))
		return;
	pthread_mutex_lock(&buffers_lock);
	for (struct buffer *b = all_buffers; b < all_buffers + BUFFERS; b++) {
		if (!b->id || b->closing || !((b->options.kinds | KINDS_OF_SESSIONS) & RTL_BIT(r->kind)))
			continue;
		bool room = buffer_has_room(b, r->size + text_bytes);
		uint64_t id = b->id;
		if (!room && b->options.policy == RTL_BUFFER_LOSSLESS)
			room = await_room(b, r->size + text_bytes, beat);
		if (b->id != id)
			continue;
		if (!room)
			drop(b);
		else if (buffer_append(b, r, text, text_bytes))
			buffers_wake();
	}
	pthread_mutex_unlock(&buffers_lock);
}

uint32_t buffers_kinds(void)
{
	uint32_t kinds = 0;

	pthread_mutex_lock(&buffers_lock);
	for (struct buffer *b = all_buffers; b < all_buffers + BUFFERS; b++)
		if (b->id)
			kinds |= b->options.kinds;
	pthread_mutex_unlock(&buffers_lock);
	return kinds;
}

/* ---- flushing */

static void make_due(struct buffer *b)
{
	/* also where it is empty: records that were dropped are due */
	b->due = b->head ? b->head : 1;
	buffers_wake();
}

static bool is_delivered(const struct buffer *b, uint64_t until)
{
	return !b->options.callback || (b->tail >= until && !b->delivering);
}

/* With the lock. */
static bool await_delivered(struct buffer *b, uint64_t until_ns)
{
	uint64_t id = b->id, until = b->head;
	bool in_time = true;

	while (in_time && b->id == id && !b->closing && !is_delivered(b, until))
		in_time = condition_wait(&buffers_changed, &buffers_lock, until_ns);
	return b->id != id || b->closing || is_delivered(b, until);
}

bool buffers_flush(uint64_t until_ns)
{
	bool all = true;

	pthread_mutex_lock(&buffers_lock);
	for (struct buffer *b = all_buffers; b < all_buffers + BUFFERS; b++)
		if (b->id)
			make_due(b);
	for (struct buffer *b = all_buffers; b < all_buffers + BUFFERS; b++)
		if (b->id)
			all = await_delivered(b, until_ns) && all;
	pthread_mutex_unlock(&buffers_lock);
	return all;
}

EXPORT int rtl_buffer_flush(rtl_buffer_t buffer, uint32_t timeout_ms)
{
	uint64_t until = deadline_after_ms(timeout_ms);

	if (is_forked_child())
		return -ECHILD;
	if (is_inside_callback())
		return -EDEADLK;
	pthread_mutex_lock(&buffers_lock);
	struct buffer *b = buffers_find(buffer.id);
	int r = b && !b->closing ? 0 : -EINVAL;
	if (!r) {
		make_due(b);
		r = await_delivered(b, until) ? 0 : -ETIMEDOUT;
	}
	pthread_mutex_unlock(&buffers_lock);
	return r;
}

void buffers_set_ending(bool now)
{
	pthread_mutex_lock(&buffers_lock);
	ending = now;
	pthread_mutex_unlock(&buffers_lock);
}

/* ---- reading on a thread of the application */

EXPORT int64_t rtl_buffer_read(rtl_buffer_t buffer, rtl_batch_callback_t callback, void *user, uint32_t timeout_ms)
{
	uint64_t until = deadline_after_ms(timeout_ms);
	bool in_time = true;
	int64_t n;

	if (is_forked_child())
		return -ECHILD;
	if (is_inside_callback())
		return -EDEADLK;
	if (!callback)
		return -EINVAL;
	pthread_mutex_lock(&buffers_lock);
	struct buffer *b = buffers_find(buffer.id);
	if (!b || b->closing) {
		pthread_mutex_unlock(&buffers_lock);
		return -EINVAL;
	}
	b->users++;
	while (in_time && !b->closing && (b->delivering || !buffer_is_due(b)))
		in_time = condition_wait(&buffers_changed, &buffers_lock, until);
	n = b->closing ? -ECANCELED : b->delivering ? 0 : (int64_t)deliver(b, callback, user);
	b->users--;
	buffers_wake();
	pthread_mutex_unlock(&buffers_lock);
	return n;
}

/* ---- at exit */

static bool any_delivering(void)
{
	for (struct buffer *b = all_buffers; b < all_buffers + BUFFERS; b++)
		if (b->id && b->delivering)
			return true;
	return false;
}

void buffers_await_idle(uint64_t until_ns)
{
	pthread_mutex_lock(&buffers_lock);
	buffers_initialize();
	while (any_delivering() && condition_wait(&buffers_changed, &buffers_lock, until_ns))
		;
	pthread_mutex_unlock(&buffers_lock);
}

uint64_t buffers_dropped(void)
{
	pthread_mutex_lock(&buffers_lock);
	uint64_t n = buffers_dropped_in_all;
	pthread_mutex_unlock(&buffers_lock);
	return n;
}
