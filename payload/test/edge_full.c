/* edge_full.c: a ring without room. */
#include "edge.h"

#include <sys/mman.h>

#include "core/session_flags.h"
#include "record/ring.h"
#include "record/worker.h"
#include "session/control_block.h"
#include "session/entry.h"
#include "wrappers.h"

/* While records find no room, dispatches are counted as lost and left alone. */
static void ring_is_full_for_a_while(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	begin("RTL_BUFFER_SIZE", "65536");
	for (uint64_t i = 0; !atomic_load(&session_flags.full); i++) {
		CHECK(i < 65536 / RTL_LINE);
		submit(q, 0x1000);
		fire(take_packet(q));
		CHECK(worker_round(ROUND_MOST_NS));
	}
	uint64_t timed = counters->timed_pool, lost = counters->records_lost;

	for (int i = 0; i < 10; i++) {
		submit(q, 0x1000);
		CHECK(!take_packet(q));
	}
	CHECK(worker_round(ROUND_MOST_NS));
	CHECK(counters->timed_pool == timed && counters->records_lost == lost + 10);

	struct rtl_ring *ring = map_ring();
	__atomic_store_n(&ring->tail, __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
	CHECK(worker_round(ROUND_MOST_NS) && !atomic_load(&session_flags.full));
	submit(q, 0x1000);
	fire(take_packet(q));
	CHECK(rtl_detach() == 0);
	CHECK(counters->timed_pool == timed + 1 && counters->records_lost == lost + 10);
	CHECK(counters->kind[RTL_KIND_DISPATCH].begun == timed + 11);
	munmap(ring, RTL_PAGE + 65536);
}

static hsa_queue_t *dying;

/* On the worker, when it has counted what the queue's dispatches lost so far. */
static hsa_status_t dispatch_and_destroy(const void *p, hsa_executable_t *e)
{
	(void)p, (void)e;
	if (!dying)
		return HSA_STATUS_ERROR;
	hsa_queue_t *q = dying;
	dying = NULL;
	fire(take_packet(q));
	atomic_store(&session_flags.full, 1);
	for (int i = 0; i < 10; i++)
		submit(q, 0x1000);
	wrap_queue_destroy(q);
	return HSA_STATUS_ERROR;
}

static void lost_by_a_queue_that_is_destroyed(void)
{
	static struct toy_queue t;

	dying = make_queue(&t, 1);
	rt.loader.hsa_ven_amd_loader_query_executable = dispatch_and_destroy;
	begin(NULL, NULL);
	hsa_queue_t *q = dying;
	submit(q, 0x1000);
	CHECK(comes(&counters->records_lost, 10));
	CHECK(rtl_detach() == 0);
	CHECK(counters->kind[RTL_KIND_DISPATCH].begun == 11 && counters->timed_pool == 1 && counters->records_lost == 10);
}

/* There is room for a record again, and a lost record is written. The ring counts as full
 * until there is room for many. */
static void ring_is_full_until_an_eighth_is_free(void)
{
	enum { SIZE = 1 << 20, ROOM = SIZE / 8 - SIZE / 32 }; /* more than a record needs, less than an eighth */
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	begin("RTL_BUFFER_SIZE", "1048576");
	submit(q, 0x1000);
	amd_signal_t *in_flight = take_packet(q);
	for (uint64_t i = 0; !atomic_load(&session_flags.full); i++) {
		CHECK(i < SIZE / RTL_LINE);
		submit(q, 0x1000);
		fire(take_packet(q));
		CHECK(worker_round(ROUND_MOST_NS));
	}
	uint64_t timed = counters->timed_pool;

	struct rtl_ring *ring = map_ring();
	uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
	__atomic_store_n(&ring->tail, head - (SIZE - ROOM), __ATOMIC_RELEASE);
	fire(in_flight);
	CHECK(worker_round(ROUND_MOST_NS));
	CHECK(counters->timed_pool == timed + 1);
	CHECK(ring->head == head + 2 * RTL_LINE); /* LOST, and the record */
	CHECK(worker_round(ROUND_MOST_NS) && atomic_load(&session_flags.full));

	__atomic_store_n(&ring->tail, ring->head, __ATOMIC_RELEASE);
	CHECK(worker_round(ROUND_MOST_NS) && !atomic_load(&session_flags.full));
	CHECK(rtl_detach() == 0);
	munmap(ring, RTL_PAGE + SIZE);
}

const struct edge_case full_cases[] = {
	{"ring is full for a while", ring_is_full_for_a_while},
	{"lost by a queue that is destroyed", lost_by_a_queue_that_is_destroyed},
	{"ring is full until an eighth is free", ring_is_full_until_an_eighth_is_free},
	{0},
};
