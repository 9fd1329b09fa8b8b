/* copy.c: the kind "memory-copy" on the worker: from a copy that was noted to its record. */
#include "kinds/copy/copy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/clocks.h"
#include "core/runtime.h"
#include "core/session_flags.h"
#include "kinds/copy/hooks.h"
#include "record/agents.h"
#include "record/emit.h"
#include "record/ring.h"
#include "signals/signals.h"
#include "signals/times.h"

#define PENDING_COPIES 65536
#define LATE_NS (20 * NS_PER_MS) /* how long a signal that has fired may be without times */
#define SLACK_NS NS_PER_US       /* of the GPU's clock against ours */

struct copy {
	struct copy_item item;
	uint64_t signal;
	uint64_t late_ns; /* since when it has fired without times; 0: it has not */
};

static struct copy *pending;
static uint64_t pending_count;
static int64_t in_transit; /* copies whose outcome a wrapper is handing over */

static int prepare(char *err, size_t errlen)
{
	pending_count = 0;
	in_transit = 0;
	atomic_store(&copies_dropped, 0);
	copy_profiling_reset();
	if (!rt.copy_time) {
		snprintf(err, errlen, "the HSA runtime has no hsa_amd_profiling_get_async_copy_time: copies cannot be timed");
		return -ENOSYS;
	}
	if (!pending && !(pending = map_memory(PENDING_COPIES * sizeof *pending))) {
		snprintf(err, errlen, "no memory for the session's copies");
		return -ENOMEM;
	}
	signal_times_init();
	return 0;
}

static void release(void)
{
	forget_memory(pending, PENDING_COPIES * sizeof *pending);
}

/* The agent that owns the memory. passed: the one that the caller names. */
static uint16_t owner_of(uint64_t address, uint16_t passed)
{
	hsa_amd_pointer_info_t info = {.size = sizeof info};

	if (runtime_is_lost() || rt.pointer_info((const void *)address, &info, NULL, NULL, NULL) || info.type == HSA_EXT_POINTER_TYPE_UNKNOWN)
		return passed;
	return (uint16_t)agent_of_handle(info.agentOwner);
}

/* A caller may name one GPU for both ends, which has only to reach them. */
static void find_owners(struct copy_item *e)
{
	if (!e->from_agent || e->from_agent != e->to_agent)
		return;
	e->from_agent = owner_of(e->from, e->from_agent);
	e->to_agent = owner_of(e->to, e->to_agent);
	e->direction = copy_direction(e->from_agent, e->to_agent);
}

static bool can_be(const struct copy_item *e, uint64_t start, uint64_t end)
{
	return start && end >= start && start + SLACK_NS >= stamp_to_ns(e->stamp);
}

/* e may have been copied while it was written: its clock may be any number. */
static uint64_t to_ns(const struct copy_item *e, uint64_t ticks)
{
	return e->clock && e->clock <= agent_count && ticks ? agent_ticks_to_ns(&agents[e->clock - 1], ticks) : ticks;
}

static void put_copy(const struct copy_item *e, uint64_t start_ns, uint64_t end_ns, uint32_t reason, uint64_t signal)
{
	struct rtl_copy r = {
		.header = {.type = RTL_TYPE_COPY, .lines = 1},
		.start_ns = start_ns,
		.end_ns = end_ns,
		.submit_ns = stamp_to_ns(e->stamp),
		.bytes = e->bytes,
		.signal = signal,
		.from = e->from_agent,
		.to = e->to_agent,
		.tid = e->tid,
		.direction = e->direction,
		.reason = (uint16_t)reason,
	};

	if (r.from)
		emit_agent(r.from);
	if (r.to)
		emit_agent(r.to);
	ring_put(&r.header);
}

static void emit_copy(const struct copy_item *e, uint64_t start_ns, uint64_t end_ns, uint64_t signal)
{
	TALLY(kind[RTL_KIND_MEMORY_COPY].timed);
	put_copy(e, start_ns, end_ns, RTL_REASON_NONE, signal);
}

static void emit_untimed_copy(const struct copy_item *e, uint32_t reason, uint64_t signal)
{
	COUNT(kind[RTL_KIND_MEMORY_COPY].untimed[reason]);
	put_copy(e, 0, 0, reason, signal);
}

/* With the ticks that a wrapper has read from the signal before it changed it. */
static void emit_ticks(const struct copy_item *item, const struct event *e)
{
	uint64_t start = to_ns(item, e->start_ticks), end = to_ns(item, e->end_ticks);

	if (can_be(item, start, end))
		emit_copy(item, start, end, e->signal);
	else
		emit_untimed_copy(item, RTL_REASON_NO_TIMES, e->signal);
}

static void add_pending(const struct copy_item *item, uint64_t signal)
{
	COUNT(kind[RTL_KIND_MEMORY_COPY].begun);
	if (pending_count == PENDING_COPIES) {
		signal_give_up(item->ref, RTL_REASON_BACKLOG);
		in_transit++;
		return;
	}
	pending[pending_count++] = (struct copy){.item = *item, .signal = signal};
}

void copy_take(const struct event *e, bool abandon)
{
	struct copy_item item;

	(void)abandon;
	memcpy(&item, e->item, sizeof item);
	in_transit -= e->in_transit;
	if (e->what == COPY_REFUSED) {
		__atomic_fetch_sub(&counters->kind[RTL_KIND_MEMORY_COPY].begun, 1, __ATOMIC_RELAXED);
		return;
	}
	find_owners(&item);
	if (e->what == COPY_BEGUN)
		add_pending(&item, e->signal);
	else if (e->what == EVENT_TIMED)
		emit_ticks(&item, e);
	else
		emit_untimed_copy(&item, e->reason, e->signal);
	if (e->what == EVENT_UNTIMED && !e->in_transit)
		COUNT(kind[RTL_KIND_MEMORY_COPY].begun); /* it could not be noted, and so is not counted yet */
}

/* Leaves ns in place of ticks. Where the layout of signals is not known, the
 * runtime converts them. Otherwise it is not asked: built with assertions, it reports an error
 * on the target's standard error for a signal that is being used again. */
static bool judge(struct event *e, bool timed)
{
	struct copy_item item;

	memcpy(&item, e->item, sizeof item);
	if (!signal_times_known())
		timed = signal_copy_times(e->signal, &e->start_ticks, &e->end_ticks);
	else if (timed) {
		e->start_ticks = to_ns(&item, e->start_ticks);
		e->end_ticks = to_ns(&item, e->end_ticks);
	}
	return timed && can_be(&item, e->start_ticks, e->end_ticks);
}

static bool is_too_late(struct copy *c, uint64_t now)
{
	if (!c->late_ns)
		c->late_ns = now;
	return now - c->late_ns > LATE_NS;
}

static void give_up(struct copy *c, uint32_t reason)
{
	signal_give_up(c->item.ref, reason);
	in_transit++;
}

/* True: its record is written, or an event with its outcome comes. */
static bool settle(struct copy *c, uint64_t now, bool abandon)
{
	struct event e;

	if (runtime_is_lost()) {
		give_up(c, RTL_REASON_NOT_COMPLETED);
		return true;
	}
	switch (signal_poll(c->item.ref, judge, &e)) {
	case SIGNAL_FIRED:
		emit_copy(&c->item, e.start_ticks, e.end_ticks, c->signal);
		return true;
	case SIGNAL_TAKEN:
		in_transit++;
		return true;
	case SIGNAL_LATE:
		if (!is_too_late(c, now) && !abandon)
			return false;
		give_up(c, RTL_REASON_NO_TIMES);
		return true;
	default:
		if (!abandon)
			return false;
		give_up(c, RTL_REASON_NOT_COMPLETED);
		return true;
	}
}

static uint64_t poll(uint64_t now, bool abandon)
{
	uint64_t kept = 0;

	for (uint64_t i = 0; i < pending_count; i++)
		if (!settle(&pending[i], now, abandon))
			pending[kept++] = pending[i];
	uint64_t ended = pending_count - kept;
	pending_count = kept;
	return ended;
}

static uint64_t outstanding(void)
{
	return pending_count + (uint64_t)in_transit - atomic_load(&copies_dropped);
}

static void count_dropped(const struct event *e)
{
	(void)e;
	atomic_fetch_add(&copies_dropped, 1);
	COUNT(kind[RTL_KIND_MEMORY_COPY].untimed[RTL_REASON_BACKLOG]);
	count_lost(RTL_KIND_MEMORY_COPY, 1);
}

static void count_unread(const struct event *e)
{
	if (e->in_transit)
		return; /* outstanding() counts it */
	COUNT(kind[RTL_KIND_MEMORY_COPY].begun);
	if (e->what == COPY_BEGUN) {
		in_transit++; /* no event will say how it ended */
		return;
	}
	COUNT(kind[RTL_KIND_MEMORY_COPY].untimed[e->reason]);
	count_lost(RTL_KIND_MEMORY_COPY, 1);
}

const struct kind copy_kind = {
	.hooks = HOOK_TABLE(copy_hooks),
	.prepare = prepare,
	.start = copy_profiling_start,
	.open = copies_open,
	.close = copies_close,
	.undo = copy_profiling_undo,
	.release = release,
	.poll = poll,
	.outstanding = outstanding,
	.count_dropped = count_dropped,
	.count_unread = count_unread,
};
