/* rounds.c: dispatches in the worker's rounds: outcomes are taken, pending ones are looked
 * at, queues that were destroyed are retired, and what publishers need next is made ready. */
#include "core/session_flags.h"
#include "kinds/dispatch/dispatch.h"
#include "kinds/dispatch/emit.h"
#include "kinds/dispatch/pending.h"
#include "kinds/dispatch/pool.h"
#include "kinds/dispatch/publish.h"
#include "kinds/dispatch/queue_memory.h"
#include "record/launches.h"
#include "record/ring.h"

#define READY_QUEUES 12      /* states held ready for queues yet unknown */
#define REFILL_PER_ROUND 4096 /* about a millisecond */

static uint64_t retired_dispatches, retired_others; /* of queues destroyed in this session */

void dispatch_rounds_reset(void)
{
	retired_dispatches = retired_others = 0;
}

static void take_range(const struct event *e, bool abandon)
{
	struct queue *s = (struct queue *)e->body[RANGE_QUEUE];
	struct entry from = {.index = e->body[RANGE_FROM]};

	if (!s->agent)
		pending_take(s, abandon); /* closed before the first round: its dispatches say which agent it has */
	emit_untimed(s, &from, 0, e->body[RANGE_COUNT], e->reason);
}

void dispatch_take(const struct event *e, bool abandon)
{
	if (UNLIKELY(e->what == DISPATCH_RANGE)) {
		take_range(e, abandon);
		return;
	}
	struct queue *s = lane_place(e->lane);
	const struct entry *entry = (const struct entry *)e->item;
	uint32_t launch = launch_id(&entry->call, &s->agent);
	s->in_transit -= e->in_transit;
	if (e->what == EVENT_UNTIMED)
		emit_untimed(s, entry, launch, 1, e->reason);
	else
		emit_app_dispatch(e, entry, launch);
}

static void note_use(struct queue *s, bool starved)
{
	uint64_t tail = atomic_load(&s->free_tail);

	pool_note_use(tail - s->seen_taken, starved);
	s->seen_taken = tail;
}

static uint64_t first_want(const struct queue *s)
{
	uint64_t want = 2 * pool_share();

	return s->size > want && pool_share() == config.signal_pool ? s->size : want;
}

/*
 * Keeps free signals for what may be published before the next round: at least a whole
 * ring (in windows: twice what the windows so far needed), and twice as many as last time whenever that was too few.
 */
static void keep_signals(struct queue *s)
{
	uint64_t have = atomic_load(&s->free_head) - atomic_load(&s->free_tail);
	uint64_t starved = atomic_load_explicit(&s->starved, memory_order_relaxed);

	if (!(atomic_load(&s->word) & WORD_VIRT))
		return;
	note_use(s, starved != s->seen_starved);
	if (!s->want_signals)
		s->want_signals = first_want(s);
	if (starved != s->seen_starved && s->want_signals < SIGNALS_PER_QUEUE)
		s->want_signals *= 2;
	s->seen_starved = starved;
	if (have < s->want_signals)
		pool_fill(s, s->want_signals - have > REFILL_PER_ROUND ? have + REFILL_PER_ROUND : s->want_signals);
}

/* Published dispatches whose outcome is not recorded. */
static uint64_t unsettled(struct queue *s)
{
	if (!atomic_load_explicit(&s->in_use, memory_order_acquire))
		return 0;
	return s->pending_count + (atomic_load(&s->entry_head) - atomic_load(&s->entry_tail)) + (uint64_t)s->in_transit -
	       atomic_load(&s->handoff_drops);
}

/* Dispatches that found the ring full, and are lost without having been timed. */
static void count_skipped(struct queue *s)
{
	uint64_t n = atomic_load_explicit(&s->skipped_full, memory_order_relaxed);

	ring_lose(RTL_KIND_DISPATCH, n - s->skipped_counted);
	s->skipped_counted = n;
}

static void retire_queue(struct queue *s, uint64_t now)
{
	if (!atomic_load(&s->destroyed))
		return;
	if (!s->dead_since_ns)
		s->dead_since_ns = now;
	count_skipped(s); /* all of them: its producers have ended */
	/* The backlog must be empty, too. A dispatch there whose outcome a wrapper has handed
	 * over already is 0 in the sum, and the next queue would take it as its own. */
	if (unsettled(s) || s->pending_count || atomic_load(&s->entry_head) != atomic_load(&s->entry_tail))
		return;
	/* What its close has pushed may still be among the events. */
	if (!s->settled)
		s->handed_over = events_pushed();
	s->settled = 1;
	if (events_popped() < s->handed_over || !emit_close(s))
		return;
	bool in_session = atomic_load(&s->window_generation) == atomic_load(&session_flags.generation);
	uint64_t dispatches = atomic_load(&s->dispatches), others = atomic_load(&s->others);
	queue_recycle(s);
	if (s->settled || !in_session)
		return; /* not recycled: a thread is still inside */
	retired_dispatches += dispatches;
	retired_others += others;
}

static uint64_t serve(struct queue *s, uint64_t now, bool abandon)
{
	uint64_t n;

	if (!atomic_load_explicit(&s->in_use, memory_order_acquire))
		return 0;
	count_skipped(s);
	pending_take(s, abandon);
	n = pending_settle(s, now, abandon);
	if (atomic_load(&s->word) & WORD_DEAD) {
		retire_queue(s, now);
		return n;
	}
	if (!runtime_is_lost() && queue_kick(s)) {
		TALLY(kicks);
		n++;
	}
	emit_queue(s, false);
	return n;
}

uint64_t dispatch_poll(uint64_t now_ns, bool abandon)
{
	uint64_t ended = 0;

	for (uint32_t i = 0; i < atomic_load(&queue_count); i++)
		ended += serve(queue_all[i], now_ns, abandon);
	return ended;
}

uint64_t dispatch_outstanding(void)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < atomic_load(&queue_count); i++)
		n += unsettled(queue_all[i]);
	return n;
}

/* Signals and memory for what comes next. */
void dispatch_make_ready(void)
{
	for (uint32_t i = 0; i < atomic_load(&queue_count); i++) {
		struct queue *s = queue_all[i];

		if (!atomic_load_explicit(&s->in_use, memory_order_acquire) || atomic_load(&s->word) & WORD_DEAD || s->excluded)
			continue;
		queue_back(s);
		queue_note_ring(s);
		pool_fill(s, pool_share()); /* a state that was taken before the pool was open */
		keep_signals(s);
	}
	queue_make_ready(READY_QUEUES);
}

void dispatch_update_counters(void)
{
	uint64_t dispatches = retired_dispatches, others = retired_others;
	uint32_t generation = atomic_load(&session_flags.generation);

	for (uint32_t i = 0; i < atomic_load(&queue_count); i++) {
		if (atomic_load(&queue_all[i]->window_generation) != generation)
			continue;
		dispatches += atomic_load(&queue_all[i]->dispatches);
		others += atomic_load(&queue_all[i]->others);
	}
	__atomic_store_n(&counters->kind[RTL_KIND_DISPATCH].begun, dispatches, __ATOMIC_RELAXED);
	__atomic_store_n(&counters->kind[RTL_KIND_DISPATCH].timed, counters->timed_pool + counters->timed_app, __ATOMIC_RELAXED);
	__atomic_store_n(&counters->packets, dispatches + others, __ATOMIC_RELAXED);
}
