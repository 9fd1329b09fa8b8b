#include "kinds/null/null.h"

#include "core/clocks.h"
#include "core/session_flags.h"
#include "kinds/kind.h"
#include "kinds/null/null_abi.h"
#include "record/event.h"
#include "record/ring.h"

#define CLOSE_MOST_NS (NS_PER_S / 2)

enum { NULL_CALL = EVENT_OF_KIND };
enum { CALL_STAMP, CALL_TID, CALL_ATTRIBUTE }; /* the event's body */

/* seq_cst, both: a caller counts itself in inside, then reads is_open; close_calls()
 * clears is_open, then reads inside. */
static _Atomic uint32_t is_open, inside;

static void count_lost_call(uint32_t reason)
{
	COUNT(kind[RTL_KIND_NULL].begun);
	COUNT(kind[RTL_KIND_NULL].untimed[reason]);
	count_lost(RTL_KIND_NULL, 1);
}

static void note(uint32_t attribute)
{
	struct event e = {
		.kind = RTL_KIND_NULL,
		.what = NULL_CALL,
		.generation = atomic_load(&session_flags.generation),
		.body = {[CALL_STAMP] = stamp_time(), [CALL_TID] = current_tid(), [CALL_ATTRIBUTE] = attribute},
	};

	if (!event_push(&e))
		count_lost_call(RTL_REASON_BACKLOG);
}

hsa_status_t wrap_system_get_info(hsa_system_info_t attribute, void *value)
{
	if (tracking()) {
		atomic_fetch_add(&inside, 1);
		if (atomic_load(&is_open))
			note((uint32_t)attribute);
		atomic_fetch_sub(&inside, 1);
	}
	return NEXT(null_hooks[SYSTEM_GET_INFO], __typeof__(&wrap_system_get_info))(attribute, value);
}

static void open_calls(void)
{
	atomic_store(&is_open, 1);
}

static uint32_t close_calls(const struct ending *end, uint64_t until_ns)
{
	uint64_t most = now_monotonic() + CLOSE_MOST_NS, until = most < until_ns ? most : until_ns;

	(void)end;
	atomic_store(&is_open, 0);
	for (uint32_t turn = 0; atomic_load(&inside); turn++) {
		if (now_monotonic() > until)
			return 1;
		sys_back_off(turn);
	}
	return 0;
}

void null_take(const struct event *e, bool abandon)
{
	struct rtl_null_call r = {
		.header = {.type = RTL_TYPE_NULL_CALL, .lines = 1},
		.time_ns = stamp_to_ns(e->body[CALL_STAMP]),
		.tid = (uint32_t)e->body[CALL_TID],
		.attribute_id = (uint32_t)e->body[CALL_ATTRIBUTE],
	};

	(void)abandon; /* a call has ended when its event comes */
	COUNT(kind[RTL_KIND_NULL].begun);
	TALLY(kind[RTL_KIND_NULL].timed);
	ring_put(&r.header);
}

static void count_unread(const struct event *e)
{
	(void)e;
	count_lost_call(RTL_REASON_NOT_COMPLETED);
}

struct hook null_hooks[NULL_HOOKS] = {
	[SYSTEM_GET_INFO] = HOOK("hsa_system_get_info", wrap_system_get_info, HOOK_REQUIRED),
};

const struct kind null_kind = {
	.hooks = HOOK_TABLE(null_hooks),
	.open = open_calls,
	.close = close_calls,
	.count_unread = count_unread,
};
