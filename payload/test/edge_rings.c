/* edge_rings.c: the slots of a queue's ring, and the indices into it. */
#define _GNU_SOURCE
#include "edge.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kinds/dispatch/hooks.h"
#include "kinds/dispatch/packets.h"
#include "kinds/dispatch/publish.h"
#include "record/worker.h"
#include "session/control_block.h"
#include "session/entry.h"
#include "wrappers.h"

/* A producer that fills packets first, and claims their slots by a store: the
 * worker may publish between its claim and its stamp. */
static void stamp_of_an_earlier_queue(void)
{
	static struct toy_queue t[2];
	hsa_queue_t *q = make_queue(&t[1], 2);
	bool foreign;

	begin(NULL, NULL);
	struct queue *s = queue_get(q, &foreign);
	atomic_store(&s->stamps[1].time, stamp_time()); /* as an earlier queue of this state has left it */
	atomic_store(&s->stamps[1].owner, 7ull << 32 | 1);
	submit(q, 0x1000);
	CHECK(queue_trylock(s));
	t[1].ring[1].header = HSA_PACKET_TYPE_KERNEL_DISPATCH;
	atomic_store(&s->word, WORD_VIRT | 2);
	CHECK(queue_publish(s));
	queue_unlock(s);
	for (uint64_t i = 0; i < 2; i++)
		CHECK(!(s->entries[i].call.flags & ENTRY_STAMPED) == (i == 1));
	fire(take_packet(q));
	fire(take_packet(q));
	CHECK(rtl_detach() == 0);
}

static void submit_extended(hsa_queue_t *q, struct extended_dispatch packet)
{
	uint64_t at = wrap_index_add_screlease(q, 1);
	uint32_t *slot = (uint32_t *)((hsa_kernel_dispatch_packet_t *)q->base_address + at % RING);

	memcpy(slot + 1, (char *)&packet + sizeof *slot, sizeof packet - sizeof *slot);
	__atomic_store_n(slot, HSA_PACKET_TYPE_VENDOR_SPECIFIC | FORMAT_EXTENDED_DISPATCH << 16, __ATOMIC_RELEASE);
	wrap_store_screlease(q->doorbell_signal, (hsa_signal_value_t)at);
}

static void has_grid(const struct kernel_call *call, uint32_t x, uint32_t y, uint32_t z)
{
	CHECK(call->kernel_object == 0x1000 && call->grid[0] == x && call->grid[1] == y && call->grid[2] == z);
}

/* The vendor's extended dispatch: with a signal of ours or its own, its other signal as it was. */
static void extended_dispatch(void)
{
	static struct toy_queue t;
	static amd_signal_t own, other;
	hsa_queue_t *q = make_queue(&t, 1);
	const hsa_signal_t waits_for = {(uint64_t)&other};
	struct extended_dispatch p = {.kernel_object = 0x1000, .workgroup = {64, 2, 1}, .clusters_x = 10, .clusters_y = 3,
				      .clusters_z = 1, .cluster_size = {4, 2, 0}, .dep_signal = waits_for};

	begin(NULL, NULL);
	submit_extended(q, p);
	amd_signal_t *ours = take_packet(q);
	CHECK(ours);
	own.value = 1;
	p = (struct extended_dispatch){.kernel_object = 0x1000, .clusters_x = UINT32_MAX, .cluster_size = {255, 0, 0},
				       .completion_signal = {(uint64_t)&own}};
	submit_extended(q, p);
	CHECK(take_packet(q) == &own);
	struct queue *s = queue_find(q);
	has_grid(&s->entries[0].call, 10 * 4 * 64, 3 * 2 * 2, 1);
	has_grid(&s->entries[1].call, UINT32_MAX, 1, 1);
	CHECK(((struct extended_dispatch *)t.ring)[0].dep_signal.handle == waits_for.handle && !other.value);
	fire(ours);
	fire(&own);
	CHECK(rtl_detach() == 0);
	CHECK(counters->timed_pool == 1 && counters->timed_app == 1 && counters->kind[RTL_KIND_DISPATCH].begun == 2);
	CHECK(t.ring[0].completion_signal.handle == 0 && t.ring[1].completion_signal.handle == (uint64_t)&own);
}

/* As a GPU's memory, it cannot be read by process_vm_readv. */
static struct toy_queue *map_device(void)
{
	int fd = (int)syscall(SYS_memfd_secret, 0);
	struct toy_queue *t = map_memory(sizeof *t);

	if (fd < 0 || ftruncate(fd, sizeof *t) || mmap(t, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != t)
		no_read_memory = true; /* an older kernel: the ring may be a device's, then */
	return t;
}

/* A ring in the GPU's memory: what was consumed at the detach is as the application left it. What
 * was not keeps its signal, which is not destroyed. */
static void ring_of_a_device(void)
{
	static amd_signal_t own;
	struct toy_queue *t = map_device();
	hsa_queue_t *q = make_queue(t, 1);

	begin("RTL_DRAIN_TIMEOUT_MS", "30000");
	for (int i = 0; i < 2; i++) {
		submit(q, 0x1000);
		fire(take_packet(q));
	}
	own.value = 1;
	submit_on(q, HSA_PACKET_TYPE_KERNEL_DISPATCH, &own);
	fire(take_packet(q));
	submit(q, 0x1000);
	CHECK(comes(&counters->timed_pool, 2) && comes(&counters->timed_app, 1));
	CHECK(queue_note_ring(queue_find(q)) == RING_OF_DEVICE);
	pthread_t detaching = begin_detach();
	fire(take_packet(q));
	pthread_join(detaching, NULL);
	CHECK(counters->timed_pool == 3 && control->signals_kept == 1);
	CHECK(!t->ring[0].completion_signal.handle && !t->ring[1].completion_signal.handle);
	CHECK(t->ring[2].completion_signal.handle == (uint64_t)&own && t->ring[3].completion_signal.handle);
}

/* At the detach a producer is between its claim and its packet. The packets behind it get signals of ours, which are
 * destroyed at the end as any others. */
static void packets_behind_a_gap(void)
{
	enum { BEHIND = 3 };
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	begin("RTL_DRAIN_TIMEOUT_MS", "600000");
	submit(q, 0x1000);
	fire(take_packet(q));
	CHECK(comes(&counters->timed_pool, 1));
	CHECK(wrap_index_add_screlease(q, 1) == 1);
	for (int i = 0; i < BEHIND; i++)
		submit(q, 0x1000);
	pthread_t detaching = begin_detach();
	__atomic_store_n(&t.ring[1].header, HSA_PACKET_TYPE_KERNEL_DISPATCH, __ATOMIC_RELEASE);
	CHECK(!take_packet(q));
	for (int i = 0; i < BEHIND; i++)
		fire(take_packet(q));
	pthread_join(detaching, NULL);
	CHECK(counters->timed_pool == 1 + BEHIND && counters->kind[RTL_KIND_DISPATCH].untimed[RTL_REASON_AFTER_DETACH] == 1);
	CHECK(control->signals_kept == 0);
	for (int i = 0; i < RING; i++)
		CHECK(!t.ring[i].completion_signal.handle);
}

/* A thread that claims the slot that is being scrubbed waits; others do not. */
static void *claim_two(void *q)
{
	CHECK(wrap_index_add_screlease(q, 1) == 1);
	CHECK(wrap_index_add_screlease(q, 1) == 2);
	return NULL;
}

static void claim_of_a_slot_in_hand(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);
	pthread_t claimer;

	begin(NULL, NULL);
	submit(q, 0x1000);
	fire(take_packet(q));
	struct queue *s = queue_find(q);
	atomic_store(&s->scrubbing, 2 + 1);
	CHECK(!pthread_create(&claimer, NULL, claim_two, q));
	while ((atomic_load(&s->word) & WORD_INDEX) != 3)
		sys_yield();
	CHECK(pthread_tryjoin_np(claimer, NULL) == EBUSY);
	atomic_store(&s->scrubbing, 0);
	CHECK(!pthread_join(claimer, NULL));
	CHECK(rtl_detach() == 0);
}

/* The write index goes back, or far ahead: the queue turns raw. */
static void index_goes_back(void)
{
	static const uint64_t nonsense[] = {4, 2, 0, 1ull << 60, UINT64_MAX};
	enum { KINDS = 3, CASES = KINDS * sizeof nonsense / sizeof *nonsense };
	static struct toy_queue t[CASES];
	bool foreign;

	begin(NULL, NULL);
	for (uint64_t i = 0; i < CASES; i++) {
		uint64_t to = nonsense[i / KINDS];
		hsa_queue_t *q = make_queue(&t[i], i);

		while (!queue_get(q, &foreign))
			worker_round(ROUND_MOST_NS);
		for (int n = 0; n < 3; n++)
			submit(q, 0x1000);
		CHECK(wrap_index_add_screlease(q, 2) == 3); /* claimed, never published */
		if (i % KINDS == 0)
			wrap_index_store_screlease(q, to);
		else if (i % KINDS == 1)
			CHECK(wrap_index_cas_screlease(q, 5, to) == 5);
		else
			CHECK(wrap_index_add_screlease(q, to - 5) == 5);
		CHECK(t[i].amd.write_dispatch_id == to);
		CHECK(wrap_index_load_relaxed(q) == to);
		CHECK(atomic_load(&queue_find(q)->word) == WORD_RAW);
		for (amd_signal_t *hw; t[i].amd.read_dispatch_id < 3 && t[i].amd.read_dispatch_id < to;)
			if ((hw = take_packet(q))) /* else the pool has no signal for this queue yet */
				fire(hw);
	}
	CHECK(rtl_detach() == 0);
	CHECK(counters->kind[RTL_KIND_DISPATCH].untimed[RTL_REASON_AFTER_DETACH] == 2 * CASES);
	CHECK(counters->kind[RTL_KIND_DISPATCH].begun == 3 * CASES);
}

static const struct rtl_window *opening(const struct rtl_ring *ring)
{
	const char *lines = (const char *)ring + RTL_PAGE;

	for (uint64_t at = 0;; at += ((const struct rtl_header *)(lines + at))->lines * RTL_LINE) {
		const struct rtl_window *w = (const struct rtl_window *)(lines + at);

		CHECK(at < 4096 && w->header.lines);
		if (w->header.type == RTL_TYPE_WINDOW && w->kind == RTL_WINDOW_OPEN)
			return w;
	}
}

/* The hardware has consumed a part of what was claimed before the window. */
static void queued_before_the_window(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	begin(NULL, NULL);
	CHECK(rtl_detach() == 0);
	for (int i = 0; i < 5; i++)
		submit(q, 0x1000); /* not recorded */
	for (int i = 0; i < 2; i++)
		CHECK(!take_packet(q));
	begin(NULL, NULL);
	submit(q, 0x1000);
	for (int i = 0; i < 3; i++)
		CHECK(!take_packet(q));
	fire(take_packet(q));
	CHECK(comes(&counters->timed_pool, 1) && worker_round(ROUND_MOST_NS));
	struct rtl_ring *ring = map_ring();
	CHECK(opening(ring)->others == 3 && opening(ring)->index == 5);
	munmap(ring, RTL_PAGE);
	CHECK(rtl_detach() == 0);
}

const struct edge_case ring_cases[] = {
	{"stamp of an earlier queue", stamp_of_an_earlier_queue},
	{"extended dispatch", extended_dispatch},
	{"ring of a device", ring_of_a_device},
	{"packets behind a gap", packets_behind_a_gap},
	{"claim of a slot in hand", claim_of_a_slot_in_hand},
	{"index goes back", index_goes_back},
	{"queued before the window", queued_before_the_window},
	{0},
};
