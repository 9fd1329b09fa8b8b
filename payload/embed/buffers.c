/*
 * buffers.c: records in batches. The recorder's thread puts records into the buffers; callback threads, or
 * threads of the application, take batches out. One lock for all: a put takes it for a few instructions, and no
 * callback runs under it.
 *
 * A buffer is a ring of bytes. A record is in one piece: at the end of the memory a filler takes the rest, which
 * ends a batch. Records of a batch stay in place until its callback has returned.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/sys.h"
#include "embed.h"

#define BUFFERS 32
#define THREADS 32
#define BYTES_DEFAULT (1u << 20)
#define BYTES_LEAST (64u << 10)
#define BYTES_MOST (1u << 30)
#define FILLER UINT32_MAX /* kind */
#define STALLED_NS (5 * NS_PER_S) /* a session that ends waits for the reader of a lossless buffer */
#define WAIT_NS (50 * NS_PER_MS)  /* between two heartbeats */

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

struct thread {
	uint64_t id; /* 0: free */
	pthread_t thread;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct condition changed; /* of any buffer */
static struct buffer buffers[BUFFERS];
static struct thread threads[THREADS];
static uint64_t next_id = 1;
static uint64_t shared_thread; /* id */
static bool stopping, ending, initialized;
static uint64_t dropped_in_all;
static _Atomic uint32_t buffer_count; /* a hint: nothing to put */

static void wake_all(void)
{
	pthread_cond_broadcast(&changed.cond);
}

/* With the lock. */
static struct buffer *find(uint64_t id)
{
	for (struct buffer *b = buffers; id && b < buffers + BUFFERS; b++)
		if (b->id == id)
			return b;
	return NULL;
}

static bool is_due(const struct buffer *b)
{
	return b->head - b->tail >= b->options.watermark_bytes || (b->head != b->tail && b->due > b->tail) || (b->dropped && b->due);
}

/* ---- taking */

static size_t filler_bytes(const struct buffer *b, uint64_t at)
{
	return b->options.size_bytes - at % b->options.size_bytes;
}

/* The records from tail on that are in one piece. */
static size_t count_batch(const struct buffer *b, uint64_t *end)
{
	size_t n = 0;
	uint64_t at = b->tail, size = b->options.size_bytes;

	while (at != b->head) {
		const rtl_record_t *r = (const rtl_record_t *)(b->data + at % size);

		if (r->kind == FILLER) {
			at += filler_bytes(b, at);
			break;
		}
		at += r->size;
		n++;
		if (at % size == 0)
			break;
	}
	*end = at;
	return n;
}

/* The record behind the last batch did not fit in front of the end of the memory. */
static void skip_filler(struct buffer *b)
{
	if (b->tail != b->head && ((const rtl_record_t *)(b->data + b->tail % b->options.size_bytes))->kind == FILLER)
		b->tail += filler_bytes(b, b->tail);
}

/* With the lock, which it releases while the callback runs. The number of records. */
static size_t deliver(struct buffer *b, rtl_batch_callback_t callback, void *user)
{
	skip_filler(b);
	uint64_t end, dropped = b->dropped;
	size_t n = count_batch(b, &end);
	const rtl_record_t *first = (const rtl_record_t *)(b->data + b->tail % b->options.size_bytes);

	if ((n || dropped) && !atomic_load(&muted)) {
		b->dropped = 0;
		b->delivering = true;
		pthread_mutex_unlock(&lock);
		callback_begin();
		callback_end(invoke_batch(callback, (rtl_buffer_t){b->id}, first, n, dropped, user));
		pthread_mutex_lock(&lock);
		b->delivering = false;
	}
	b->tail = end;
	if (b->tail >= b->due)
		b->due = 0;
	wake_all();
	return n;
}

static struct buffer *find_due(uint64_t thread)
{
	for (struct buffer *b = buffers; b < buffers + BUFFERS; b++)
		if (b->id && !b->closing && !b->delivering && b->options.callback && b->options.thread.id == thread && is_due(b))
			return b;
	return NULL;
}

static void *run_callbacks(void *data)
{
	uint64_t id = (uint64_t)(uintptr_t)data;
	struct buffer *b;

	pthread_mutex_lock(&lock);
	while (!stopping) {
		if ((b = find_due(id)))
			deliver(b, b->options.callback, b->options.user);
		else
			condition_wait(&changed, &lock, UINT64_MAX);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* ---- putting */

static uint64_t room_for(const struct buffer *b, size_t bytes)
{
	size_t left = filler_bytes(b, b->head);

	return left < bytes ? left + bytes : bytes; /* a filler first */
}

static bool has_room(const struct buffer *b, size_t bytes)
{
	return b->head - b->tail + room_for(b, bytes) <= b->options.size_bytes;
}

/* A lossless buffer: false: it is gone, or nobody reads and the session ends. */
static bool await_room(struct buffer *b, size_t bytes, void (*beat)(void))
{
	uint64_t id = b->id, tail = b->tail, moved = now_monotonic();

	while (!has_room(b, bytes)) {
		b->due = b->head;
		wake_all();
		condition_wait(&changed, &lock, now_monotonic() + WAIT_NS);
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

static void append(struct buffer *b, const rtl_record_t *r, const char *text, size_t text_bytes)
{
	size_t left = filler_bytes(b, b->head), bytes = r->size + text_bytes;
	bool was_due = is_due(b);

	if (left < bytes) {
		((rtl_record_t *)(b->data + b->head % b->options.size_bytes))->kind = FILLER; /* left is 8 at least */
		b->head += left;
	}
	rtl_record_t *to = (rtl_record_t *)(b->data + b->head % b->options.size_bytes);
	memcpy(to, r, r->size);
	to->size = (uint32_t)bytes;
	if (text) {
		memcpy((char *)to + r->size, text, strlen(text) + 1);
		((rtl_marker_record_t *)to)->text = (char *)to + r->size;
	}
	b->head += bytes;
	if (!was_due && is_due(b))
		wake_all();
}

static void drop(struct buffer *b)
{
	b->dropped++;
	dropped_in_all++;
}

void buffers_put(const rtl_record_t *r, void (*beat)(void))
{
	const char *text = r->kind == RTL_RECORD_MARKER ? ((const rtl_marker_record_t *)r)->text : NULL;
	size_t text_bytes = text ? (strlen(text) + 8) & ~7ul : 0; /* with the NUL */

	if (!atomic_load_explicit(&buffer_count, memory_order_relaxed))
		return;
	pthread_mutex_lock(&lock);
	for (struct buffer *b = buffers; b < buffers + BUFFERS; b++) {
		if (!b->id || b->closing || !((b->options.kinds | KINDS_OF_SESSIONS) & RTL_BIT(r->kind)))
			continue;
		bool room = has_room(b, r->size + text_bytes);
		uint64_t id = b->id;
		if (!room && b->options.policy == RTL_BUFFER_LOSSLESS)
			room = await_room(b, r->size + text_bytes, beat);
		if (b->id != id)
			continue;
		if (room)
			append(b, r, text, text_bytes);
		else
			drop(b);
	}
	pthread_mutex_unlock(&lock);
}

uint32_t buffers_kinds(void)
{
	uint32_t kinds = 0;

	pthread_mutex_lock(&lock);
	for (struct buffer *b = buffers; b < buffers + BUFFERS; b++)
		if (b->id)
			kinds |= b->options.kinds;
	pthread_mutex_unlock(&lock);
	return kinds;
}

/* ---- flushing */

static void make_due(struct buffer *b)
{
	/* also where it is empty: records that were dropped are due */
	b->due = b->head ? b->head : 1;
	wake_all();
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
		in_time = condition_wait(&changed, &lock, until_ns);
	return b->id != id || b->closing || is_delivered(b, until);
}

bool buffers_flush(uint64_t until_ns)
{
	bool all = true;

	pthread_mutex_lock(&lock);
	for (struct buffer *b = buffers; b < buffers + BUFFERS; b++)
		if (b->id)
			make_due(b);
	for (struct buffer *b = buffers; b < buffers + BUFFERS; b++)
		if (b->id)
			all = await_delivered(b, until_ns) && all;
	pthread_mutex_unlock(&lock);
	return all;
}

EXPORT int rtl_buffer_flush(rtl_buffer_t buffer, uint32_t timeout_ms)
{
	uint64_t until = deadline_after_ms(timeout_ms);

	if (is_forked_child())
		return -ECHILD;
	if (is_inside_callback())
		return -EDEADLK;
	pthread_mutex_lock(&lock);
	struct buffer *b = find(buffer.id);
	int r = b && !b->closing ? 0 : -EINVAL;
	if (!r) {
		make_due(b);
		r = await_delivered(b, until) ? 0 : -ETIMEDOUT;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

void buffers_set_ending(bool now)
{
	pthread_mutex_lock(&lock);
	ending = now;
	pthread_mutex_unlock(&lock);
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
	pthread_mutex_lock(&lock);
	struct buffer *b = find(buffer.id);
	if (!b || b->closing) {
		pthread_mutex_unlock(&lock);
		return -EINVAL;
	}
	b->users++;
	while (in_time && !b->closing && (b->delivering || !is_due(b)))
		in_time = condition_wait(&changed, &lock, until);
	n = b->closing ? -ECANCELED : b->delivering ? 0 : (int64_t)deliver(b, callback, user);
	b->users--;
	wake_all();
	pthread_mutex_unlock(&lock);
	return n;
}

/* ---- making and destroying */

static void initialize(void)
{
	if (!initialized)
		condition_init(&changed);
	initialized = true;
}

/* With the lock. 0: no thread. */
static uint64_t start_thread(int *err)
{
	for (struct thread *t = threads; t < threads + THREADS; t++) {
		if (t->id)
			continue;
		t->id = next_id++;
		if ((*err = embed_thread_start(&t->thread, run_callbacks, (void *)(uintptr_t)t->id)))
			t->id = 0;
		return t->id;
	}
	*err = -EAGAIN;
	return 0;
}

static bool has_thread(uint64_t id)
{
	for (struct thread *t = threads; t < threads + THREADS; t++)
		if (id && t->id == id)
			return true;
	return false;
}

EXPORT int rtl_callback_thread_create(rtl_callback_thread_t *out)
{
	int r = 0;

	if (is_forked_child())
		return -ECHILD;
	if (!out)
		return -EINVAL;
	pthread_mutex_lock(&lock);
	initialize();
	*out = (rtl_callback_thread_t){stopping ? 0 : start_thread(&r)};
	if (stopping)
		r = -EBUSY;
	pthread_mutex_unlock(&lock);
	return r;
}

/* Fills in the defaults. 0 or -EINVAL. */
static int complete(rtl_buffer_options_t *o)
{
	if (!o->size_bytes)
		o->size_bytes = BYTES_DEFAULT;
	o->size_bytes = (o->size_bytes + 7) & ~(size_t)7; /* a filler is a whole header */
	if (!o->watermark_bytes)
		o->watermark_bytes = o->size_bytes / 2;
	if (!o->kinds)
		o->kinds = RTL_ALL_KINDS;
	if (o->size_bytes < BYTES_LEAST || o->size_bytes > BYTES_MOST || o->watermark_bytes > o->size_bytes ||
	    o->policy > RTL_BUFFER_LOSSLESS || o->kinds & ~(KINDS_OF_ITEMS | KINDS_OF_SESSIONS))
		return -EINVAL;
	/* One record more may not fit in front of the end of the memory. */
	size_t most = o->size_bytes - 1024;
	if (o->watermark_bytes > most)
		o->watermark_bytes = most;
	return 0;
}

static int choose_thread(rtl_buffer_options_t *o)
{
	int r = 0;

	if (!o->callback)
		return o->thread.id ? -EINVAL : 0;
	if (o->thread.id)
		return has_thread(o->thread.id) ? 0 : -EINVAL;
	if (!shared_thread)
		shared_thread = start_thread(&r);
	o->thread.id = shared_thread;
	return r;
}

static int create(rtl_buffer_options_t *o, char *data, rtl_buffer_t *out)
{
	struct buffer *b = buffers;

	initialize();
	while (b < buffers + BUFFERS && b->id)
		b++;
	if (stopping)
		return -EBUSY;
	if (b == buffers + BUFFERS)
		return -EAGAIN;
	int r = choose_thread(o);
	if (r)
		return r;
	*b = (struct buffer){.id = next_id++, .options = *o, .data = data};
	*out = (rtl_buffer_t){b->id};
	atomic_fetch_add(&buffer_count, 1);
	return 0;
}

EXPORT int rtl_buffer_create(const rtl_buffer_options_t *options, rtl_buffer_t *out)
{
	rtl_buffer_options_t o = {0};

	if (is_forked_child())
		return -ECHILD;
	if (!out || (options && (options->size < sizeof options->size || options->size > sizeof o)))
		return -EINVAL;
	if (options)
		memcpy(&o, options, options->size);
	if (complete(&o))
		return -EINVAL;
	char *data = map_memory(o.size_bytes);
	if (!data)
		return -ENOMEM;
	pthread_mutex_lock(&lock);
	int r = create(&o, data, out);
	pthread_mutex_unlock(&lock);
	if (r)
		unmap_memory(data, o.size_bytes);
	return r;
}

/* With the lock, which it releases meanwhile. The buffer takes no record and begins no batch any more; waits for one
 * that runs. */
static void destroy(struct buffer *b)
{
	b->closing = true;
	wake_all();
	while (b->delivering || b->users)
		condition_wait(&changed, &lock, UINT64_MAX);
	for (uint64_t end; b->tail != b->head; b->tail = end)
		dropped_in_all += count_batch(b, &end);
	rtl_buffer_options_t o = b->options;
	char *data = b->data;
	*b = (struct buffer){0};
	atomic_fetch_sub(&buffer_count, 1);
	wake_all();
	pthread_mutex_unlock(&lock);
	unmap_memory(data, o.size_bytes);
	if (o.release) {
		callback_begin();
		callback_end(invoke_release(o.release, o.user));
	}
	pthread_mutex_lock(&lock);
}

EXPORT int rtl_buffer_destroy(rtl_buffer_t buffer)
{
	if (is_forked_child())
		return -ECHILD;
	if (is_inside_callback())
		return -EDEADLK;
	pthread_mutex_lock(&lock);
	struct buffer *b = find(buffer.id);
	int r = b && !b->closing ? 0 : -EINVAL;
	if (!r)
		destroy(b);
	pthread_mutex_unlock(&lock);
	return r;
}

static bool any_buffer(void)
{
	for (struct buffer *b = buffers; b < buffers + BUFFERS; b++)
		if (b->id)
			return true;
	return false;
}

void buffers_clear(void)
{
	pthread_mutex_lock(&lock);
	initialize();
	stopping = true; /* no buffer and no thread is made meanwhile */
	wake_all();
	for (struct buffer *b = buffers; b < buffers + BUFFERS; b++)
		if (b->id && !b->closing)
			destroy(b);
	while (any_buffer()) /* another thread destroys it */
		condition_wait(&changed, &lock, UINT64_MAX);
	for (struct thread *t = threads; t < threads + THREADS; t++) {
		if (!t->id)
			continue;
		pthread_mutex_unlock(&lock);
		embed_thread_join(t->thread);
		pthread_mutex_lock(&lock);
		t->id = 0;
	}
	shared_thread = 0;
	stopping = false;
	pthread_mutex_unlock(&lock);
}

static bool any_delivering(void)
{
	for (struct buffer *b = buffers; b < buffers + BUFFERS; b++)
		if (b->id && b->delivering)
			return true;
	return false;
}

void buffers_await_idle(uint64_t until_ns)
{
	pthread_mutex_lock(&lock);
	initialize();
	while (any_delivering() && condition_wait(&changed, &lock, until_ns))
		;
	pthread_mutex_unlock(&lock);
}

uint64_t buffers_dropped(void)
{
	pthread_mutex_lock(&lock);
	uint64_t n = dropped_in_all;
	pthread_mutex_unlock(&lock);
	return n;
}
