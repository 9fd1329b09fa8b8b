/* queues.c: the states of queues: how they are made, held ready, used again, and locked. */
#include "kinds/dispatch/queues.h"

#include <errno.h>

#include "core/session_flags.h"
#include "kinds/dispatch/pool.h"
#include "kinds/dispatch/queue_memory.h"
#include "kinds/dispatch/queue_table.h"

struct queue *queue_all[QUEUES_MAX];
_Atomic uint32_t queue_count;

#define READY_MAX 64
static _Atomic(struct queue *) ready[READY_MAX];

bool lock_wait(_Atomic uint32_t *lock, uint64_t timeout_ns)
{
	struct deadline d = deadline_in(timeout_ns);

	for (uint32_t turn = 0; !trylock(lock); turn++) {
		if (!deadline_left(&d))
			return false;
		if (d.looks)
			sys_sleep_ns(LAST_LOOK_NS);
		else
			sys_back_off(turn);
	}
	return true;
}

struct queue *queue_take_ready(void)
{
	for (int i = 0; i < READY_MAX; i++) {
		if (!atomic_load_explicit(&ready[i], memory_order_relaxed))
			continue;
		/* acquire: pairs with the release in put_ready() */
		struct queue *s = atomic_exchange_explicit(&ready[i], NULL, memory_order_acquire);
		if (s)
			return s;
	}
	return NULL;
}

static bool put_ready(struct queue *s)
{
	for (int i = 0; i < READY_MAX; i++) {
		struct queue *none = NULL;

		if (atomic_compare_exchange_strong_explicit(&ready[i], &none, s, memory_order_release, memory_order_relaxed))
			return true;
	}
	return false;
}

static uint32_t count_ready(void)
{
	uint32_t n = 0;

	for (int i = 0; i < READY_MAX; i++)
		n += atomic_load_explicit(&ready[i], memory_order_relaxed) != NULL;
	return n;
}

static void reset(struct queue *s)
{
	s->id = s->open_emitted = s->close_emitted = 0;
	s->dead_since_ns = 0;
	s->settled = 0;
	atomic_store(&s->window_generation, 0);
	atomic_store(&s->aborts, 0);
	atomic_store(&s->skip, 0);
	atomic_store_explicit(&s->in_use, 0, memory_order_release);
}

bool queue_reset_all(void)
{
	if (!queue_table_lock())
		return false;
	queue_table_clear();
	for (int i = 0; i < READY_MAX; i++)
		atomic_store(&ready[i], NULL);
	for (uint32_t i = 0; i < atomic_load(&queue_count); i++) {
		struct queue *s = queue_all[i];

		atomic_store(&s->word, WORD_DEAD);
		atomic_store(&s->hsa, NULL);
		s->pending_count = 0;
		atomic_store(&s->entry_tail, atomic_load(&s->entry_head));
		queue_note_unbacked(s);
		reset(s);
		s->parked = put_ready(s);
	}
	queue_table_unlock();
	return true;
}

static int stock_ready(void)
{
	int err = 0;

	for (int i = 0; i < READY_MAX && !err; i++) {
		struct queue *s = atomic_load(&ready[i]);

		if (!s)
			continue;
		/* An application thread may take s meanwhile. This thread fills it all the
		 * same: only threads of ours add free signals. */
		queue_back_ready(s);
		err = pool_fill(s, pool_share());
	}
	return err;
}

/* A state that has not been held ready in this session, or a new one. NULL: no memory, or
 * *none_left. */
static struct queue *another_state(bool *none_left)
{
	uint32_t count = atomic_load(&queue_count);
	struct queue *s;

	for (uint32_t i = 0; i < count; i++)
		if (!queue_all[i]->parked)
			return queue_all[i];
	*none_left = count == QUEUES_MAX;
	if (*none_left || !(s = queue_map()))
		return NULL;
	queue_all[count] = s;
	atomic_store_explicit(&queue_count, count + 1, memory_order_release); /* pairs with all loads of it: queue_all[count] */
	return s;
}

int queue_make_ready(uint32_t n)
{
	while (count_ready() < n) {
		bool none_left = false;
		struct queue *s = another_state(&none_left);

		if (none_left)
			break; /* queues that find no state are counted in queues_refused */
		if (!s)
			return -ENOMEM;
		s->parked = put_ready(s);
	}
	return stock_ready();
}

bool queue_lock_wait(struct queue *s, uint64_t timeout_ns)
{
	return lock_wait(&s->lock, timeout_ns);
}

void queue_await_ours(struct queue *s)
{
	struct deadline d = deadline_in(OURS_WAIT_MOST_NS);

	for (uint32_t turn = 0; atomic_load(&s->ours) && deadline_left(&d); turn++)
		sys_back_off(turn);
}

bool queue_lock_to_destroy(struct queue *s)
{
	if (queue_lock_wait(s, LOCK_WAIT_NS))
		return true;
	queue_await_ours(s);
	return queue_trylock(s);
}

void queue_recycle(struct queue *s)
{
	if (atomic_load(&s->inflight) || !queue_trylock(s))
		return;
	reset(s);
	queue_unlock(s);
	if (!put_ready(s)) /* no room: the next round tries again */
		atomic_store_explicit(&s->in_use, 1, memory_order_release);
}
