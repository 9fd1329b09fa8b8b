/* dispatch.c: the kind "dispatch": how it begins, and what it counts at its end. */
#include "kinds/dispatch/dispatch.h"

#include <errno.h>
#include <stdio.h>

#include "core/fault.h"
#include "core/session_flags.h"
#include "kinds/dispatch/emit.h"
#include "kinds/dispatch/gpus.h"
#include "kinds/dispatch/hooks.h"
#include "kinds/dispatch/pool.h"
#include "kinds/dispatch/real_index.h"
#include "record/session_end.h"
#include "record/worker.h"

#define READY_AT_START 8 /* states of queues */

static int fail(int r, const char *reason, char *err, size_t errlen)
{
	snprintf(err, errlen, "%s", reason);
	return r;
}

static int prepare(char *err, size_t errlen)
{
	static const char no_memory[] = "no memory for the session's tables";

	if (pool_init() || fault_at("pool"))
		return fail(-ENOMEM, no_memory, err, errlen);
	if (!queue_reset_all())
		return fail(-EBUSY, "a thread is held up inside the runtime since the last session: it was just meeting a queue",
			    err, errlen);
	gpus_select(config.gpus);
	real_index_prepare();
	pool_close(); /* until start() */
	dispatch_rounds_reset();
	emit_queues_reset();
	if (queue_make_ready(READY_AT_START) || fault_at("queues"))
		return fail(-ENOMEM, no_memory, err, errlen);
	return 0;
}

/* The worker uses the pool from now on, and makes the signals. If it gets no CPU, they come
 * later, and dispatches without one are counted. */
static int start(char *err, size_t errlen)
{
	real_index_choose();
	pool_open();
	if (worker_round(WORKER_ROUND_MOST_NS) && pool_is_exhausted())
		return fail(-ENOMEM, "the HSA runtime makes no more signals", err, errlen);
	if (runtime_is_lost())
		return fail(-ECANCELED, "the application called hsa_shut_down meanwhile", err, errlen);
	return fault_at("ready") ? fail(-EIO, "made to fail at ready", err, errlen) : 0;
}

/* The hooks of a window of a schedule are in place before its time. */
static void forget_raw_claims(void)
{
	for (uint32_t i = 0; i < atomic_load(&queue_count); i++)
		atomic_store(&queue_all[i]->raw_claims, 0);
	__atomic_store_n(&counters->raw_claims, 0, __ATOMIC_RELAXED);
}

static void open(void)
{
	if (config.schedule[0])
		forget_raw_claims();
	atomic_store(&session_flags.flips, 1); /* queues turn virtual at their next index call */
}

static void count_dropped(const struct event *e)
{
	struct queue *s = lane_place(e->lane);

	atomic_fetch_add(&s->handoff_drops, 1);
	COUNT(kind[RTL_KIND_DISPATCH].untimed[RTL_REASON_BACKLOG]);
	count_lost(RTL_KIND_DISPATCH, 1);
}

static void count_unread(const struct event *e)
{
	if (e->in_transit)
		return; /* dispatch_outstanding() counts it */
	COUNT_N(kind[RTL_KIND_DISPATCH].untimed[e->reason], e->what == DISPATCH_RANGE ? e->body[RANGE_COUNT] : 1);
	count_lost(RTL_KIND_DISPATCH, 1);
}

static void write_last(struct patience *p)
{
	for (uint32_t i = 0; i < atomic_load(&queue_count); i++)
		while (atomic_load(&queue_all[i]->in_use) && !emit_close(queue_all[i]) && session_end_wait(p))
			;
}

static void leave_runtime(void)
{
	for (uint32_t i = 0; i < atomic_load(&queue_count); i++)
		queue_await_ours(queue_all[i]);
}

const struct kind dispatch_kind = {
	.hooks = HOOK_TABLE(dispatch_hooks),
	.prepare = prepare,
	.start = start,
	.open = open,
	.close = dispatch_close,
	.release_signals = dispatch_release_signals,
	.leave_runtime = leave_runtime,
	.poll = dispatch_poll,
	.outstanding = dispatch_outstanding,
	.make_ready = dispatch_make_ready,
	.update_counters = dispatch_update_counters,
	.count_dropped = count_dropped,
	.count_unread = count_unread,
	.write_last = write_last,
};
