/* edge_held.c: threads of ours that get no CPU, or a lock too late. */
#define _GNU_SOURCE
#include "edge.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/shared_hooks.h"
#include "core/session_flags.h"
#include "kinds/dispatch/hooks.h"
#include "record/worker.h"
#include "session/control_block.h"
#include "session/entry.h"
#include "session/session.h"
#include "toy.h"
#include "wrappers.h"

static _Atomic uint32_t loader_locked;

static hsa_status_t locked_loader(const void *p, hsa_executable_t *e)
{
	(void)p, (void)e;
	while (atomic_load(&loader_locked))
		sys_sleep_ns(NS_PER_MS); /* like a thread that waits for a lock */
	return HSA_STATUS_ERROR;
}

/* The runtime holds the worker up: what it uses stays until it has ended. */
static void worker_held_up(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	rt.loader.hsa_ven_amd_loader_query_executable = locked_loader;
	atomic_store(&loader_locked, 1);
	begin("RTL_DRAIN_TIMEOUT_MS", "10");
	submit(q, 0x1000);
	fire(take_packet(q));
	CHECK(rtl_detach() == -EBUSY);
	CHECK(control->state == RTL_STATE_DRAINING && control->ring_size);
	CHECK(rtl_attach("\0\0\0", 4) == -EBUSY);
	atomic_store(&loader_locked, 0);
	CHECK(rtl_detach() == 0);
	CHECK(control->state == RTL_STATE_DORMANT && !control->ring_size);
	begin(NULL, NULL);
	CHECK(rtl_detach() == 0);
}

/* While the worker is held up, more events come than it takes in a round: each item is
 * recorded or counted, once. */
static void much_is_handed_over(void)
{
	enum { DISPATCHES = 232768, NOTED = BACKLOG };
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);
	uint64_t untimed = 0;

	rt.loader.hsa_ven_amd_loader_query_executable = locked_loader;
	atomic_store(&loader_locked, 1);
	begin("RTL_BUFFER_POLICY", "lossless");
	for (int i = 0; i < DISPATCHES; i++) {
		submit(q, 0x1000);
		amd_signal_t *s = take_packet(q);
		if (s)
			fire(s);
	}
	atomic_store(&loader_locked, 0);
	struct rtl_ring *ring = map_ring();
	CHECK(rtl_detach() == 0);
	for (int i = 0; i < RTL_REASON_COUNT; i++)
		untimed += counters->kind[RTL_KIND_DISPATCH].untimed[i];
	CHECK(counters->kind[RTL_KIND_DISPATCH].begun == DISPATCHES && !counters->records_lost);
	CHECK(counters->timed_pool + untimed == DISPATCHES);
	munmap(ring, RTL_PAGE + (64 << 20));
}

enum { SIGNALS_MOST = 1 << 17 };
static hsa_signal_t signals_made[SIGNALS_MOST];
static uint32_t signals_count;

static hsa_status_t note_signal(hsa_signal_value_t v, uint32_t n, const hsa_agent_t *a, uint64_t f, hsa_signal_t *out)
{
	CHECK(signals_count < SIGNALS_MOST);
	create_signal(v, n, a, f, out);
	signals_made[signals_count++] = *out;
	return HSA_STATUS_SUCCESS;
}

static hsa_status_t end_with_signals(void)
{
	while (signals_count)
		destroy_signal(signals_made[--signals_count]);
	return HSA_STATUS_SUCCESS;
}

static void signals_go_with_the_runtime(void)
{
	rt.signal_create = note_signal;
	shared_hooks[SHUT_DOWN].next = (uintptr_t)end_with_signals;
}

/* The application ends the runtime while its worker is held up there. */
static void shut_down_with_worker_held_up(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	rt.loader.hsa_ven_amd_loader_query_executable = locked_loader;
	atomic_store(&loader_locked, 1);
	signals_go_with_the_runtime();
	begin("RTL_SIGNAL_POOL", "16");
	submit(q, 0x1000);
	fire(take_packet(q));
	wrap_shut_down();
	CHECK(control->last_end == RTL_END_SHUT_DOWN && control->ring_size);
	CHECK(rtl_detach() == -EBUSY);
	CHECK(atomic_load(&session_flags.track)); /* the worker's hazards still count */
	atomic_store(&loader_locked, 0);
	CHECK(rtl_detach() == 0);
	CHECK(control->state == RTL_STATE_DORMANT && control->last_end == RTL_END_SHUT_DOWN);
	CHECK(counters->kind[RTL_KIND_DISPATCH].begun == 1 && counters->kind[RTL_KIND_DISPATCH].untimed[RTL_REASON_NOT_COMPLETED] == 1);
	begin(NULL, NULL);
	CHECK(rtl_detach() == 0);
}

/* The same while a thread that has the session's lock gets no CPU. */
static void shut_down_while_the_lock_is_held(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	signals_go_with_the_runtime();
	begin(NULL, NULL);
	for (int i = 0; i < 5; i++) {
		submit(q, 0x1000);
		take_packet(q);
	}
	CHECK(worker_round(ROUND_MOST_NS));
	CHECK(!session_enter());
	wrap_shut_down();
	for (int i = 0; i < 5; i++)
		CHECK(worker_round(ROUND_MOST_NS));
	session_leave();
	CHECK(rtl_detach() == 0);
	CHECK(counters->kind[RTL_KIND_DISPATCH].untimed[RTL_REASON_NOT_COMPLETED] == 5);
	begin(NULL, NULL);
	CHECK(rtl_detach() == 0);
}

/* The worker gets no CPU for long: the attach gives up, and the worker finds that out. */
static void worker_does_not_begin(void)
{
	begin(NULL, NULL);
	CHECK(rtl_detach() == 0);
	atomic_store(&threads_held, 1);
	CHECK(rtl_attach("\0\0\0", 4) == -ETIMEDOUT);
	CHECK(control->state == RTL_STATE_DORMANT && !control->ring_size && !control->worker_tid);
	atomic_store(&threads_held, 0);
	while (!atomic_load(&held_threads_ended))
		sys_yield();
	begin(NULL, NULL);
	CHECK(rtl_detach() == 0);
}

/* The control thread gets no CPU either: without it there could be no detach. */
static void control_does_not_begin(void)
{
	atomic_store(&threads_held, 1);
	CHECK(rtl_attach("\0\0\0", 4) == -ETIMEDOUT);
	CHECK(control->state == RTL_STATE_IDLE && !control_tid());
	atomic_store(&threads_held, 0);
	while (!atomic_load(&held_threads_ended))
		sys_yield();
	begin(NULL, NULL);
	CHECK(rtl_detach() == 0);
}

static _Atomic uint32_t leaves;

static void *come_late(void *q)
{
	while (!__atomic_load_n(&control->detached_ns, __ATOMIC_ACQUIRE))
		sys_yield();
	while (!queue_trylock(q))
		sys_yield();
	while (!atomic_load(&leaves))
		sys_yield();
	queue_unlock(q);
	return NULL;
}

/* A thread is inside a doorbell when the drain begins, and its queue is closed: no end of a
 * session waits for that. */
static void doorbell_while_draining(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);
	pthread_t late;

	begin("RTL_DRAIN_TIMEOUT_MS", "300");
	submit(q, 0x1000);
	take_packet(q);
	CHECK(!pthread_create(&late, NULL, come_late, queue_find(q)));
	CHECK(rtl_detach() == 0);
	CHECK(control->state == RTL_STATE_DORMANT && !control->ring_size);
	atomic_store(&leaves, 1);
	pthread_join(late, NULL);
	begin(NULL, NULL);
	CHECK(rtl_detach() == 0);
}

static _Atomic uint32_t rings;

/* The worker loses its CPU in the middle of a publication, for longer than a destruction
 * waits for a thread of the application. */
static void ring_late(hsa_signal_t doorbell, hsa_signal_value_t value)
{
	(void)doorbell, (void)value;
	if (gettid() != worker_tid())
		return;
	atomic_store(&rings, 1);
	sys_sleep_ns(LOCK_WAIT_NS + LOCK_WAIT_NS / 4);
	atomic_store(&rings, 2);
}

static hsa_status_t free_queue(hsa_queue_t *q)
{
	(void)q;
	CHECK(atomic_load(&rings) == 2);
	return HSA_STATUS_SUCCESS;
}

/* The worker publishes packets without a doorbell. */
static void publish_by_worker(hsa_queue_t *q)
{
	hsa_kernel_dispatch_packet_t *ring = q->base_address;

	begin(NULL, NULL);
	submit(q, 0x1000);
	fire(take_packet(q));
	uint64_t index = wrap_index_add_screlease(q, 1);
	ring[index % RING].completion_signal.handle = 0;
	__atomic_store_n(&ring[index % RING].header, HSA_PACKET_TYPE_KERNEL_DISPATCH, __ATOMIC_RELEASE);
	while (!atomic_load(&rings))
		sys_yield();
}

static void destroyed_while_the_worker_publishes(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	shared_hooks[STORE_SCRELEASE].next = (uintptr_t)ring_late;
	shared_hooks[QUEUE_DESTROY].next = (uintptr_t)free_queue;
	publish_by_worker(q);
	CHECK(wrap_queue_destroy(q) == HSA_STATUS_SUCCESS);
	CHECK(rtl_detach() == 0);
}

static hsa_status_t free_all(void)
{
	CHECK(atomic_load(&rings) != 1); /* an attach calls this function, too */
	return HSA_STATUS_SUCCESS;
}

static void ring_very_late(hsa_signal_t doorbell, hsa_signal_value_t value)
{
	(void)doorbell, (void)value;
	if (gettid() != worker_tid())
		return;
	atomic_store(&rings, 1);
	sys_sleep_ns(6 * NS_PER_S); /* longer than the end of a session waits for anything */
	atomic_store(&rings, 2);
}

static void shut_down_while_the_worker_publishes(void)
{
	static struct toy_queue t;

	shared_hooks[STORE_SCRELEASE].next = (uintptr_t)ring_very_late;
	shared_hooks[SHUT_DOWN].next = (uintptr_t)free_all;
	publish_by_worker(make_queue(&t, 1));
	CHECK(wrap_shut_down() == HSA_STATUS_SUCCESS);
	rtl_detach();
}

/* As if inside the runtime, without a CPU as long as another thread has it. */
static hsa_status_t convert_slowly(hsa_agent_t agent, uint64_t ticks, uint64_t *ns)
{
	(void)agent;
	if (gettid() == worker_tid() && !atomic_load(&rings)) {
		atomic_store(&rings, 1);
		for (uint64_t until = now_monotonic() + 6 * NS_PER_S; now_monotonic() < until;)
			;
		atomic_store(&rings, 2);
	}
	*ns = ticks;
	return HSA_STATUS_SUCCESS;
}

static void shut_down_while_the_worker_is_in_the_runtime(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	rt.convert_tick = convert_slowly;
	shared_hooks[SHUT_DOWN].next = (uintptr_t)free_all;
	begin(NULL, NULL);
	submit(q, 0x1000);
	fire(take_packet(q));
	while (!atomic_load(&rings))
		sys_yield();
	CHECK(wrap_shut_down() == HSA_STATUS_SUCCESS);
	rtl_detach();
}

const struct edge_case held_cases[] = {
	{"shut down while the worker publishes", shut_down_while_the_worker_publishes},
	{"shut down while the worker is in the runtime", shut_down_while_the_worker_is_in_the_runtime},
	{"destroyed while the worker publishes", destroyed_while_the_worker_publishes},
	{"worker held up", worker_held_up},
	{"much is handed over", much_is_handed_over},
	{"shut down with the worker held up", shut_down_with_worker_held_up},
	{"shut down while the lock is held", shut_down_while_the_lock_is_held},
	{"a doorbell while the session drains", doorbell_while_draining},
	{"worker does not begin", worker_does_not_begin},
	{"control thread does not begin", control_does_not_begin},
	{0},
};
