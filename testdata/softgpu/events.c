/*
 * KFD events. A set is one store, one increment and a wake-up: the engine does
 * it without a lock, so a waiter stopped by a debugger cannot hold up the GPU.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include <linux/kfd_ioctl.h>

#include "softgpu.h"

struct event {
	bool used, manual;
	uint32_t type;
	uint32_t signaled;
	uint32_t sets;    /* counts sets; also the futex of a waiter for this event alone */
	uint32_t waiters;
};

static struct event events[MAX_EVENTS + 1]; /* id 0 is invalid */
static struct lock lock;                    /* create and destroy */
static uint32_t last_id;
static uint32_t any_set, any_waiters;       /* futex of those who wait for several */

static struct event *find(uint32_t id)
{
	return id && id < config.event_limit && __atomic_load_n(&events[id].used, __ATOMIC_ACQUIRE) ? &events[id]
												      : NULL;
}

/* The slot index must stay below the 4,096 of the event page. */
int event_create(struct kfd_ioctl_create_event_args *args)
{
	uint32_t count = config.event_limit - 1;
	uint32_t id = 0;

	lock_take(&lock);
	for (uint32_t i = 0; i < count && !id; i++) {
		uint32_t candidate = 1 + (last_id + i) % count;

		if (!events[candidate].used)
			id = candidate;
	}
	if (!id) {
		lock_drop(&lock);
		DEBUG("event limit %u reached\n", config.event_limit);
		return ENOSPC;
	}
	last_id = id;
	events[id].manual = !args->auto_reset;
	events[id].type = args->event_type;
	events[id].signaled = 0;
	__atomic_store_n(&events[id].used, true, __ATOMIC_RELEASE);
	lock_drop(&lock);

	args->event_id = id;
	args->event_trigger_data = id;
	args->event_slot_index = id;
	args->event_page_offset = 1ull << 62; /* > 0 tells the thunk that a slot was given */
	return 0;
}

static void wake(struct event *e)
{
	__atomic_add_fetch(&e->sets, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&e->waiters, __ATOMIC_SEQ_CST))
		futex_wake_all(&e->sets);
	if (__atomic_load_n(&any_waiters, __ATOMIC_SEQ_CST)) {
		__atomic_add_fetch(&any_set, 1, __ATOMIC_SEQ_CST);
		futex_wake_all(&any_set);
	}
}

void event_set(uint32_t id)
{
	struct event *e = find(id);

	if (!e)
		return;
	__atomic_store_n(&e->signaled, 1, __ATOMIC_SEQ_CST);
	wake(e);
}

int event_reset(uint32_t id)
{
	struct event *e = find(id);

	if (!e)
		return EINVAL;
	__atomic_store_n(&e->signaled, 0, __ATOMIC_SEQ_CST);
	return 0;
}

int event_destroy(uint32_t id)
{
	struct event *e = find(id);

	if (!e)
		return EINVAL;
	lock_take(&lock);
	__atomic_store_n(&e->used, false, __ATOMIC_RELEASE);
	lock_drop(&lock);
	wake(e); /* whoever waits for it finds it gone */
	return 0;
}

/* From KFD 1.14 on, a signal event's data starts with the last age its waiter saw. */
static uint64_t *age_field(struct kfd_event_data *d)
{
	if (config.kfd_minor < KFD_EVENT_AGES_MINOR || events[d->event_id].type != KFD_IOC_EVENT_SIGNAL)
		return NULL;
	return (uint64_t *)&d->memory_exception_data;
}

static uint64_t age_of(const struct event *e)
{
	return (uint64_t)__atomic_load_n(&e->sets, __ATOMIC_ACQUIRE) + 1;
}

/* sets_before is the count when the wait began: a set since then ends the wait of everyone. */
static bool fired(struct kfd_event_data *d, uint32_t sets_before)
{
	struct event *e = &events[d->event_id];
	uint64_t *age = age_field(d);

	return __atomic_load_n(&e->signaled, __ATOMIC_SEQ_CST) ||
	       __atomic_load_n(&e->sets, __ATOMIC_SEQ_CST) != sets_before ||
	       (age && *age && *age != age_of(e));
}

static uint32_t count_fired(struct kfd_event_data *data, const uint32_t *sets_before, uint32_t n)
{
	uint32_t hits = 0;

	for (uint32_t i = 0; i < n; i++)
		hits += fired(&data[i], sets_before[i]);
	return hits;
}

static void consume(struct kfd_event_data *data, const uint32_t *sets_before, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct event *e = &events[data[i].event_id];

		if (!e->manual && fired(&data[i], sets_before[i]))
			__atomic_store_n(&e->signaled, 0, __ATOMIC_SEQ_CST);
	}
}

/* Sleeps until something may have changed; false once the deadline has passed. */
static bool sleep_on(uint32_t *word, uint32_t seen, uint64_t deadline_ns)
{
	uint64_t now = now_ns();
	struct timespec left;

	if (now >= deadline_ns)
		return false;
	left = timespec_of(deadline_ns - now);
	futex_wait(word, seen, &left);
	return true;
}

static void add_waiters(struct kfd_event_data *data, uint32_t n, int by)
{
	for (uint32_t i = 0; i < n; i++)
		__atomic_add_fetch(&events[data[i].event_id].waiters, (uint32_t)by, __ATOMIC_SEQ_CST);
	if (n > 1)
		__atomic_add_fetch(&any_waiters, (uint32_t)by, __ATOMIC_SEQ_CST);
}

static void report(struct kfd_event_data *data, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint64_t *age = age_field(&data[i]);

		if (age)
			*age = *age ? age_of(&events[data[i].event_id]) : 0;
		else
			memset(&data[i].memory_exception_data, 0, sizeof data[i].memory_exception_data);
	}
}

/*
 * ROCr 5.2 shares one auto-reset event between its handler thread and whoever
 * destroys a queue. When the wrong one takes the set, the other sleeps for ever
 * (seen once in some thousand hsa_queue_destroy on busy cores; the real driver's
 * sources allow it too). So a long wait ends after config.wake_ms as if it had
 * been woken: ROCr looks at its signals again.
 */
int event_wait(struct kfd_ioctl_wait_events_args *args)
{
	struct kfd_event_data *data = (struct kfd_event_data *)args->events_ptr;
	uint32_t n = args->num_events;
	uint32_t need = args->wait_for_all ? n : 1;
	bool patient = args->timeout > config.wake_ms;
	uint64_t deadline_ns = now_ns() + (patient ? config.wake_ms : args->timeout) * 1000000ull;
	uint32_t sets_before[MAX_EVENTS];
	uint32_t *word = n == 1 ? &events[data[0].event_id % (MAX_EVENTS + 1)].sets : &any_set;
	bool hit;

	args->wait_result = KFD_IOC_WAIT_RESULT_COMPLETE;
	if (!n)
		return 0;
	if (n > MAX_EVENTS)
		return EINVAL;
	for (uint32_t i = 0; i < n; i++) {
		if (!find(data[i].event_id))
			return EINVAL;
		sets_before[i] = __atomic_load_n(&events[data[i].event_id].sets, __ATOMIC_SEQ_CST);
	}
	add_waiters(data, n, 1);
	for (;;) {
		uint32_t seen = __atomic_load_n(word, __ATOMIC_SEQ_CST);

		hit = count_fired(data, sets_before, n) >= need;
		if (hit || !args->timeout || !sleep_on(word, seen, deadline_ns))
			break;
	}
	add_waiters(data, n, -1);
	if (hit)
		consume(data, sets_before, n);
	else if (!patient)
		args->wait_result = KFD_IOC_WAIT_RESULT_TIMEOUT;
	report(data, n);
	return 0;
}

void event_forget_after_fork(void)
{
	lock = (struct lock){ 0 };
	any_waiters = 0;
	memset(events, 0, sizeof events);
}
