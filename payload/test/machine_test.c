/*
 * machine_test: the queue state machine (queues.c, publish.c, wrap_*.c,
 * poll.c, worker.c) under a sanitizer, over a toy packet processor in the
 * same process. It looks for data races and broken memory; whether traces are
 * right is tested elsewhere, on the real runtime.
 *
 *   producers ─ wrappers ─► queue ─► processor      switcher: sessions on and off
 *
 * Every packet carries an id, and must be executed exactly once.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kinds/copy/hooks.h"
#include "kinds/dispatch/hooks.h"
#include "core/shared_hooks.h"
#include "core/runtime.h"
#include "core/ranges.h"
#include "core/session_flags.h"
#include "kinds/kind.h"
#include "kinds/dispatch/packets.h"
#include "kinds/dispatch/publish.h"
#include "record/agents.h"
#include "record/event.h"
#include "record/emit.h"
#include "record/launches.h"
#include "record/ring.h"
#include "record/worker.h"
#include "kinds/dispatch/pool.h"
#include "signals/signals.h"
#include "toy.h"
#include "wrappers.h"

#define PRODUCERS 4
#define RING 64
#define PACKETS 20000 /* per producer */
#define SESSION_NS (4 * NS_PER_MS)

/* No call of the machine's own is made through a wrapper. */
bool text_of(const void *address, struct rtl_range *out)
{
	(void)address, (void)out;
	return false;
}

static struct rtl_counters counter_page;
static struct rtl_control control_page;
static uint32_t owner = 1;

/* What hooks.c, runtime.c and session/ own in the payload. Slots are called directly:
 * wrappers on one side, NEXT on the other. */
int hooks_find(const struct hook_table *t, char *err, size_t len) { return (void)t, (void)err, (void)len, 0; }
void hooks_patch(const struct hook_table *t) { (void)t; }
void hooks_restore(const struct hook_table *t) { (void)t; }
void hooks_add_tally(const struct hook_table *t, struct hooks_tally *sum) { (void)t, (void)sum; }
uint32_t hooks_grace_ranges(const struct hook_table *t, struct rtl_range *out, uint32_t n, uint32_t max)
{
	return (void)t, (void)out, (void)max, n;
}
struct runtime rt;

hsa_status_t wrap_shut_down(void)
{
	return HSA_STATUS_SUCCESS;
}

static _Alignas(64) amd_queue_t hardware;
static _Alignas(64) amd_signal_t doorbell;
static hsa_kernel_dispatch_packet_t packets[RING];
static uint8_t executed[PRODUCERS + 1][PACKETS]; /* the last row: all_are_timed() */
static _Atomic uint32_t finished, over;
static uint64_t all_copies_timed;
static _Atomic uint64_t passes[PRODUCERS]; /* a producer is outside every wrapper when it counts */

/* The ring passes for a device's memory. */
static bool of_device;
extern __typeof__(read_memory) __real_read_memory, __wrap_read_memory;

long __wrap_read_memory(uint64_t address, void *buf, size_t size)
{
	bool in_ring = address - (uint64_t)packets < sizeof packets;

	return of_device && in_ring ? -EFAULT : __real_read_memory(address, buf, size);
}

static hsa_queue_t *queue(void)
{
	return &hardware.hsa_queue;
}

/* --- the toy runtime ------------------------------------------------------ */

static uint64_t raw_add(const hsa_queue_t *q, uint64_t n)
{
	(void)q;
	return __atomic_fetch_add(&hardware.write_dispatch_id, n, __ATOMIC_SEQ_CST);
}

static uint64_t raw_load(const hsa_queue_t *q)
{
	(void)q;
	return __atomic_load_n(&hardware.write_dispatch_id, __ATOMIC_SEQ_CST);
}

static void raw_store(hsa_signal_t s, hsa_signal_value_t v)
{
	amd_signal_t *hw = (amd_signal_t *)s.handle;

	if (hw->kind > 0) /* the packet processor polls: a doorbell may be lost */
		__atomic_store_n(&hw->value, v, __ATOMIC_SEQ_CST);
}

/* An engine that ends before the call returns, while the worker looks. */
static hsa_status_t raw_copy(void *to, hsa_agent_t to_agent, const void *from, hsa_agent_t from_agent, size_t size, uint32_t depends,
			     const hsa_signal_t *on, hsa_signal_t signal)
{
	(void)to, (void)to_agent, (void)from, (void)from_agent, (void)size, (void)depends, (void)on;
	toy_copy_begins((struct toy_signal *)signal.handle);
	if (size == 1)
		return HSA_STATUS_ERROR;
	toy_copy_ends((struct toy_signal *)signal.handle);
	return HSA_STATUS_SUCCESS;
}

static void set_up(void)
{
	counters = &counter_page;
	control = &control_page;
	fork_canary = &owner;
	hardware.hsa_queue.base_address = packets;
	hardware.hsa_queue.size = RING;
	hardware.hsa_queue.id = 7;
	hardware.hsa_queue.doorbell_signal.handle = (uint64_t)&doorbell;
	hardware.queue_properties = AMD_QUEUE_PROPERTIES_ENABLE_PROFILING;
	doorbell.kind = AMD_SIGNAL_KIND_DOORBELL;
	doorbell.queue_ptr = &hardware;
	for (int i = 0; i < RING; i++)
		packets[i].header = HSA_PACKET_TYPE_INVALID;
	dispatch_hooks[INDEX_ADD_SCRELEASE].next = (uintptr_t)raw_add;
	dispatch_hooks[INDEX_LOAD_RELAXED].next = (uintptr_t)raw_load;
	shared_hooks[STORE_SCRELEASE].next = (uintptr_t)raw_store;
	shared_hooks[SILENT_STORE_RELAXED].next = (uintptr_t)raw_store;
	shared_hooks[SIGNAL_DESTROY].next = (uintptr_t)destroy_signal;
	copy_hooks[COPY_LINEAR].next = (uintptr_t)raw_copy;
	toy_runtime();
	agents[0].handle.handle = 1;
	agent_count = 1;
	rtl_env_defaults(&config);
	config.signal_pool = 256;
	config.buffer_size_bytes = 1 << 20;
	config.trace |= 1u << RTL_KIND_MEMORY_COPY;
	if (pool_init() || events_init(false) || signals_init() || launches_init())
		abort();
}

/* --- the packet processor: reads the index without waiting for a doorbell -- */

static void execute(hsa_kernel_dispatch_packet_t *p)
{
	uint64_t id = (uint64_t)p->kernarg_address;
	amd_signal_t *s = (amd_signal_t *)p->completion_signal.handle;

	executed[id / PACKETS][id % PACKETS]++;
	if (s) {
		uint64_t now = now_boottime();

		__atomic_store_n(&s->start_ts, now, __ATOMIC_RELAXED);
		__atomic_store_n(&s->end_ts, now + 10, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&p->header, HSA_PACKET_TYPE_INVALID, __ATOMIC_RELEASE);
	__atomic_store_n(&hardware.read_dispatch_id, hardware.read_dispatch_id + 1, __ATOMIC_RELEASE);
	if (s)
		__atomic_fetch_sub(&s->value, 1, __ATOMIC_SEQ_CST);
}

static void *processor(void *unused)
{
	while (!atomic_load(&over) || hardware.read_dispatch_id != raw_load(queue())) {
		uint64_t at = hardware.read_dispatch_id;
		hsa_kernel_dispatch_packet_t *p = &packets[at % RING];

		if (at < raw_load(queue()) && __atomic_load_n(&p->header, __ATOMIC_ACQUIRE) != HSA_PACKET_TYPE_INVALID)
			execute(p);
		else
			sys_yield();
	}
	return unused;
}

/* --- producers ------------------------------------------------------------- */

static void publish(hsa_kernel_dispatch_packet_t *p, bool extended)
{
	uint32_t first = extended ? HSA_PACKET_TYPE_VENDOR_SPECIFIC | FORMAT_EXTENDED_DISPATCH << 16 : HSA_PACKET_TYPE_KERNEL_DISPATCH;

	__atomic_store_n((uint32_t *)p, first, __ATOMIC_RELEASE);
}

static void submit(uint64_t id, hsa_signal_t signal)
{
	uint64_t at = wrap_index_add_screlease(queue(), 1);
	hsa_kernel_dispatch_packet_t *p = &packets[at % RING];

	while (at - __atomic_load_n(&hardware.read_dispatch_id, __ATOMIC_ACQUIRE) >= RING)
		sys_yield();
	p->kernel_object = 0x1000 + id % 8 * 64;
	p->kernarg_address = (void *)id;
	__atomic_store_n(&p->completion_signal.handle, signal.handle, __ATOMIC_RELAXED); /* races with queue_scrub_signals() */
	publish(p, id % 5 == 0);
	wrap_store_screlease(queue()->doorbell_signal, (hsa_signal_value_t)at);
}

/* On a signal that kernels use, too. Some are refused. */
static void copy(uint64_t i, hsa_signal_t own)
{
	hsa_agent_t gpu = {1}, host = {0};

	wrap_silent_store_relaxed(own, 1);
	if (i % 7 == 0)
		wrap_copy_linear(&over, gpu, &over, host, 1, 0, NULL, own);
	wrap_copy_linear(&over, gpu, &over, host, 64, 0, NULL, own);
}

static void *producer(void *number)
{
	uint64_t me = (uint64_t)number;
	hsa_signal_t own;

	create_signal(0, 0, NULL, 0, &own);
	for (uint64_t i = 0; i < PACKETS; i++) {
		bool signalled = i % 3 == 0;

		if (signalled)
			wrap_silent_store_relaxed(own, 1);
		submit(me * PACKETS + i, signalled ? own : (hsa_signal_t){0});
		while (signalled && __atomic_load_n(&((amd_signal_t *)own.handle)->value, __ATOMIC_ACQUIRE))
			sys_yield();
		if (i % 4 == 0)
			copy(i, own);
		atomic_fetch_add(&passes[me], 1);
	}
	wrap_signal_destroy(own);
	atomic_fetch_add(&passes[me], PACKETS);
	atomic_fetch_add(&finished, 1);
	return NULL;
}

/* --- sessions --------------------------------------------------------------- */

/* The grace period: every producer has been outside the wrappers once. */
static void wait_for_all(void)
{
	uint64_t seen[PRODUCERS];

	for (int i = 0; i < PRODUCERS; i++)
		seen[i] = atomic_load(&passes[i]);
	for (int i = 0; i < PRODUCERS; i++)
		while (atomic_load(&passes[i]) == seen[i] && atomic_load(&finished) < PRODUCERS)
			sys_yield();
}

#define DRAIN_NS (600 * NS_PER_S) /* however busy the machine is */

static void arm(uint32_t generation)
{
	char err[RTL_TEXT_MAX];

	signals_reset();
	launches_reset();
	emit_reset();
	memset(counters, 0, sizeof *counters);
	atomic_store(&session_flags.generation, generation);
	if (kinds_prepare(err, sizeof err) || ring_open(&config, generation) || worker_start())
		abort();
	pool_open();
	if (!worker_round(DRAIN_NS)) /* which makes the signals */
		abort();
	atomic_store(&session_flags.track, 1);
	wait_for_all();
	kinds_open();
}

static void check_one_account(const char *what, uint64_t begun, uint64_t told)
{
	if (told == begun)
		return;
	printf("%llu %s, %llu outcomes\n", (unsigned long long)begun, what, (unsigned long long)told);
	exit(1);
}

/* Every dispatch and every copy of the session has its outcome. */
static void check_account(void)
{
	uint64_t told = counters->timed_pool + counters->timed_app, copies = counters->kind[RTL_KIND_MEMORY_COPY].timed;

	for (int r = 0; r < RTL_REASON_COUNT; r++) {
		copies += counters->kind[RTL_KIND_MEMORY_COPY].untimed[r];
		if (r != RTL_REASON_AFTER_DETACH) /* slots, not dispatches */
			told += counters->kind[RTL_KIND_DISPATCH].untimed[r];
	}
	check_one_account("dispatches", counters->kind[RTL_KIND_DISPATCH].begun, told);
	check_one_account("copies", counters->kind[RTL_KIND_MEMORY_COPY].begun, copies);
	all_copies_timed += counters->kind[RTL_KIND_MEMORY_COPY].timed;
}

static uint64_t disarm(void)
{
	static const uint32_t patient = 0;

	const struct ending end = {.why = RTL_END_DETACH};

	while (kinds_close(&end))
		; /* a thread of the test has a queue's lock, and no CPU */
	if (!worker_drain(DRAIN_NS, &patient, &patient))
		abort(); /* every packet is executed */
	atomic_store(&session_flags.track, 0);
	wait_for_all(); /* as the restored slots would */
	while (!worker_stop(RTL_END_DETACH, 0, 0))
		;
	check_account();
	ring_close();
	pool_destroy_all(false);
	return counters->timed_pool + counters->timed_app;
}

#define QUIET_PACKETS 10

/* One producer: signals are ready, the first index call flips the queue, and every dispatch
 * is timed. */
static bool all_are_timed(uint32_t generation)
{
	hsa_signal_t own;

	create_signal(0, 0, NULL, 0, &own);
	arm(generation);
	for (uint64_t i = 0; i < QUIET_PACKETS; i++) {
		submit(PRODUCERS * PACKETS + i, (hsa_signal_t){0});
		copy(i, own);
	}
	bool all = disarm() == QUIET_PACKETS && counters->kind[RTL_KIND_MEMORY_COPY].timed == QUIET_PACKETS;
	wrap_signal_destroy(own);
	return all;
}

int main(int argc, char **argv)
{
	pthread_t threads[PRODUCERS], gpu;
	uint64_t timed = 0;
	uint32_t sessions = 0;

	of_device = argc > 1 && !strcmp(argv[1], "device-ring");
	set_up();
	pthread_create(&gpu, NULL, processor, NULL);
	for (uint64_t i = 0; i < PRODUCERS; i++)
		pthread_create(&threads[i], NULL, producer, (void *)i);
	while (atomic_load(&finished) < PRODUCERS) {
		arm(++sessions);
		sys_sleep_ns(SESSION_NS); /* the length of a session, not a wait for anything */
		timed += disarm();
	}
	for (int i = 0; i < PRODUCERS; i++)
		pthread_join(threads[i], NULL);
	if (!all_are_timed(++sessions)) {
		printf("not all packets and copies of the quiet session were timed\n");
		return 1;
	}
	atomic_store(&over, 1);
	pthread_join(gpu, NULL);
	for (int p = 0; p < PRODUCERS; p++)
		for (int i = 0; i < PACKETS; i++)
			if (executed[p][i] != 1) {
				printf("packet %d of producer %d was executed %d times\n", i, p, executed[p][i]);
				return 1;
			}
	printf("machine_test: %u sessions, %d packets executed once, %llu timed, %llu copies timed\n", sessions,
	       PRODUCERS * PACKETS, (unsigned long long)timed, (unsigned long long)all_copies_timed);
	return 0;
}
