/* copies.c: from a copy that was noted to its record; and the runtime's profiling of copies. */
#include "kinds/copy/copy.h"

#include <errno.h>
#include <stdio.h>

#include "core/clocks.h"
#include "core/fault.h"
#include "core/hooks.h"
#include "core/runtime.h"
#include "core/session_flags.h"
#include "record/agents.h"
#include "record/emit.h"
#include "session/control_block.h"
#include "signals/signals.h"

#define PENDING_COPIES 65536
#define LATE_NS (20 * NS_PER_MS) /* the signal has fired without times: give up after */
#define SLACK_NS NS_PER_US       /* of the GPU's clock against ours */

typedef hsa_status_t (*enable_fn)(bool);

struct copy {
	struct entry entry;
	uint64_t signal;
	uint64_t late_ns; /* fired without times, since; 0: not so */
};

static struct copy *pending;
static uint64_t pending_count;
static int64_t owed; /* copies that wrappers have taken and not yet handed over */

/* --- profiling ------------------------------------------------------------------ */

enum { UNSAID, UNWANTED, WANTED };
static _Atomic uint32_t said; /* by the application, in this session */
static _Atomic uint32_t forced;

static enable_fn enable(void)
{
	return NEXT(COPY_PROFILING, enable_fn);
}

/* The runtime takes times of copies from now on, whatever the application says of that. */
static int start_profiling(char *err, size_t errlen)
{
	(void)err, (void)errlen;
	atomic_store(&forced, 1);
	enable()(true);
	control->copies_profiled = 1;
	(void)fault_at("profiled");
	return 0;
}

/* There is no way to ask what it was before. Unless the application has said
 * what it wants it stays on, which costs a copy two words written by its engine. */
static void undo_profiling(void)
{
	uint32_t done = UNSAID, now;

	if (!atomic_exchange(&forced, 0) || runtime_is_lost())
		return;
	while ((now = atomic_load(&said)) != done) {
		enable()(now == WANTED);
		control->copies_profiled = 0;
		done = now;
	}
	(void)fault_at("unprofiled");
}

hsa_status_t copy_profiling_wanted(bool wanted, hsa_status_t (*next)(bool))
{
	if (!tracking())
		return next(wanted);
	atomic_store(&said, wanted ? WANTED : UNWANTED);
	hsa_status_t status;
	bool now;
	do { /* it may be forced meanwhile, or no longer be */
		now = atomic_load(&forced);
		status = next(wanted || now);
	} while (now != atomic_load(&forced));
	return status;
}

static int prepare(char *err, size_t errlen)
{
	pending_count = 0;
	owed = 0;
	atomic_store(&copy_lane.undelivered, 0);
	atomic_store(&said, UNSAID);
	if (!rt.copy_time) {
		snprintf(err, errlen, "the HSA runtime has no hsa_amd_profiling_get_async_copy_time: copies cannot be timed");
		return -ENOSYS;
	}
	if (!pending && !(pending = map_memory(PENDING_COPIES * sizeof *pending))) {
		snprintf(err, errlen, "no memory for the session's copies");
		return -ENOMEM;
	}
	copy_times_init();
	return 0;
}

static void release(void)
{
	forget_memory(pending, PENDING_COPIES * sizeof *pending);
}

/* --- worker --------------------------------------------------------------------- */

/* Whose memory it is; passed: whose the caller says it is. */
static uint16_t owner_of(uint64_t address, uint16_t passed)
{
	hsa_amd_pointer_info_t info = {.size = sizeof info};

	if (runtime_is_lost() || rt.pointer_info((const void *)address, &info, NULL, NULL, NULL) || info.type == HSA_EXT_POINTER_TYPE_UNKNOWN)
		return passed;
	return (uint16_t)agent_of_handle(info.agentOwner);
}

/* A caller may name one GPU for both ends, which has only to reach them. */
static void find_owners(struct entry *e)
{
	if (!e->from_agent || e->from_agent != e->to_agent)
		return;
	e->from_agent = owner_of(e->from, e->from_agent);
	e->to_agent = owner_of(e->to, e->to_agent);
	e->direction = copy_direction(e->from_agent, e->to_agent);
}

static bool can_be(const struct entry *e, uint64_t start, uint64_t end)
{
	return start && end >= start && start + SLACK_NS >= stamp_to_ns(e->stamp);
}

/* e may be a copy that was torn: its clock may be anything. */
static uint64_t to_ns(const struct entry *e, uint64_t ticks)
{
	return e->clock && e->clock <= agent_count && ticks ? agent_ticks_to_ns(&agents[e->clock - 1], ticks) : ticks;
}

/* From a signal that a wrapper is about to change, or has: its ticks. */
static void tell_ticks(const struct outcome *o)
{
	uint64_t start = to_ns(&o->entry, o->start_ticks), end = to_ns(&o->entry, o->end_ticks);

	if (can_be(&o->entry, start, end))
		tell_copy(&o->entry, start, end, o->signal);
	else
		tell_untimed_copy(&o->entry, RTL_REASON_NO_TIMES, o->signal);
}

static void add_pending(const struct outcome *o)
{
	COUNT(kind[RTL_KIND_MEMORY_COPY].begun);
	if (pending_count == PENDING_COPIES) {
		signal_give_up(o->entry.signal, RTL_REASON_BACKLOG);
		owed++;
		return;
	}
	struct copy *c = &pending[pending_count++];
	*c = (struct copy){.entry = o->entry, .signal = o->signal};
	find_owners(&c->entry);
}

void copies_take(const struct outcome *o)
{
	struct outcome known = *o;

	if (o->kind == OUTCOME_NOTED) {
		add_pending(o);
		return;
	}
	find_owners(&known.entry);
	owed -= o->owed;
	if (o->kind == OUTCOME_TAKEN_BACK)
		__atomic_fetch_sub(&counters->kind[RTL_KIND_MEMORY_COPY].begun, 1, __ATOMIC_RELAXED);
	else if (o->kind == OUTCOME_TIMED)
		tell_ticks(&known);
	else
		tell_untimed_copy(&known.entry, o->reason, o->signal);
	if (o->kind == OUTCOME_UNTIMED && !o->owed)
		COUNT(kind[RTL_KIND_MEMORY_COPY].begun); /* it could not even be noted */
}

/* Leaves ns in place of ticks. Where the layout of signals is not known, the
 * runtime is asked; elsewhere not: it complains of signals that are just being used
 * again (on the target's standard error, where it was built with assertions). */
static bool judge(struct outcome *o, bool timed)
{
	if (!copy_times_known())
		timed = copy_times(o->signal, &o->start_ticks, &o->end_ticks);
	else if (timed) {
		o->start_ticks = to_ns(&o->entry, o->start_ticks);
		o->end_ticks = to_ns(&o->entry, o->end_ticks);
	}
	return timed && can_be(&o->entry, o->start_ticks, o->end_ticks);
}

static bool is_too_late(struct copy *c, uint64_t now)
{
	if (!c->late_ns)
		c->late_ns = now;
	return now - c->late_ns > LATE_NS;
}

static void give_up(struct copy *c, uint32_t reason)
{
	signal_give_up(c->entry.signal, reason);
	owed++;
}

/* True: it is told, or will be by its outcome. */
static bool settle(struct copy *c, uint64_t now, bool abandon)
{
	struct outcome o;

	if (runtime_is_lost()) {
		give_up(c, RTL_REASON_NOT_COMPLETED);
		return true;
	}
	switch (signal_poll(c->entry.signal, judge, &o)) {
	case SIGNAL_FIRED:
		tell_copy(&c->entry, o.start_ticks, o.end_ticks, c->signal);
		return true;
	case SIGNAL_TAKEN:
		owed++;
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
	return pending_count + (uint64_t)owed - atomic_load(&copy_lane.undelivered);
}

static void count_unread(const struct outcome *o)
{
	if (o->owed)
		return; /* outstanding() counts it */
	COUNT(kind[RTL_KIND_MEMORY_COPY].begun);
	if (o->kind == OUTCOME_NOTED) {
		owed++; /* nobody will say how it ended */
		return;
	}
	COUNT(kind[RTL_KIND_MEMORY_COPY].untimed[o->reason]);
	count_lost(RTL_KIND_MEMORY_COPY, 1);
}

const struct kind copy_kind = {
	.prepare = prepare,
	.start = start_profiling,
	.open = copies_open,
	.close = copies_close,
	.undo = undo_profiling,
	.release = release,
	.poll = poll,
	.outstanding = outstanding,
	.count_unread = count_unread,
};
