#include "record/emit.h"

#include <string.h>

#include "core/clocks.h"
#include "core/session_flags.h"
#include "kinds/copy/abi.h"
#include "kinds/dispatch/abi.h"
#include "record/agents.h"
#include "record/names.h"
#include "record/ring.h"

static uint32_t next_queue;

void records_start(void)
{
	next_queue = 1;
	for (uint32_t i = 0; i < atomic_load(&queue_count); i++)
		queue_all[i]->id = queue_all[i]->told_open = queue_all[i]->told_close = 0;
}

static bool tell_agent(uint32_t number)
{
	struct agent *a = &agents[number - 1];
	struct rtl_agent r = {
		.header = {.type = RTL_TYPE_AGENT, .lines = 1},
		.id = number,
		.gpu = number - 1,
		.handle = a->handle.handle,
		.driver_node = a->driver_node,
		.bdf = a->bdf,
		.pci_domain = a->pci_domain,
		.compute_units = a->compute_units,
	};

	if (a->told)
		return true;
	r.name = string_id(a->name, (uint32_t)strlen(a->name));
	r.product = string_id(a->product, (uint32_t)strlen(a->product));
	a->told = ring_put_definition(&r.header);
	return a->told;
}

static bool tell_identity(struct queue *s)
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
	if (s->agent && !tell_agent(s->agent))
		return false;
	if (!ring_put_definition(&r.header))
		return false;
	s->id = next_queue++;
	return true;
}

static bool has_window(struct queue *s)
{
	/* acquire: pairs with flip() in flip.c */
	return atomic_load_explicit(&s->window_generation, memory_order_acquire) == atomic_load(&gate.generation);
}

bool tell_queue(struct queue *s, bool last)
{
	if (s->told_open)
		return true;
	if (!has_window(s) || (!s->agent && !last) || !tell_identity(s))
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
	s->told_open = ring_put_definition(&r.header);
	return s->told_open;
}

bool tell_close(struct queue *s)
{
	if (!atomic_load_explicit(&s->window_closed, memory_order_acquire) || s->told_close || !has_window(s))
		return true;
	if (!tell_queue(s, true))
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
	s->told_close = ring_put_definition(&r.header);
	return s->told_close;
}

void tell_untimed(struct queue *s, const struct entry *e, uint32_t launch, uint64_t count, uint32_t reason)
{
	struct rtl_untimed r = {
		.header = {.type = RTL_TYPE_UNTIMED, .lines = 1},
		.index = e->index,
		.count = count,
		.submit_ns = e->flags & ENTRY_STAMPED ? stamp_to_ns(e->stamp) : 0,
		.reason = reason,
		.launch = launch,
		.tid = e->tid,
	};

	count_n(&counters->kind[RTL_KIND_DISPATCH].untimed[reason], count);
	tell_queue(s, true);
	r.queue = s->id;
	ring_put(&r.header);
}

void tell_dispatch(struct queue *s, const struct entry *e, uint32_t launch, uint64_t start, uint64_t end, uint64_t signal)
{
	struct agent *a = s->agent ? &agents[s->agent - 1] : NULL;

	if (UNLIKELY(!a || !start || end < start || runtime_is_lost())) {
		tell_untimed(s, e, launch, 1, RTL_REASON_NO_TIMES);
		return;
	}
	if (UNLIKELY(!s->told_open))
		tell_queue(s, true);
	struct rtl_dispatch r = {
		.header = {.type = RTL_TYPE_DISPATCH, .lines = 1},
		.start_ns = agent_ticks_to_ns(a, start),
		.end_ns = agent_ticks_to_ns(a, end),
		.index = e->index,
		.queue = s->id,
		.launch = launch,
		.tid = e->tid,
		.flags = (signal ? RTL_FLAG_APP_SIGNAL : 0) | (e->flags & ENTRY_BARRIER ? RTL_FLAG_BARRIER : 0),
		.signal = signal,
	};
	if (LIKELY(e->flags & ENTRY_STAMPED))
		r.submit_ns = stamp_to_ns(e->stamp);
	else
		r.flags |= RTL_FLAG_SUBMIT_UNKNOWN;
	if (signal)
		TALLY(timed_app);
	else
		TALLY(timed_pool);
	ring_put(&r.header);
}

/* A start before the packet was published: the times of an earlier kernel on
 * the same signal, written late. */
#define CLOCK_SLACK_NS (1 * NS_PER_US)
#define DOUBT_SLACK_NS 100ull /* no application sees an end and publishes anew in that */

bool is_plausible(const struct outcome *o)
{
	struct agent *a = o->queue->agent ? &agents[o->queue->agent - 1] : NULL;
	uint64_t slack = o->armed_at & ARMED_IN_DOUBT ? DOUBT_SLACK_NS : CLOCK_SLACK_NS;

	return !a || agent_ticks_to_ns(a, o->start_ticks) + slack >= stamp_to_ns(o->armed_at & ~ARMED_IN_DOUBT);
}

void tell_app(const struct outcome *o, uint32_t launch)
{
	if (LIKELY(is_plausible(o)))
		tell_dispatch(o->queue, &o->entry, launch, o->start_ticks, o->end_ticks, o->signal);
	else
		tell_untimed(o->queue, &o->entry, launch, 1, RTL_REASON_NO_TIMES);
}

static void put_copy(const struct entry *e, uint64_t start_ns, uint64_t end_ns, uint32_t reason, uint64_t signal)
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
		tell_agent(r.from);
	if (r.to)
		tell_agent(r.to);
	ring_put(&r.header);
}

void tell_copy(const struct entry *e, uint64_t start_ns, uint64_t end_ns, uint64_t signal)
{
	TALLY(kind[RTL_KIND_MEMORY_COPY].timed);
	put_copy(e, start_ns, end_ns, RTL_REASON_NONE, signal);
}

void tell_untimed_copy(const struct entry *e, uint32_t reason, uint64_t signal)
{
	COUNT(kind[RTL_KIND_MEMORY_COPY].untimed[reason]);
	put_copy(e, 0, 0, reason, signal);
}

bool tell_account(uint32_t kind)
{
	const struct rtl_kind_counters *c = &counters->kind[kind];
	struct rtl_kind_account r = {
		.header = {.type = RTL_TYPE_KIND_ACCOUNT, .lines = 1},
		.kind = kind,
		.begun = c->begun,
		.timed = c->timed,
		.lost = c->lost,
	};

	for (uint32_t reason = 0; reason < RTL_REASONS_MAX; reason++)
		r.untimed += reason == RTL_REASON_AFTER_DETACH ? 0 : c->untimed[reason];
	return ring_put_definition(&r.header);
}

bool tell_end(uint32_t why, uint64_t armed_ns, uint64_t detached_ns)
{
	struct rtl_end_record r = {
		.header = {.type = RTL_TYPE_END, .lines = 1},
		.end = why,
		.armed_ns = armed_ns,
		.detached_ns = detached_ns,
		.records_lost = counters->records_lost,
	};

	return ring_put_last(&r.header);
}
