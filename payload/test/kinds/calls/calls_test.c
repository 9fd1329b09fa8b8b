/* calls_test.c: an API kind from arming to its account; the calls go through the trampolines. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/session_flags.h"
#include "edge.h"
#include "kinds/calls/calls_abi.h"
#include "kinds/calls/find.h"
#include "kinds/calls/functions.h"
#include "kinds/calls/operations.h"
#include "kinds/calls/trampoline.h"
#include "kinds/kind.h"
#include "record/lanes.h"
#include "record/ring.h"
#include "record/worker.h"
#include "session/control_block.h"
#include "session/entry.h"

#define KIND RTL_KIND_HIP_RUNTIME_API
#define CALLS 100
#define REFUSED 50
#define BLOCK ((void *)0x7000beef0000)

typedef int malloc_function(void **out, size_t bytes);

static _Atomic uint32_t raw_calls, held;

static int raw_malloc(void **out, size_t bytes)
{
	atomic_fetch_add(&raw_calls, 1);
	while (atomic_load(&held))
		sys_yield();
	*out = bytes ? BLOCK : NULL;
	return bytes ? 0 : 2;
}

static uint32_t function(void)
{
	int f = function_named(KIND, "hipMalloc", strlen("hipMalloc"));

	CHECK(f >= 0);
	return (uint32_t)f;
}

__attribute__((noinline)) static void call(uint32_t times)
{
	malloc_function *m = (malloc_function *)call_trampoline(function());
	void *p;

	for (uint32_t i = 0; i < times; i++)
		CHECK(m(&p, 64) == 0 && p == BLOCK);
}

static struct rtl_ring *begin_calls(const char *kinds)
{
	atomic_store(&call_hooks[function()].next, (uintptr_t)raw_malloc);
	begin("RTL_TRACE", kinds);
	return map_ring();
}

static void check_call(const struct rtl_call *c)
{
	CHECK(c->header.lines == 2 && c->function == function() && c->start_ns <= c->end_ns && c->end_ns - c->start_ns < NS_PER_S * 60);
	CHECK(c->start_ns >= control->armed_ns - NS_PER_MS && c->result == 0 && c->stack_words == 0);
	CHECK(c->flags == RTL_CALL_HAS_OUT && c->registers[0] == (uint64_t)BLOCK && c->registers[1] == 64);
}

/* The ring's records: how many calls, and the account of the kind. */
static uint32_t read_ring(const struct rtl_ring *ring, struct rtl_kind_account *account)
{
	const char *at = (const char *)ring + RTL_PAGE, *end = at + ring->head;
	uint32_t calls = 0, coverages = 0;

	*account = (struct rtl_kind_account){0};
	while (at < end) {
		const struct rtl_header *h = (const struct rtl_header *)at;
		const struct rtl_kind_account *a = (const struct rtl_kind_account *)at;

		if (h->type == RTL_CALL_TYPE(KIND)) {
			check_call((const struct rtl_call *)at);
			calls++;
		}
		coverages += h->type == RTL_CALL_COVERAGE_TYPE(KIND);
		if (h->type == RTL_TYPE_KIND_ACCOUNT && a->kind == KIND)
			*account = *a;
		at += (size_t)h->lines * RTL_LINE;
	}
	CHECK(coverages == (account->header.type ? 2 : 0));
	return calls;
}

/* The session has ended: so many calls were recorded, and so many lost. */
static void check_account(const struct rtl_ring *ring, uint64_t timed, uint64_t lost)
{
	struct rtl_kind_account a;

	CHECK(read_ring(ring, &a) == timed);
	CHECK(a.header.type && a.begun == timed + lost && a.timed == timed && a.untimed == lost && a.lost == lost);
	CHECK(counters->records_lost == lost);
}

static void each_call_has_a_record(void)
{
	struct rtl_ring *ring = begin_calls("dispatch,hip-runtime-api");

	call(CALLS);
	CHECK(rtl_detach() == 0);
	check_account(ring, CALLS, 0);
	call(1); /* it passes through */
	CHECK(atomic_load(&raw_calls) == CALLS + 1 && counters->kind[KIND].begun == CALLS);
	ring = begin_calls("dispatch,hip-runtime-api");
	call(2);
	CHECK(rtl_detach() == 0);
	check_account(ring, 2, 0);
}

static void not_recorded_without_its_name(void)
{
	struct rtl_ring *ring = begin_calls("dispatch,hip-compiler-api");
	struct rtl_kind_account a;

	call(CALLS);
	CHECK(rtl_detach() == 0);
	CHECK(read_ring(ring, &a) == 0 && !a.header.type && atomic_load(&raw_calls) == CALLS);
}

static void *call_once(void *unused)
{
	call(1);
	return unused;
}

/* It returns after the close of its session, in none or in a later one. */
static void returns_late(void)
{
	struct rtl_ring *ring;
	pthread_t in_none, in_later;

	atomic_store(&held, 1);
	ring = begin_calls("dispatch,hip-runtime-api");
	CHECK(!pthread_create(&in_none, NULL, call_once, NULL));
	while (atomic_load(&raw_calls) != 1)
		sys_yield();
	CHECK(rtl_detach() == 0);
	check_account(ring, 0, 0);
	atomic_store(&held, 0);
	pthread_join(in_none, NULL);

	atomic_store(&held, 1);
	begin_calls("dispatch,hip-runtime-api");
	CHECK(!pthread_create(&in_later, NULL, call_once, NULL));
	while (atomic_load(&raw_calls) != 2)
		sys_yield();
	CHECK(rtl_detach() == 0);
	ring = begin_calls("dispatch,hip-runtime-api");
	atomic_store(&held, 0);
	pthread_join(in_later, NULL);
	call(1);
	CHECK(rtl_detach() == 0);
	check_account(ring, 1, 0);
}

static void *fill_lane(void *unused)
{
	call(LANE_CELLS + REFUSED);
	return unused;
}

/* On the worker, which takes no cell meanwhile. */
static hsa_status_t fill_meanwhile(const void *p, hsa_executable_t *e)
{
	pthread_t t;

	(void)p, (void)e;
	if (atomic_load(&raw_calls))
		return HSA_STATUS_ERROR;
	CHECK(!pthread_create(&t, NULL, fill_lane, NULL));
	pthread_join(t, NULL);
	return HSA_STATUS_ERROR;
}

static void full_lane_is_counted(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	rt.loader.hsa_ven_amd_loader_query_executable = fill_meanwhile;
	struct rtl_ring *ring = begin_calls("dispatch,hip-runtime-api");
	submit(q, 0x1000);
	fire(take_packet(q));
	CHECK(comes(&counters->kind[KIND].begun, LANE_CELLS + REFUSED));
	CHECK(counters->kind[KIND].untimed[RTL_REASON_BACKLOG] == REFUSED);
	CHECK(rtl_detach() == 0);
	check_account(ring, LANE_CELLS, REFUSED);
}

/* Calls by code of the payload are none of the application's, on any thread. */
static void our_own_calls(void)
{
	struct rtl_ring *ring = begin_calls("dispatch,hip-runtime-api");

	call_own_text = (uint64_t)call;
	call_own_bytes = 256;
	call(CALLS);
	call_own_bytes = 0;
	call(1);
	CHECK(rtl_detach() == 0);
	check_account(ring, 1, 0);
}

static uint64_t claimed(void)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < LANES; i++)
		n += atomic_load(&lanes[i].head);
	return n;
}

static void forked_child(void)
{
	struct rtl_ring *ring = begin_calls("dispatch,hip-runtime-api");
	int status;

	call(1);
	pid_t child = fork();
	if (!child) {
		uint64_t before = claimed();

		call(CALLS);
		_exit(claimed() != before || atomic_load(&raw_calls) != CALLS + 1);
	}
	waitpid(child, &status, 0);
	CHECK(status == 0);
	call(1);
	CHECK(rtl_detach() == 0);
	check_account(ring, 2, 0);
}

static uint32_t count_wanted(void)
{
	uint32_t n = 0;

	for (uint32_t f = 0; f < CALL_FUNCTIONS_MAX; f++)
		n += operation_is_wanted(f);
	return n;
}

/* A hook that another tool keeps in its chain is called in sessions that do not want its function. */
static void omitted_by_operations(void)
{
	struct rtl_ring *ring = begin_calls("dispatch,hip-runtime-api");
	char err[128];

	CHECK(operation_is_wanted(function()) && !operation_is_omitted(function()));
	CHECK(operations_take("0", err, sizeof err) == 0 && count_wanted() == 0 && operation_is_omitted(function()));
	call(CALLS);
	CHECK(operations_take("", err, sizeof err) == 0);
	call(2);
	CHECK(rtl_detach() == 0);
	check_account(ring, 2, 0);
}

static void text_of_operations(void)
{
	static const char *const bad[] = {"g", "0x1", "1 ", "F", "\xff", "-1"};
	char digits[CALL_FUNCTIONS_MAX / 4 + 2] = "", err[128];

	CHECK(operations_take("", err, sizeof err) == 0 && count_wanted() > 0);
	uint32_t all = count_wanted();
	for (uint32_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK(operations_take(bad[i], err, sizeof err) == -EINVAL && strstr(err, "RTL_OPERATIONS: ") == err && count_wanted() == all);
	for (uint32_t i = 0; i < sizeof digits - 1; i++) { /* each length, up to one that no buffer has */
		bool is_known = i * 4 < function_count;

		digits[i] = '1';
		CHECK(operations_take(digits, err, sizeof err) == (is_known ? 0 : -EINVAL));
		if (is_known)
			CHECK(count_wanted() <= i + 1 && operation_is_wanted(i * 4) == (functions[i * 4].when != FUNCTION_NEVER));
	}
	for (uint32_t f = 0; f < function_count; f++) { /* each function alone; one that must not be intercepted never */
		memset(digits, '0', sizeof digits);
		digits[f / 4] = "1248"[f % 4];
		digits[f / 4 + 1] = '\0';
		CHECK(operations_take(digits, err, sizeof err) == 0);
		CHECK(operation_is_wanted(f) == (functions[f].when != FUNCTION_NEVER) && count_wanted() == operation_is_wanted(f));
	}
}

static void count_as_patched(void)
{
	call_apis[KIND].way = RTL_CALL_WAY_TABLE;
	call_hooks[function()].state = HOOK_PATCHED;
}

static void count_as_restored(void)
{
	call_hooks[function()].state = HOOK_READY;
}

/* The last record of the coverage says what was intercepted until then, though it is written
 * when the hooks have been restored. */
static void coverage_at_the_end(void)
{
	struct rtl_ring *ring = begin_calls("dispatch,hip-runtime-api");
	const struct rtl_call_coverage *last = NULL;

	count_as_patched();
	hip_runtime_api_kind.undo();
	count_as_restored();
	while (!worker_stop(RTL_END_DETACH, 0, 0))
		;
	const char *at = (const char *)ring + RTL_PAGE, *end = at + ring->head;
	for (; at < end; at += (size_t)((const struct rtl_header *)at)->lines * RTL_LINE)
		if (((const struct rtl_header *)at)->type == RTL_CALL_COVERAGE_TYPE(KIND))
			last = (const struct rtl_call_coverage *)at;
	CHECK(last && last->way == RTL_CALL_WAY_TABLE && last->hooked == 1);
}

static const struct edge_case calls_cases[] = {
	{"calls: each call has a record", each_call_has_a_record},
	{"calls: not recorded without its name", not_recorded_without_its_name},
	{"calls: one that returns late", returns_late},
	{"calls: a full lane is counted", full_lane_is_counted},
	{"calls: the payload's own", our_own_calls},
	{"calls: a forked child's", forked_child},
	{"calls: the coverage at the end", coverage_at_the_end},
	{"calls: left out by operations", omitted_by_operations},
	{"calls: the text of operations", text_of_operations},
	{0},
};
EDGE_CASES_OF_KIND(calls_cases)
