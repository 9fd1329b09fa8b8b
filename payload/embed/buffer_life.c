/* buffer_life.c: buffers, and the threads of their callbacks, are made and destroyed. */
#include "buffers.h"

#include <errno.h>
#include <string.h>

#define THREADS 32
#define BYTES_DEFAULT (1u << 20)
#define BYTES_LEAST (64u << 10)
#define BYTES_MOST (1u << 30)

struct thread {
	uint64_t id; /* 0: free */
	pthread_t thread;
};

static struct thread threads[THREADS];
static uint64_t next_id = 1;
static uint64_t shared_thread; /* id */
static bool initialized;

void buffers_initialize(void)
{
	if (!initialized)
		condition_init(&buffers_changed);
	initialized = true;
}

/* With the lock. 0: no thread. */
static uint64_t start_thread(int *err)
{
	for (struct thread *t = threads; t < threads + THREADS; t++) {
		if (t->id)
			continue;
		t->id = next_id++;
		if ((*err = embed_thread_start(&t->thread, buffers_run_callbacks, (void *)(uintptr_t)t->id)))
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
	pthread_mutex_lock(&buffers_lock);
	buffers_initialize();
	*out = (rtl_callback_thread_t){buffers_stopping ? 0 : start_thread(&r)};
	if (buffers_stopping)
		r = -EBUSY;
	pthread_mutex_unlock(&buffers_lock);
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
	struct buffer *b = all_buffers;

	buffers_initialize();
	while (b < all_buffers + BUFFERS && b->id)
		b++;
	if (buffers_stopping)
		return -EBUSY;
	if (b == all_buffers + BUFFERS)
		return -EAGAIN;
	int r = choose_thread(o);
	if (r)
		return r;
	*b = (struct buffer){.id = next_id++, .options = *o, .data = data};
	*out = (rtl_buffer_t){b->id};
	atomic_fetch_add(&buffers_count, 1);
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
	pthread_mutex_lock(&buffers_lock);
	int r = create(&o, data, out);
	pthread_mutex_unlock(&buffers_lock);
	if (r)
		unmap_memory(data, o.size_bytes);
	return r;
}

/* With the lock, which it releases meanwhile. The buffer takes no record and begins no batch any more; waits for one
 * that runs. */
static void destroy(struct buffer *b)
{
	b->closing = true;
	buffers_wake();
	while (b->delivering || b->users)
		condition_wait(&buffers_changed, &buffers_lock, UINT64_MAX);
	for (uint64_t end; b->tail != b->head; b->tail = end)
		buffers_dropped_in_all += buffer_count_batch(b, &end);
	rtl_buffer_options_t o = b->options;
	char *data = b->data;
	*b = (struct buffer){0};
	atomic_fetch_sub(&buffers_count, 1);
	buffers_wake();
	pthread_mutex_unlock(&buffers_lock);
	unmap_memory(data, o.size_bytes);
	if (o.release) {
		callback_begin();
		callback_end(invoke_release(o.release, o.user));
	}
	pthread_mutex_lock(&buffers_lock);
}

EXPORT int rtl_buffer_destroy(rtl_buffer_t buffer)
{
	if (is_forked_child())
		return -ECHILD;
	if (is_inside_callback())
		return -EDEADLK;
	pthread_mutex_lock(&buffers_lock);
	struct buffer *b = buffers_find(buffer.id);
	int r = b && !b->closing ? 0 : -EINVAL;
	if (!r)
		destroy(b);
	pthread_mutex_unlock(&buffers_lock);
	return r;
}

static bool any_buffer(void)
{
	for (struct buffer *b = all_buffers; b < all_buffers + BUFFERS; b++)
		if (b->id)
			return true;
	return false;
}

void buffers_clear(void)
{
	pthread_mutex_lock(&buffers_lock);
	buffers_initialize();
	buffers_stopping = true; /* no buffer and no thread is made meanwhile */
	buffers_wake();
	for (struct buffer *b = all_buffers; b < all_buffers + BUFFERS; b++)
		if (b->id && !b->closing)
			destroy(b);
	while (any_buffer()) /* another thread destroys it */
		condition_wait(&buffers_changed, &buffers_lock, UINT64_MAX);
	for (struct thread *t = threads; t < threads + THREADS; t++) {
		if (!t->id)
			continue;
		pthread_mutex_unlock(&buffers_lock);
		embed_thread_join(t->thread);
		pthread_mutex_lock(&buffers_lock);
		t->id = 0;
	}
	shared_thread = 0;
	buffers_stopping = false;
	pthread_mutex_unlock(&buffers_lock);
}
