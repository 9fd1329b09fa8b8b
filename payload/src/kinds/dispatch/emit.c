/* emit.c: the records of queues, of their windows, and of dispatches. */
#include "kinds/dispatch/emit.h"

#include "core/clocks.h"
#include "core/session_flags.h"
#include "kinds/dispatch/dispatch_abi.h"
#include "record/agents.h"
#include "record/emit.h"
#include "record/ring.h"

static uint32_t next_queue; /* id */

void emit_queues_reset(void)
{
	next_queue = 1;
}

static bool emit_identity(struct queue *s)
{
	struct rtl_queue r = {
		.header = {.type = RTL_TYPE_QUEUE, .lines = 1},
		.id = next_queue,
		.agent = s->agent,
		.address = s->address,
		.hsa_id = s->hsa_id,
		.doorbell = s->doorbell.handle,
		.size = (uint32_t)s->size,
		.type = s->type,
		.flags = s->profiled_by_us ? RTL_QUEUE_PROFILING_OURS : 0,
	};

	if (s->id)
		return true;
	if (s->agent && !emit_agent(s->agent))
		return false;
	if (!ring_put_definition(&r.header))
		return false;
	s->id = next_queue++;
	return true;
}

static bool has_window(struct queue *s)
{
	/* acquire: pairs with flip() in flip.c */
	return atomic_load_explicit(&s->window_generation, memory_order_acquire) == atomic_load(&session_flags.generation);
}

bool emit_queue(struct queue *s, bool last)
{
	if (s->open_emitted)
		return true;
	if (!has_window(s) || (!s->agent && !last) || !emit_identity(s))
		return false;
	struct rtl_window r = {
		.header = {.type = RTL_TYPE_WINDOW, .lines = 1},
		.queue = s->id,
		.kind = RTL_WINDOW_OPEN,
		.index = s->base,
		.others = s->before,
		.time_ns = s->opened_ns,
		.raw = atomic_load(&s->raw_claims),
	};
	s->open_emitted = ring_put_definition(&r.header);
	return s->open_emitted;
}

bool emit_close(struct queue *s)
{
	if (!atomic_load_explicit(&s->window_closed, memory_order_acquire) || s->close_emitted || !has_window(s))
		return true;
	if (!emit_queue(s, true))
		return false;
	struct rtl_window r = {
		.header = {.type = RTL_TYPE_WINDOW, .lines = 1},
		.queue = s->id,
		.kind = RTL_WINDOW_CLOSE,
		.time_ns = s->closed_ns,
		.index = s->closed_index,
		.dispatches = atomic_load(&s->dispatches),
		.others = atomic_load(&s->others),
		.after = s->after,
		.raw = atomic_load(&s->raw_claims),
	};
	s->close_emitted = ring_put_definition(&r.header);
	return s->close_emitted;
}

void emit_untimed(struct queue *s, const struct entry *e, uint32_t launch, uint64_t count, uint32_t reason)
{
	struct rtl_untimed r = {
		.header = {.type = RTL_TYPE_UNTIMED, .lines = 1},
		.index = e->index,
		.count = count,
		.submit_ns = e->call.flags & ENTRY_STAMPED ? stamp_to_ns(e->stamp) : 0,
		.reason = reason,
		.launch = launch,
		.tid = e->call.tid,
	};

	count_n(&counters->kind[RTL_KIND_DISPATCH].untimed[reason], count);
	emit_queue(s, true);
	r.queue = s->id;
	ring_put(&r.header);
}

void emit_dispatch(struct queue *s, const struct entry *e, uint32_t launch, uint64_t start, uint64_t end, uint64_t signal)
{
	struct agent *a = s->agent ? &agents[s->agent - 1] : NULL;

	if (UNLIKELY(!a || !start || end < start || runtime_is_lost())) {
		emit_untimed(s, e, launch, 1, RTL_REASON_NO_TIMES);
		return;
	}
	if (UNLIKELY(!s->open_emitted))
		emit_queue(s, true);
	struct rtl_dispatch r = {
		.header = {.type = RTL_TYPE_DISPATCH, .lines = 1},
		.start_ns = agent_ticks_to_ns(a, start),
		.end_ns = agent_ticks_to_ns(a, end),
		.index = e->index,
		.queue = s->id,
		.launch = launch,
		.tid = e->call.tid,
		.flags = (signal ? RTL_FLAG_APP_SIGNAL : 0) | (e->call.flags & ENTRY_BARRIER ? RTL_FLAG_BARRIER : 0),
		.signal = signal,
	};
	if (LIKELY(e->call.flags & ENTRY_STAMPED))
		r.submit_ns = stamp_to_ns(e->stamp);
	else
		r.flags |= RTL_FLAG_SUBMIT_UNKNOWN;
	if (signal)
		TALLY(timed_app);
	else
		TALLY(timed_pool);
	ring_put(&r.header);
}

/* Times that start before the packet was published are those of an earlier kernel on the same
 * signal, written late. */
#define CLOCK_SLACK_NS (1 * NS_PER_US)
#define DOUBT_SLACK_NS 100ull /* no application sees the end of a kernel and publishes the next one in less */

bool is_plausible(const struct event *e)
{
	const struct queue *s = lane_place(e->lane);
	struct agent *a = s->agent ? &agents[s->agent - 1] : NULL;
	uint64_t slack = e->armed_at & ARMED_IN_DOUBT ? DOUBT_SLACK_NS : CLOCK_SLACK_NS;

	return !a || agent_ticks_to_ns(a, e->start_ticks) + slack >= stamp_to_ns(e->armed_at & ~ARMED_IN_DOUBT);
}

void emit_app_dispatch(const struct event *e, const struct entry *entry, uint32_t launch)
{
	struct queue *s = lane_place(e->lane);

	if (LIKELY(is_plausible(e)))
		emit_dispatch(s, entry, launch, e->start_ticks, e->end_ticks, e->signal);
	else
		emit_untimed(s, entry, launch, 1, RTL_REASON_NO_TIMES);
}
