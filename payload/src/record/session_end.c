/* session_end.c: see session_end.h. */
#include "record/session_end.h"

#include "core/session_flags.h"
#include "kinds/kind.h"
#include "record/unavailable.h"
#include "record/emit.h"
#include "record/event.h"
#include "record/lanes.h"
#include "record/ring.h"
#include "record/worker.h"

#define LATE_PERIOD_NS (100 * NS_PER_US)

/* How long the last records wait for a recorder that is late: since it last took something,
 * and in all. */
struct patience {
	uint64_t span, taken, until, last;
};

uint64_t session_end_most_ns(uint32_t why)
{
	if (why == RTL_END_RECORDER_DEAD)
		return 0;
	if (why == RTL_END_EXIT || why == RTL_END_SHUT_DOWN)
		return 100 * NS_PER_MS; /* the application waits for us */
	return WORKER_SESSION_END_MOST_NS;
}

static struct patience last_patience(uint32_t why)
{
	uint64_t now = now_monotonic(), last = session_end_most_ns(why), span = last < NS_PER_S ? last : NS_PER_S;

	return (struct patience){.span = span, .taken = ring_taken_bytes(), .until = now + span, .last = now + last};
}

static bool wait_for_recorder(struct patience *p)
{
	uint64_t now = now_monotonic(), taken = ring_taken_bytes();

	if (taken != p->taken) {
		p->taken = taken;
		p->until = now + p->span;
	}
	if (now >= p->until || now >= p->last || __atomic_load_n(&control->skip_drain, __ATOMIC_RELAXED))
		return false;
	ring_flush();
	sys_sleep_ns(LATE_PERIOD_NS);
	return true;
}

bool session_end_wait(struct patience *p)
{
	bool more = wait_for_recorder(p);

	if (!more)
		COUNT(records_lost);
	return more;
}

/* Counts the events behind that of a thread that sleeps while it pushes. */
static void count_unread(void)
{
	uint32_t generation = atomic_load(&session_flags.generation);
	struct event e;

	for (uint64_t i = events_popped(); i != events_pushed(); i++)
		if (event_look(i, &e) && e.generation == generation && kinds[e.kind]->count_unread)
			kinds[e.kind]->count_unread(&e);
}

/* A kind's sum is below zero if the outcome of an item arrived before the item, which is
 * just being published. */
static uint64_t not_below_zero(uint64_t n)
{
	return (int64_t)n > 0 ? n : 0;
}

void session_end_count(void)
{
	count_unread();
	lanes_count_unpublished();
	for (uint32_t kind = 0; kind < RTL_KINDS_MAX; kind++) {
		uint64_t items = is_recorded(kind) && kinds[kind]->outstanding ? not_below_zero(kinds[kind]->outstanding()) : 0;

		COUNT_N(kind[kind].untimed[RTL_REASON_NOT_COMPLETED], items);
		count_lost(kind, items);
	}
}

void session_end_write(const struct session_end *end)
{
	struct patience p = last_patience(end->why);
	uint32_t counter = 0;

	ring_give_up();
	ring_flush(); /* the count of what was lost, too */
	while (!emit_unavailable() && session_end_wait(&p))
		;
	kinds_write_last(&p);
	for (uint32_t kind = 0; kind < RTL_KINDS_MAX; kind++)
		while (is_recorded(kind) && !emit_account(kind) && session_end_wait(&p))
			;
	while (config.schedule[0] && !emit_counters(&counter) && session_end_wait(&p))
		;
	while (!emit_end(end->why, end->armed_ns, end->detached_ns) && session_end_wait(&p))
		;
	ring_end();
}
