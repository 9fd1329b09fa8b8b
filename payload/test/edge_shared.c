/* edge_shared.c: packets that are not timed on the signals of packets that are; a ring without room. */
#include <string.h>
#include <sys/mman.h>

#include "core/clocks.h"
#include "core/shared_hooks.h"
#include "core/session_flags.h"
#include "edge.h"
#include "kinds/dispatch/hooks.h"
#include "kinds/dispatch/publish.h"
#include "record/ring.h"
#include "record/worker.h"
#include "session/control_block.h"
#include "session/entry.h"
#include "kinds/dispatch/pool.h"
#include "signals/table.h"
#include "wrappers.h"

#define DISPATCH HSA_PACKET_TYPE_KERNEL_DISPATCH

static void settle(void)
{
	for (int i = 0; i < 3; i++)
		CHECK(worker_round(ROUND_MOST_NS));
}

static void fill_ring(hsa_queue_t *q, uint64_t most_records)
{
	for (uint64_t i = 0; !atomic_load(&session_flags.full); i++) {
		CHECK(i < most_records);
		submit(q, 0x1000);
		fire(take_packet(q));
		CHECK(worker_round(ROUND_MOST_NS));
	}
}

/* A is published while the ring is full, and so is not timed. It ends after B was armed on the
 * same signal: B must not get its times. */
static void unkept_on_a_shared_signal(void)
{
	static struct toy_queue t;
	static amd_signal_t signal;
	hsa_queue_t *q = make_queue(&t, 1);
	hsa_signal_t handle = {(uint64_t)&signal};

	begin("RTL_BUFFER_SIZE", "65536");
	fill_ring(q, 65536 / RTL_LINE);
	struct rtl_ring *ring = map_ring();
	signal.value = 2;
	wrap_store_screlease(handle, 2);
	submit_on(q, DISPATCH, &signal); /* A */
	free_ring(ring);
	CHECK(worker_round(ROUND_MOST_NS) && !atomic_load(&session_flags.full));
	submit_on(q, DISPATCH, &signal); /* B */
	CHECK(take_packet(q) == &signal && take_packet(q) == &signal);
	fire(&signal);
	settle();
	CHECK(counters->timed_app == 0);
	fire(&signal);
	settle();
	CHECK(counters->timed_app == 0 && counters->kind[RTL_KIND_DISPATCH].untimed[RTL_REASON_SHARED_SIGNAL] == 1);
	munmap(ring, RTL_PAGE + 65536);
	CHECK(rtl_detach() == 0);
}

/* A dispatch must not get the times of a barrier on the same signal. */
static void barrier_on_a_shared_signal(void)
{
	static struct toy_queue t;
	static amd_signal_t signal;
	hsa_queue_t *q = make_queue(&t, 1);

	begin(NULL, NULL);
	for (int barrier_first = 0; barrier_first < 2; barrier_first++) {
		signal.value = 2;
		wrap_store_screlease((hsa_signal_t){(uint64_t)&signal}, 2);
		submit_on(q, barrier_first ? HSA_PACKET_TYPE_BARRIER_AND : DISPATCH, &signal);
		submit_on(q, barrier_first ? DISPATCH : HSA_PACKET_TYPE_BARRIER_OR, &signal);
		CHECK(take_packet(q) == &signal && take_packet(q) == &signal);
		fire(&signal);
		settle();
		fire(&signal);
		settle();
	}
	CHECK(counters->timed_app == 0 && counters->kind[RTL_KIND_DISPATCH].untimed[RTL_REASON_SHARED_SIGNAL] == 2);
	signal.value = 1; /* alone on it, it is timed again */
	wrap_store_screlease((hsa_signal_t){(uint64_t)&signal}, 1);
	submit_on(q, DISPATCH, &signal);
	fire(take_packet(q));
	CHECK(rtl_detach() == 0 && counters->timed_app == 1);
}

/* Hardware that writes times late: those of the barrier come when the next dispatch has been
 * published on the signal. The dispatch must not get them. */
static void late_times_of_a_barrier(void)
{
	static struct toy_queue t;
	static amd_signal_t signal;
	hsa_queue_t *q = make_queue(&t, 1);
	hsa_signal_t handle = {(uint64_t)&signal};

	begin(NULL, NULL);
	signal.value = 1;
	wrap_store_screlease(handle, 1);
	submit_on(q, HSA_PACKET_TYPE_BARRIER_AND, &signal);
	take_packet(q)->value--;
	signal.value = 1;
	wrap_store_screlease(handle, 1);
	submit_on(q, DISPATCH, &signal);
	uint64_t published = stamp_to_ns(signal_find(handle.handle)->armed_at & ~ARMED_IN_DOUBT);
	signal.start_ts = published - 500;
	signal.end_ts = published - 490;
	take_packet(q)->value--;
	settle();
	CHECK(counters->timed_app == 0);
	signal.start_ts = published + 1000;
	signal.end_ts = published + 2000;
	CHECK(rtl_detach() == 0);
	/* Untimed: this thread got no CPU for as long as the worker waits for late times. */
	CHECK(counters->timed_app + counters->kind[RTL_KIND_DISPATCH].untimed[RTL_REASON_NO_TIMES] == 1);
}

static hsa_signal_value_t raw_cas_signal(hsa_signal_t s, hsa_signal_value_t expected, hsa_signal_value_t value)
{
	amd_signal_t *hw = (amd_signal_t *)s.handle;

	__atomic_compare_exchange_n(&hw->value, &expected, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return expected;
}

/* An application that finds a free signal by compare-and-swap does not end a dispatch on a
 * signal that is in use. */
static void swap_that_fails(void)
{
	static struct toy_queue t;
	static amd_signal_t signal = {.value = 1};
	hsa_queue_t *q = make_queue(&t, 1);
	hsa_signal_t handle = {(uint64_t)&signal};

	shared_hooks[CAS_SCACQ_SCREL].next = (uintptr_t)raw_cas_signal;
	begin(NULL, NULL);
	submit_on(q, DISPATCH, &signal);
	CHECK(wrap_cas_scacq_screl(handle, 0, 1) == 1);
	fire(take_packet(q));
	CHECK(wrap_cas_scacq_screl(handle, 0, 1) == 0); /* reads the times first */
	signal.start_ts = signal.end_ts = 0;
	CHECK(rtl_detach() == 0);
	CHECK(counters->timed_app == 1 && counters->kind[RTL_KIND_DISPATCH].untimed[RTL_REASON_REARMED] == 0);
}

/* Slots that are claimed raw are counted, however many a call claims. */
static void raw_claims_are_slots(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);
	bool foreign;

	begin(NULL, NULL);
	struct queue *s = queue_get(q, &foreign);
	CHECK(s);
	atomic_fetch_add(&s->inflight, 1); /* another thread is inside: the queue cannot turn virtual */
	CHECK(wrap_index_add_screlease(q, 5) == 0);
	CHECK(wrap_index_cas_screlease(q, 4, 9) == 5 && wrap_index_cas_screlease(q, 5, 7) == 5);
	wrap_index_store_screlease(q, 10);
	CHECK(atomic_load(&s->raw_claims) == 10 && counters->raw_claims == 10);
	atomic_fetch_sub(&s->inflight, 1);
	CHECK(rtl_detach() == 0);
}

static _Atomic uint64_t rung;

static void note_bell(hsa_signal_t s, hsa_signal_value_t v)
{
	(void)v;
	atomic_store(&rung, s.handle);
}

/* A thread sleeps in a doorbell's wrapper until the state of its queue belongs to another
 * queue: it rings the doorbell that the application named. */
static void bell_of_another_queue(void)
{
	static struct toy_queue first, second;
	hsa_queue_t *q = make_queue(&second, 2);

	make_queue(&first, 1);
	begin(NULL, NULL);
	submit(q, 0x1000);
	struct queue *s = queue_find(q);
	hsa_signal_t bell = first.amd.hsa_queue.doorbell_signal;
	queue_bell(s, bell, 0, note_bell);
	CHECK(atomic_load(&rung) == bell.handle);
	fire(take_packet(q));
	CHECK(rtl_detach() == 0);
}

/* When the memory for waiting records is full, there is room as soon as the recorder takes some. */
static void lossless_past_its_limit(void)
{
	enum { SIZE = 1 << 16, LIMIT = 1 << 20 };
	static const char env[] = "\3\0\0\0RTL_BUFFER_SIZE\0" "65536\0"
				 "RTL_BUFFER_POLICY\0lossless\0RTL_BUFFER_LIMIT\0" "1048576";
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	CHECK(rtl_attach(env, sizeof env) == 0);
	fill_ring(q, (SIZE + LIMIT) / RTL_LINE);
	struct rtl_ring *ring = map_ring();
	for (int i = 0; i < LIMIT / 4 / SIZE * 2; i++) {
		free_ring(ring);
		CHECK(worker_round(ROUND_MOST_NS));
	}
	CHECK(ring_waiting_bytes() > LIMIT / 4);
	CHECK(!atomic_load(&session_flags.full));
	munmap(ring, RTL_PAGE + SIZE);
	CHECK(rtl_detach() == 0);
}

/* However many records are lost in a row, a reader does not see a step back. */
static void long_loss(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	begin(NULL, NULL);
	submit(q, 0x1000);
	fire(take_packet(q));
	settle();
	struct rtl_ring *ring = map_ring();
	uint32_t before = ((struct rtl_header *)((uint8_t *)ring + RTL_PAGE + ring->head - RTL_LINE))->seq;
	struct queue *s = queue_find(q);
	atomic_fetch_add(&s->dispatches, 3ull << 30);
	atomic_fetch_add(&s->skipped_full, 3ull << 30);
	settle();
	submit(q, 0x1000);
	fire(take_packet(q));
	settle();
	uint32_t after = ((struct rtl_header *)((uint8_t *)ring + RTL_PAGE + ring->head - RTL_LINE))->seq;
	CHECK(after - before < 1u << 31 && counters->records_lost == 3ull << 30);
	munmap(ring, RTL_PAGE + ring->size_bytes);
	CHECK(rtl_detach() == 0);
}

static void submit_again(hsa_queue_t *q)
{
	uint64_t at = wrap_index_add_screlease(q, 1);
	hsa_kernel_dispatch_packet_t *p = (hsa_kernel_dispatch_packet_t *)q->base_address + at % RING;

	__atomic_store_n(&p->header, DISPATCH, __ATOMIC_RELEASE);
	wrap_store_screlease(q->doorbell_signal, (hsa_signal_value_t)at);
}

/* A producer writes only the fields that change: it never gets a signal of ours as its own,
 * and the hardware never gets one that was destroyed. */
static void slots_that_are_not_rewritten(void)
{
	enum { PACKETS = 3 * RING + RING / 2 };
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	begin("RTL_SIGNAL_POOL", "16");
	for (int i = 0; i < PACKETS; i++) {
		submit_again(q);
		amd_signal_t *s = take_packet(q);
		CHECK(s);
		fire(s);
		settle();
	}
	CHECK(rtl_detach() == 0);
	CHECK(counters->timed_pool == PACKETS && counters->timed_app == 0 && pool_count() == 0);
	for (int i = 0; i < RING; i++)
		CHECK(t.ring[i].completion_signal.handle == 0);
}

/* Such a producer goes on while a session ends. A signal that it may still give to the
 * hardware is not destroyed. */
static void slots_over_a_close(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	begin("RTL_SIGNAL_POOL", "16");
	for (int i = 0; i < RING; i++) {
		submit_again(q);
		fire(take_packet(q));
		settle();
	}
	submit_again(q);
	struct queue *s = queue_find(q);
	CHECK(queue_lock_wait(s, NS_PER_S));
	queue_scrub_signals(s);
	queue_close(s);
	queue_unlock(s);
	amd_signal_t *ours = take_packet(q);
	CHECK(ours);
	for (int i = 1; i < RING; i++) {
		submit_again(q);
		CHECK(!take_packet(q));
	}
	fire(ours);
	settle();
	submit_again(q); /* in the slot that was not consumed at the close */
	CHECK(take_packet(q) == ours);
	CHECK(rtl_detach() == 0);
	CHECK(pool_count() == 1 && counters->signals_quarantined == 1);
	fire(ours);
	CHECK(counters->timed_pool == RING + 1);
}

/* A copy or a packet of a raw queue is not noted, and is on the same signal, which counts it,
 * too: it has ended first, and the times are its own. */
static void company_that_nobody_notes(void)
{
	static struct toy_queue t;
	static amd_signal_t signal;
	hsa_queue_t *q = make_queue(&t, 1);

	begin(NULL, NULL);
	signal.value = 2;
	wrap_store_screlease((hsa_signal_t){(uint64_t)&signal}, 2);
	submit_on(q, DISPATCH, &signal);
	CHECK(take_packet(q) == &signal);
	fire(&signal);
	settle();
	CHECK(counters->timed_app == 0 && counters->kind[RTL_KIND_DISPATCH].untimed[RTL_REASON_SHARED_SIGNAL] == 1);
	fire(&signal);
	CHECK(rtl_detach() == 0);
}

const struct edge_case shared_cases[] = {
	{"slots over a close", slots_over_a_close},
	{"sharing_of that nobody notes", company_that_nobody_notes},
	{"slots that are not rewritten", slots_that_are_not_rewritten},
	{"skipped_full on a shared signal", unkept_on_a_shared_signal},
	{"barrier on a shared signal", barrier_on_a_shared_signal},
	{"late times of a barrier", late_times_of_a_barrier},
	{"swap that fails", swap_that_fails},
	{"raw claims are slots", raw_claims_are_slots},
	{"bell of another queue", bell_of_another_queue},
	{"lossless past its limit", lossless_past_its_limit},
	{"long loss", long_loss},
	{0},
};
