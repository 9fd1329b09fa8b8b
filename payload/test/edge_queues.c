/* edge_queues.c: queues come and go. */
#define _GNU_SOURCE
#include "edge.h"

#include <string.h>
#include <sys/mman.h>

#include "core/shared_hooks.h"
#include "core/session_flags.h"
#include "kinds/dispatch/hooks.h"
#include "record/worker.h"
#include "session/control_block.h"
#include "session/entry.h"
#include "wrappers.h"

static bool reset;

static hsa_status_t next_session(hsa_queue_t *q, int on)
{
	(void)q, (void)on;
	reset = queue_reset_all();
	return HSA_STATUS_SUCCESS;
}

/* A thread that is held up while it enters a queue would enter it in the next session's
 * table, with a state that is held ready for another queue. */
static void met_over_an_end(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);
	bool foreign;

	begin(NULL, NULL);
	t.amd.queue_properties = 0;
	rt.set_profiling = next_session;
	reset = true;
	CHECK(queue_get(q, &foreign));
	CHECK(!reset);
	CHECK(rtl_detach() == 0);
	CHECK(queue_reset_all());
}

/* An application makes and destroys queues, each at another address, which leaves tombstones
 * in the table: a search for a queue that is not there still ends. */
static void queues_come_and_go(void)
{
	enum { QUEUES = 8000 };
	struct toy_queue *t = aligned_alloc(256, sizeof *t);
	char *addresses = map_memory((size_t)QUEUES * 4096);
	bool foreign;

	begin("RTL_SIGNAL_POOL", "16");
	for (int i = 0; i < QUEUES; i++) {
		hsa_queue_t *q = (hsa_queue_t *)(addresses + (size_t)i * 4096);
		uint64_t page = (uint64_t)q & ~4095ull;

		make_queue(t, (uint64_t)i);
		memcpy(q, &t->amd, sizeof t->amd);
		t->doorbell.queue_ptr = (amd_queue_t *)q;
		struct queue *s = queue_get(q, &foreign);
		for (int n = 0; !s && n < 10000; n++, s = queue_get(q, &foreign))
			worker_round(ROUND_MOST_NS); /* recycled a round after its end */
		CHECK(s && !foreign);
		CHECK(queue_lock_wait(s, NS_PER_S));
		queue_forget(s);
		queue_unlock(s);
		atomic_store(&s->destroyed, 1);
		forget_memory((void *)page, 4096);
	}
	make_queue(t, 1);
	CHECK(!queue_find(&t->amd.hsa_queue));
	CHECK(rtl_detach() == 0);
}

/* States of more queues than can be held ready are used again in later sessions. */
static void many_queues_again(void)
{
	enum { QUEUES = 150, SESSIONS = 12 };
	struct toy_queue *t = aligned_alloc(256, QUEUES * sizeof *t);
	bool foreign;

	for (int session = 0; session < SESSIONS; session++) {
		begin("RTL_SIGNAL_POOL", "16");
		for (uint64_t i = 0; i < QUEUES; i++) {
			hsa_queue_t *q = make_queue(&t[i], i);

			while (!queue_get(q, &foreign))
				worker_round(ROUND_MOST_NS);
		}
		CHECK(rtl_detach() == 0);
	}
	CHECK(atomic_load(&queue_count) < QUEUES + 64);
}

/* Each session counts the queues that it does not record. */
static void foreign_queues_in_every_session(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);
	uint64_t n;

	t.doorbell.kind = AMD_SIGNAL_KIND_USER;
	for (int session = 0; session < 2; session++) {
		begin(NULL, NULL);
		wrap_index_add_screlease(q, 1);
		wrap_index_add_screlease(q, 1);
		n = counters->queues_foreign;
		CHECK(rtl_detach() == 0);
		CHECK(n == 1);
	}
}

static void rings(hsa_signal_t doorbell, hsa_signal_value_t value)
{
	(void)doorbell, (void)value;
}

/* A queue whose doorbell rings before an index call, or without any, counts as seen, once. */
static void rung_without_index(void)
{
	static struct toy_queue t, u;
	hsa_queue_t *q = make_queue(&t, 1), *r = make_queue(&u, 2);

	for (int session = 0; session < 2; session++) {
		shared_hooks[STORE_RELAXED].next = shared_hooks[STORE_SCRELEASE].next = (uintptr_t)rings;
		begin(NULL, NULL);
		wrap_store_screlease(q->doorbell_signal, 0);
		wrap_store_relaxed(q->doorbell_signal, 0);
		CHECK(counters->queues_seen == 1);
		CHECK(counters->bells_unindexed == 2);
		submit(r, 0x1000);
		CHECK(counters->queues_seen == 2);
		submit(q, 0x1000);
		CHECK(counters->queues_seen == 2);
		fire(take_packet(q));
		fire(take_packet(r));
		CHECK(rtl_detach() == 0);
	}
}

static amd_signal_t *running;

static hsa_status_t slow_queue_destroy(hsa_queue_t *q)
{
	(void)q;
	sys_sleep_ns(300 * NS_PER_MS);
	fire(running); /* the runtime lets what runs finish */
	return HSA_STATUS_SUCCESS;
}

/* A signal is not reused while its queue is being destroyed. */
static void slow_destruction(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	shared_hooks[QUEUE_DESTROY].next = (uintptr_t)slow_queue_destroy;
	begin(NULL, NULL);
	submit(q, 0x1000);
	running = take_packet(q);
	wrap_queue_destroy(q);
	CHECK(rtl_detach() == 0);
	CHECK(counters->timed_pool == 1);
}

/* Several users share an agent's cooperative queue: one of them destroys it, and it still
 * works. An ordinary queue's packets end with it, and their signals are not reused. */
static void cooperative_queue_is_shared(void)
{
	static struct toy_queue shared, own;
	hsa_queue_t *q = make_queue(&shared, 1), *other = make_queue(&own, 2);

	q->type = HSA_QUEUE_TYPE_COOPERATIVE;
	begin(NULL, NULL);
	submit(q, 0x1000);
	submit(other, 0x1000);
	amd_signal_t *s = take_packet(q);
	take_packet(other);
	wrap_queue_destroy(q);
	wrap_queue_destroy(other);
	CHECK(comes(&counters->kind[RTL_KIND_DISPATCH].untimed[RTL_REASON_QUEUE_DESTROYED], 1));
	CHECK(counters->signals_quarantined == 1);
	fire(s);
	CHECK(comes(&counters->timed_pool, 1));
	submit(q, 0x1000);
	CHECK(!take_packet(q)); /* raw, for the rest of the session */
	CHECK(rtl_detach() == 0);
}

/* Its last user has destroyed it, and process_vm_readv is refused. */
static void cooperative_queue_is_freed(void)
{
	struct toy_queue *t = map_memory(sizeof *t);
	hsa_queue_t *q = make_queue(t, 1);

	q->type = HSA_QUEUE_TYPE_COOPERATIVE;
	begin(NULL, NULL);
	submit(q, 0x1000);
	fire(take_packet(q));
	wrap_queue_destroy(q);
	CHECK(comes(&counters->timed_pool, 1));
	CHECK(!munmap(t, sizeof *t));
	no_read_memory = true;
	CHECK(rtl_detach() == 0);
}

/* Read-only memory is mapped in its place, and looks like a consumed packet. */
static void cooperative_queue_is_another_mapping(void)
{
	struct toy_queue *t = map_memory(sizeof *t);
	hsa_queue_t *q = make_queue(t, 1);

	q->type = HSA_QUEUE_TYPE_COOPERATIVE;
	begin(NULL, NULL);
	submit(q, 0x1000);
	fire(take_packet(q));
	wrap_queue_destroy(q);
	CHECK(comes(&counters->timed_pool, 1));
	memset(t, HSA_PACKET_TYPE_INVALID, sizeof *t);
	CHECK(!mprotect(t, sizeof *t, PROT_READ));
	CHECK(rtl_detach() == 0);
	CHECK(!munmap(t, sizeof *t));
}

static pthread_t detaching;

/* The runtime frees the ring while a session ends, which must not touch it. */
static hsa_status_t free_shared(hsa_queue_t *q)
{
	const hsa_kernel_dispatch_packet_t *ring = q->base_address;

	fire(take_packet(q)); /* the detach waits for it */
	pthread_join(detaching, NULL);
	CHECK(ring[1].header == HSA_PACKET_TYPE_INVALID && ring[1].completion_signal.handle);
	CHECK(!munmap((void *)((uint64_t)q & ~4095ull), sizeof(struct toy_queue)));
	return HSA_STATUS_SUCCESS;
}

static void cooperative_queue_is_freed_during_a_detach(void)
{
	struct toy_queue *t = map_memory(sizeof *t);
	hsa_queue_t *q = make_queue(t, 1);

	q->type = HSA_QUEUE_TYPE_COOPERATIVE;
	shared_hooks[QUEUE_DESTROY].next = (uintptr_t)free_shared;
	begin("RTL_DRAIN_TIMEOUT_MS", "30000");
	submit(q, 0x1000);
	fire(take_packet(q));
	submit(q, 0x1000);
	detaching = begin_detach();
	wrap_queue_destroy(q);
	CHECK(control->state == RTL_STATE_DORMANT);
}

/* The doorbell of another user has set pend, and the queue is gone. */
static void note_in_a_freed_queue(void)
{
	struct toy_queue *t = map_memory(sizeof *t);
	hsa_queue_t *q = make_queue(t, 1);

	q->type = HSA_QUEUE_TYPE_COOPERATIVE;
	begin(NULL, NULL);
	submit(q, 0x1000);
	fire(take_packet(q));
	struct queue *s = queue_find(q);
	wrap_queue_destroy(q);
	CHECK(comes(&counters->timed_pool, 1));
	atomic_store(&s->pend, 1);
	CHECK(!munmap(t, sizeof *t));
	CHECK(rtl_detach() == 0);
}

const struct edge_case queue_cases[] = {
	{"met over an end", met_over_an_end},
	{"cooperative queue is freed during a detach", cooperative_queue_is_freed_during_a_detach},
	{"note in a freed queue", note_in_a_freed_queue},
	{"queues come and go", queues_come_and_go},
	{"many queues again", many_queues_again},
	{"foreign queues in every session", foreign_queues_in_every_session},
	{"rung without an index", rung_without_index},
	{"slow destruction", slow_destruction},
	{"cooperative queue is shared", cooperative_queue_is_shared},
	{"cooperative queue is freed", cooperative_queue_is_freed},
	{"cooperative queue is another mapping", cooperative_queue_is_another_mapping},
	{0},
};
