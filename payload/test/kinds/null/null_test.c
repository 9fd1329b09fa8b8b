/* null_test.c: the kind "null" from arming to its account. */
#include <sys/mman.h>

#include "core/session_flags.h"
#include "edge.h"
#include "kinds/null/null.h"
#include "kinds/null/null_abi.h"
#include "record/event.h"
#include "record/ring.h"
#include "record/worker.h"
#include "session/control_block.h"
#include "session/entry.h"

#define CALLS 100

static uint32_t raw_calls;

static hsa_status_t raw_get_info(hsa_system_info_t attribute, void *value)
{
	(void)attribute, (void)value;
	raw_calls++;
	return HSA_STATUS_SUCCESS;
}

static void call(uint32_t times)
{
	for (uint32_t i = 0; i < times; i++)
		CHECK(wrap_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, NULL) == HSA_STATUS_SUCCESS);
}

static struct rtl_ring *begin_calls(const char *kinds)
{
	null_hooks[SYSTEM_GET_INFO].next = (uintptr_t)raw_get_info;
	begin("RTL_TRACE", kinds);
	return map_ring();
}

/* The ring's records: how many calls, and the account of the kind. */
static uint32_t read_ring(const struct rtl_ring *ring, struct rtl_kind_account *account)
{
	const char *at = (const char *)ring + RTL_PAGE, *end = at + ring->head;
	uint32_t calls = 0;

	*account = (struct rtl_kind_account){0};
	while (at < end) {
		const struct rtl_header *h = (const struct rtl_header *)at;
		const struct rtl_kind_account *a = (const struct rtl_kind_account *)at;

		calls += h->type == RTL_TYPE_NULL_CALL;
		if (h->type == RTL_TYPE_KIND_ACCOUNT && a->kind == RTL_KIND_NULL)
			*account = *a;
		at += (size_t)h->lines * RTL_LINE;
	}
	return calls;
}

static void each_call_has_a_record(void)
{
	struct rtl_ring *ring = begin_calls("null");
	struct rtl_kind_account account;

	call(CALLS);
	CHECK(rtl_detach() == 0);
	CHECK(read_ring(ring, &account) == CALLS);
	CHECK(account.begun == CALLS && account.timed == CALLS && !account.untimed && !account.lost);
	CHECK(counters->records_lost == 0);
	call(1); /* after the session: it passes through */
	CHECK(raw_calls == CALLS + 1 && counters->kind[RTL_KIND_NULL].begun == CALLS);
}

static void not_recorded_without_its_name(void)
{
	struct rtl_ring *ring = begin_calls("dispatch");
	struct rtl_kind_account account;

	call(CALLS);
	CHECK(rtl_detach() == 0);
	CHECK(read_ring(ring, &account) == 0 && account.header.type == 0);
	CHECK(raw_calls == CALLS && counters->kind[RTL_KIND_NULL].begun == 0);
}

/* The queue of events is full: no worker takes them. */
static void full_queue_is_counted(void)
{
	const struct event other = {.kind = RTL_KIND_NULL};

	begin_calls("null");
	while (!worker_stop(RTL_END_DETACH, 0, 0))
		;
	while (event_push(&other))
		;
	call(CALLS);
	CHECK(raw_calls == CALLS && counters->kind[RTL_KIND_NULL].begun == CALLS);
	CHECK(counters->kind[RTL_KIND_NULL].untimed[RTL_REASON_BACKLOG] == CALLS);
	CHECK(counters->kind[RTL_KIND_NULL].lost == CALLS && counters->records_lost == CALLS);
}

static const struct edge_case null_cases[] = {
	{"null: each call has a record", each_call_has_a_record},
	{"null: not recorded without its name", not_recorded_without_its_name},
	{"null: a full queue is counted", full_queue_is_counted},
	{0},
};
EDGE_CASES_OF_KIND(null_cases)
