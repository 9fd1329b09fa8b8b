/*
 * embed_toy.c: a session for embed_test: a thread that writes records as the payload's worker does, into the
 * payload's own ring. What is tested is what reads them.
 */
#define _GNU_SOURCE
#include "embed_toy.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "abi.h"
#include "core/env.h"
#include "core/session_flags.h"
#include "kinds/dispatch/dispatch_abi.h"
#include "kinds/marker/marker_abi.h"
#include "record/ring.h"
#include "record/worker.h"
#include "session/control_block.h"
#include "session/entry.h"

static _Alignas(4096) struct rtl_control control_page;
static struct rtl_counters counter_page;
static uint32_t canary = 1;
static pthread_t producer;
static pthread_mutex_t session = PTHREAD_MUTEX_INITIALIZER;
static bool active;
static _Atomic bool stopping;
static _Atomic uint32_t asked, done;
_Atomic uint64_t toy_made; /* dispatches that came into the ring */

int control_create(void)
{
	fork_canary = &canary;
	control = &control_page;
	counters = &counter_page;
	control->pid = (uint32_t)getpid();
	return 0;
}

static void define(void)
{
	static const char name[] = "_Z6kernelv.kd";
	struct rtl_string s = {.header = {RTL_TYPE_STRING, 1, 0}, .id = 1, .len_bytes = sizeof name - 1};
	struct rtl_string gpu = {.header = {RTL_TYPE_STRING, 1, 0}, .id = 2, .len_bytes = 6, .text = "gfx90a"};
	struct rtl_agent a = {.header = {RTL_TYPE_AGENT, 1, 0}, .id = 1, .name = 2};
	struct rtl_queue q = {.header = {RTL_TYPE_QUEUE, 1, 0}, .id = 1, .agent = 1, .address = 0x1000};
	struct rtl_launch l = {.header = {RTL_TYPE_LAUNCH, 1, 0}, .id = 1, .name = 1, .agent = 1, .grid = {8, 1, 1}};

	memcpy(s.text, name, sizeof name);
	ring_put_definition(&s.header);
	ring_put_definition(&gpu.header);
	ring_put_definition(&a.header);
	ring_put_definition(&q.header);
	ring_put_definition(&l.header);
}

static void make(uint64_t i)
{
	struct rtl_dispatch d = {.header = {RTL_TYPE_DISPATCH, 1, 0}, .start_ns = i + 1, .end_ns = i + 2, .index = i, .queue = 1, .launch = 1};
	/* text over several lines, of which some go over the ring's end */
	struct {
		struct rtl_marker m;
		char rest[3 * RTL_LINE];
	} m = {.m = {.header = {RTL_TYPE_MARKER, 4, 0}, .operation = RTL_MARKER_MARK, .text_bytes = 200}};

	if (ring_put(&d.header))
		atomic_fetch_add(&toy_made, 1);
	memset(m.m.text, 'm', 200);
	if (i % 7 == 0)
		ring_put(&m.m.header);
}

static void *produce(void *unused)
{
	define();
	for (uint64_t i = 0; !atomic_load(&stopping); i++) {
		uint32_t request = atomic_load(&asked);

		make(i);
		if (i % 64 && request == atomic_load(&done))
			continue;
		ring_flush();
		ring_is_full();
		atomic_store(&done, request);
		if (i % 1024 == 0)
			usleep(100); /* also where the reader has no room: no thread of this test needs to be fast */
	}
	struct rtl_end_record end = {.header = {RTL_TYPE_END, 1, 0}, .end = RTL_END_DETACH};
	ring_give_up();
	ring_flush();
	end.records_lost = counter_page.records_lost;
	while (!ring_put_last(&end.header))
		usleep(100);
	ring_end();
	return unused;
}

static int begin(const void *env, uint64_t len)
{
	uint64_t inode;
	int fd, r;

	if (active)
		return -EALREADY;
	if ((r = rtl_env_parse(env, len, &config, control->error_text, sizeof control->error_text)) || (r = ring_open(&config, 1)))
		return r;
	memset(&counter_page, 0, sizeof counter_page);
	ring_describe(&control->ring_size, &inode, &fd);
	control->ring_fd = fd;
	atomic_store(&stopping, false);
	active = !pthread_create(&producer, NULL, produce, NULL);
	__atomic_store_n(&control->state, RTL_STATE_ACTIVE, __ATOMIC_RELEASE);
	return 0;
}

int rtl_attach(const void *env, uint64_t len)
{
	pthread_mutex_lock(&session);
	int r = begin(env, len);
	pthread_mutex_unlock(&session);
	return r;
}

int session_disarm(enum rtl_end why)
{
	int r = -EALREADY;

	(void)why;
	pthread_mutex_lock(&session);
	if (active) {
		atomic_store(&stopping, true);
		pthread_join(producer, NULL);
		ring_close();
		active = false;
		__atomic_store_n(&control->state, RTL_STATE_DORMANT, __ATOMIC_RELEASE);
		r = 0;
	}
	pthread_mutex_unlock(&session);
	return r;
}

enum rtl_state control_state(void)
{
	return (enum rtl_state)__atomic_load_n(&control->state, __ATOMIC_ACQUIRE);
}

int session_end_now(enum rtl_end why)
{
	return session_disarm(why);
}

bool worker_round(uint64_t timeout_ns)
{
	uint32_t mine = atomic_fetch_add(&asked, 1) + 1;
	uint64_t until = now_monotonic() + timeout_ns;

	while ((int32_t)(atomic_load(&done) - mine) < 0) {
		if (now_monotonic() > until || atomic_load(&stopping))
			return false;
		usleep(50);
	}
	return true;
}
