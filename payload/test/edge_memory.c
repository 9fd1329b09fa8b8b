/* edge_memory.c: which memory of the payload is backed when its session has ended. */
#define _GNU_SOURCE
#include "edge.h"
#include "kinds/dispatch/dispatch_abi.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kinds/copy/hooks.h"
#include "core/session_flags.h"
#include "record/event.h"
#include "record/ring.h"
#include "record/worker.h"
#include "session/control_block.h"
#include "session/entry.h"
#include "session/quiesce.h"
#include "signals/table.h"
#include "toy.h"
#include "wrappers.h"

#define MAPPINGS_MAX 4096
#define STATE_PAGES ((sizeof(struct queue) + RTL_PAGE - 1) / RTL_PAGE)

static struct mapping {
	void *at;
	size_t size;
} mappings[MAPPINGS_MAX];
static _Atomic uint32_t mapping_count;

extern __typeof__(map_memory) __real_map_memory, __wrap_map_memory;

void *__wrap_map_memory(size_t size)
{
	void *at = __real_map_memory(size);
	uint32_t i = atomic_fetch_add(&mapping_count, 1);

	CHECK(i < MAPPINGS_MAX);
	mappings[i] = (struct mapping){at, size};
	return at;
}

static uint64_t pages_of(const struct mapping *m)
{
	static unsigned char here[1 << 16];
	uint64_t n = 0, pages = (m->size + RTL_PAGE - 1) / RTL_PAGE;

	CHECK(pages <= sizeof here);
	if (mincore(m->at, m->size, here))
		return 0; /* a name, unmapped since */
	for (uint64_t i = 0; i < pages; i++)
		n += here[i] & 1;
	return n;
}

static uint64_t allowed(const struct mapping *m)
{
	if (m->at == fork_canary)
		return 1;
	if (m->at == signal_table)
		return UINT64_MAX; /* see session_forget_tables() */
	for (uint32_t i = 0; i < atomic_load(&queue_count); i++)
		if (queue_all[i] == m->at)
			return STATE_PAGES;
	return 0;
}

static void check_pages(void)
{
	for (uint32_t i = 0; i < atomic_load(&mapping_count); i++) {
		uint64_t n = pages_of(&mappings[i]);

		if (n > allowed(&mappings[i]))
			printf("%llu pages of %zu bytes\n", (unsigned long long)n, mappings[i].size);
		CHECK(n <= allowed(&mappings[i]));
	}
}

extern int true_grace_wait(const struct rtl_range *, uint32_t, uint64_t, const uint32_t *, uint32_t *);

static void wait_truly(void)
{
	uint32_t no = 0, left;

	CHECK(true_grace_wait(&(struct rtl_range){0}, 0, 60 * NS_PER_S, &no, &left) == 0);
}

static hsa_status_t copy(void *to, hsa_agent_t to_agent, const void *from, hsa_agent_t from_agent, size_t size, uint32_t depends,
			 const hsa_signal_t *on, hsa_signal_t signal)
{
	(void)to, (void)to_agent, (void)from, (void)from_agent, (void)size, (void)depends, (void)on;
	toy_copy_begins((struct toy_signal *)signal.handle);
	toy_copy_ends((struct toy_signal *)signal.handle);
	return HSA_STATUS_SUCCESS;
}

static hsa_status_t enable(bool wanted) { return (void)wanted, HSA_STATUS_SUCCESS; }

/* Uses everything that a session has. */
static void record(hsa_queue_t *q)
{
	static const hsa_agent_t host = {0}, gpu = {1};
	char bytes[64];
	hsa_signal_t s;

	copy_hooks[COPY_LINEAR].next = (uintptr_t)copy;
	copy_hooks[COPY_PROFILING].next = (uintptr_t)enable;
	begin("RTL_TRACE", "memory-copy");
	for (int i = 0; i < 1000; i++) {
		submit(q, 0x1000);
		fire(take_packet(q));
		CHECK(worker_round(ROUND_MOST_NS));
	}
	create_signal(1, 0, NULL, 0, &s);
	CHECK(wrap_copy_linear(bytes, gpu, bytes, host, sizeof bytes, 0, NULL, s) == HSA_STATUS_SUCCESS);
	CHECK(rtl_detach() == 0);
	CHECK(counters->timed_pool == 1000 && counters->kind[RTL_KIND_MEMORY_COPY].timed == 1);
	wrap_signal_destroy(s);
}

static void little_is_kept(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	at_grace = wait_truly;
	for (int i = 0; i < 3; i++) {
		record(q);
		check_pages();
	}
}

static void none_is_kept_of_an_attach(void)
{
	static const char env[] = "\2\0\0\0RTL_TRACE\0memory-copy\0RTL_TEST_FAIL_STEP\0ready";

	CHECK(rtl_attach(env, sizeof env) < 0);
	check_pages();
}

/* A thread in a wrapper pushes its event when the session has ended. */
static void late_at_the_queue(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);
	struct event late = {.what = EVENT_UNTIMED, .generation = 1};

	record(q);
	CHECK(!event_push(&late));
	begin(NULL, NULL);
	CHECK(event_push(&late));
	CHECK(rtl_detach() == 0);
	CHECK(!event_push(&late));
	record(q);
}

/* Sessions with the longer and the shorter lap: a full queue refuses events, also after a lap. */
static void laps_of_either_length(void)
{
	const struct event o = {.what = EVENT_UNTIMED};
	struct event got;

	for (int session = 0; session < 8; session++) {
		uint64_t cells = session % 2 ? EVENT_CELLS_LOSSLESS : EVENT_CELLS, pushed = 0;

		CHECK(!events_init(session % 2));
		while (event_push(&o))
			pushed++;
		CHECK(pushed == cells);
		for (uint64_t i = 0; i < cells + 1; i++)
			CHECK(event_pop(&got) && event_push(&o));
		CHECK(!event_push(&o));
		events_keep(session / 2 % 2); /* as between two windows */
		events_close();
		CHECK(!event_push(&o));
		if (session % 4 == 3) {
			events_keep(false);
			events_give_back();
			CHECK(!event_push(&o));
		}
	}
}

static void *stay(void *unused)
{
	for (;;)
		pause();
	return unused;
}

/* Raw, here and below: a sanitizer's mlock() does nothing. */
static void lock_what_is_mapped(void)
{
	for (uint32_t i = 0; i < atomic_load(&mapping_count); i++)
		syscall(SYS_mlock, mappings[i].at, mappings[i].size); /* fails if it was unmapped since */
}

static uint32_t count_records(struct rtl_ring *ring, uint16_t type)
{
	uint32_t n = 0;

	for (uint64_t at = 0; at < __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);) {
		const struct rtl_header *r = (struct rtl_header *)((char *)ring + RTL_PAGE + at);

		n += r->type == type;
		at += (uint64_t)r->lines * RTL_LINE;
	}
	return n;
}

/* The application calls mlockall() while a session is active. */
static void locked_memory_reads_as_zero(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);
	pthread_t other;

	at_grace = wait_truly;
	CHECK(!pthread_create(&other, NULL, stay, NULL));
	for (int session = 0; session < 3; session++) {
		begin("RTL_BUFFER_SIZE", "65536");
		CHECK(counters->grace_threads >= 1); /* `other`; the last session's worker may not have left the list yet */
		submit(q, 0x1000);
		struct queue *s = queue_find(q);
		CHECK(s->placed[session]);
		lock_what_is_mapped();
		fire(take_packet(q));
		CHECK(worker_round(ROUND_MOST_NS));
		struct rtl_ring *ring = map_ring();
		CHECK(rtl_detach() == 0);
		CHECK(count_records(ring, RTL_TYPE_LAUNCH) == 1);
		CHECK(count_records(ring, RTL_TYPE_DISPATCH) == 1);
		CHECK(count_records(ring, RTL_TYPE_KIND_ACCOUNT) == 1 && count_records(ring, RTL_TYPE_END) == 1);
		CHECK(!s->placed[session]);
		munmap(ring, RTL_PAGE + 65536);
	}
}

/* Copies cannot be timed: the session is without them, and says so once. */
static void a_kind_is_unavailable(void)
{
	static const char env[] = "\1\0\0\0RTL_TRACE\0memory-copy";

	rt.copy_time = NULL;
	CHECK(rtl_attach(env, sizeof env) == 0);
	struct rtl_ring *ring = map_ring();
	CHECK(ring && rtl_detach() == 0);
	CHECK(count_records(ring, RTL_TYPE_KIND_UNAVAILABLE) == 1 && count_records(ring, RTL_TYPE_KIND_ACCOUNT) == 1);
	check_pages();
}

static void locked_memory_is_backed_as_it_is_used(void)
{
	uint64_t size, inode;
	struct stat st;
	int fd;

	CHECK(!syscall(SYS_mlockall, MCL_FUTURE));
	begin("RTL_BUFFER_SIZE", "1048576");
	ring_describe(&size, &inode, &fd);
	CHECK(!fstat(fd, &st) && st.st_blocks * 512 <= 2 * RTL_PAGE);
	for (uint32_t i = 0; i < atomic_load(&mapping_count); i++)
		CHECK(mappings[i].size < 1 << 20 || pages_of(&mappings[i]) < mappings[i].size / RTL_PAGE / 8);
	CHECK(rtl_detach() == 0);
}

const struct edge_case memory_cases[] = {
	{"locked memory reads as zero", locked_memory_reads_as_zero},
	{"locked memory is backed as it is used", locked_memory_is_backed_as_it_is_used},
	{"little memory is kept", little_is_kept},
	{"none is kept of an attach that fails", none_is_kept_of_an_attach},
	{"a kind is unavailable", a_kind_is_unavailable},
	{"late at the queue of events", late_at_the_queue},
	{"laps of either length", laps_of_either_length},
	{0},
};
