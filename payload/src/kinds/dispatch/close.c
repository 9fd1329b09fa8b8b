/* close.c: how a session leaves the queues: raw again, and without signals of ours. */
#include "core/fault.h"
#include "core/session_flags.h"
#include "kinds/dispatch/dispatch.h"
#include "kinds/dispatch/pool.h"
#include "kinds/dispatch/publish.h"
#include "kinds/dispatch/queue_memory.h"

#define CLOSE_MOST_NS (3 * NS_PER_S)

_Static_assert(CLOSE_PUSH_MOST_NS <= KINDS_CLOSE_OVER_NS && POOL_DEFER_NS <= KINDS_RELEASE_MOST_NS, "the limits in kind.h");

/* A thread of the application's does not count itself: a signal handler on it may
 * destroy a queue, and would wait for itself. */
static void enter_queue(struct queue *s, const struct ending *end)
{
	if (!end->on_application)
		queue_enter_ours(s);
}

static void leave_queue(struct queue *s, const struct ending *end)
{
	if (!end->on_application)
		queue_leave_ours(s);
}

/* If its lock is held below a signal handler, a queue keeps our signals. That is harmless if
 * its producers write whole packets, as they should. */
static void scrub_queue(struct queue *s)
{
	/* After enter_queue(): a thread that ends the runtime waits for this one, or this one
	 * sees that and stays out. */
	if (runtime_is_lost() || !queue_lock_wait(s, LOCK_WAIT_NS / 40))
		return;
	if (!(atomic_load(&s->word) & (WORD_DEAD | WORD_VIRT)))
		queue_scrub_signals(s);
	queue_unlock(s);
	queue_drain_pend(s);
}

static void scrub_all_queues(const struct ending *end)
{
	for (uint32_t i = 0; i < atomic_load(&queue_count); i++) {
		struct queue *s = queue_all[i];

		if (!atomic_load(&s->in_use) || s->excluded)
			continue;
		enter_queue(s, end);
		scrub_queue(s);
		leave_queue(s, end);
	}
}

void dispatch_release_signals(const struct ending *end)
{
	if (runtime_is_lost()) {
		pool_drop_all(); /* the runtime may have freed the rings, too */
	} else {
		if (end->why != RTL_END_EXIT)
			scrub_all_queues(end);
		pool_destroy_all(end->why == RTL_END_EXIT);
	}
	queue_forget_memory();
	control->queues_kept = atomic_load(&queue_count);
	control->signals_kept = (uint32_t)pool_count(); /* the hardware may still write them */
}

/* After the first queue that could not be locked: enough for a holder that is preempted. */
static uint64_t lock_patience_ns(uint64_t until, uint32_t open)
{
	uint64_t now = now_monotonic(), left = now < until ? until - now : 0, most = open ? LOCK_WAIT_NS / 40 : LOCK_WAIT_NS;

	return left < most ? left : most;
}

/* A thread of the application ends the runtime, and has given up waiting for this thread: it
 * may free the rings at any time. All three are seq_cst: that thread counts itself in
 * runtime_shutting_down, stores session_flags.lost, and then reads queue.ours; this thread
 * counts itself in ours, and then reads the other two. */
static bool runtime_is_ending(const struct ending *end)
{
	return !end->on_application && runtime_is_lost() && atomic_load(&runtime_shutting_down);
}

/* False: the lock could not be taken, or this thread must not use the ring. */
static bool close_one(struct queue *s, const struct ending *end, uint64_t patience_ns)
{
	if (!queue_lock_wait(s, patience_ns))
		return false;
	if (runtime_is_ending(end)) {
		queue_unlock(s);
		return false;
	}
	if (runtime_is_lost() && queue_is_gone(s))
		atomic_store(&s->word, WORD_DEAD);
	if (!end->on_application && !runtime_is_lost() && atomic_load(&s->word) & WORD_VIRT)
		queue_scrub_signals(s);
	queue_close(s);
	queue_unlock(s);
	queue_drain_pend(s);
	return true;
}

/* No packet that completes from now on gets a signal of ours. */
static void withhold_signals(struct queue *s)
{
	if (!queue_lock_wait(s, LOCK_WAIT_NS / 40))
		return;
	if (atomic_load(&s->word) & WORD_VIRT && !runtime_is_lost()) {
		queue_publish(s);
		s->clean_at = atomic_load(&s->scan);
		atomic_store(&s->withheld, 1);
	}
	queue_unlock(s);
	queue_drain_pend(s);
}

static bool is_clean(struct queue *s)
{
	bool clean;

	queue_enter_ours(s);
	clean = runtime_is_lost() || !(atomic_load(&s->word) & WORD_VIRT) || queue_read_index(s) >= s->clean_at;
	queue_leave_ours(s);
	return clean;
}

static bool is_open_in_device(struct queue *s)
{
	return atomic_load(&s->word) & WORD_VIRT && queue_note_ring(s) == RING_OF_DEVICE;
}

#define CLEAN_MOST_NS (100 * NS_PER_MS)
#define CLEAN_LOOK_NS (100 * NS_PER_US)

/* A signal of ours can be removed from a device's ring while the queue is virtual only, after
 * its packet was consumed. So the last packets get none, and the others are waited for. */
static void clean_device_rings(const struct ending *end)
{
	uint64_t until = now_monotonic() + CLEAN_MOST_NS;
	uint32_t n = atomic_load(&queue_count);

	if (end->on_application || end->why == RTL_END_EXIT || runtime_is_lost())
		return;
	for (uint32_t i = 0; i < n; i++) {
		struct queue *s = queue_all[i];

		enter_queue(s, end);
		if (!runtime_is_lost() && is_open_in_device(s))
			withhold_signals(s);
		leave_queue(s, end);
	}
	for (uint32_t i = 0; i < n; i++)
		while (atomic_load(&queue_all[i]->withheld) && !is_clean(queue_all[i]) && now_monotonic() < until)
			sys_sleep_ns(CLEAN_LOOK_NS);
}

/* Takes the lock of every queue that is not dead, whatever its word says: a flip that has
 * read session_flags.flips holds the lock, and none begins after this thread has had it.
 * Returns how many queues could not be closed. */
uint32_t dispatch_close(const struct ending *end, uint64_t until_ns)
{
	uint64_t most = now_monotonic() + CLOSE_MOST_NS, until = most < until_ns ? most : until_ns;
	uint32_t open = 0;

	atomic_store(&session_flags.flips, 0);
	if (fault_at("close"))
		return 1;
	clean_device_rings(end);

	for (uint32_t i = 0; i < atomic_load(&queue_count); i++) {
		struct queue *s = queue_all[i];

		if (atomic_load(&s->word) & WORD_DEAD)
			continue; /* a queue that gets this state now does not flip */
		enter_queue(s, end);
		if (!close_one(s, end, lock_patience_ns(until, open))) {
			atomic_store(&s->withheld, 0); /* it goes on being recorded */
			open++;
		}
		leave_queue(s, end);
	}
	return open;
}
