/* pending.c: from a published dispatch to its outcome. */
#include "kinds/dispatch/pending.h"

#include <string.h>

#include "core/session_flags.h"
#include "kinds/dispatch/emit.h"
#include "kinds/dispatch/pool.h"
#include "record/launches.h"
#include "signals/signals.h"

#define LOOK_AHEAD 8         /* signals fetched before they are looked at */
#define UNFIRED_IN_A_ROW 128 /* then the rest of this queue can wait a round */
#define TIMES_LATE_NS (20 * NS_PER_MS)  /* value decremented, times not written: give up after */
#define DESTROYED_NS (50 * NS_PER_MS)   /* a destroyed queue's dispatches: give up after */

static const amd_signal_t *pooled(const struct entry *e)
{
	return (const amd_signal_t *)e->signal;
}

enum look { LOOK_DONE, LOOK_WAIT, LOOK_LATE };

/* Reports the dispatch if its pooled signal has fired. */
static enum look look_pooled(struct queue *s, struct entry *e)
{
	const amd_signal_t *hw = pooled(e);

	/* acquire: the times were written before, on hardware that keeps order */
	if (__atomic_load_n(&hw->value, __ATOMIC_ACQUIRE) >= POOL_ARMED)
		return LOOK_WAIT;
	uint64_t start = __atomic_load_n(&hw->start_ts, __ATOMIC_RELAXED);
	uint64_t end = __atomic_load_n(&hw->end_ts, __ATOMIC_ACQUIRE);
	if (UNLIKELY(!start || !end))
		return LOOK_LATE;
	emit_dispatch(s, e, (uint32_t)e->launch, start, end, 0);
	pool_put_back(s, e->signal);
	return LOOK_DONE;
}

static bool judge(struct event *e, bool timed)
{
	return timed && is_plausible(e);
}

static enum look look_app(struct queue *s, struct entry *e)
{
	struct event seen; /* with the item as it was published: e has the launch id in place of its kernel */

	switch (signal_poll(e->signal, judge, &seen)) {
	case SIGNAL_WAITING:
		return LOOK_WAIT;
	case SIGNAL_LATE:
		return LOOK_LATE;
	case SIGNAL_FIRED:
		emit_app_dispatch(&seen, e, (uint32_t)e->launch);
		return LOOK_DONE;
	default:
		s->in_transit++;
		return LOOK_DONE;
	}
}

static enum look look(struct queue *s, struct entry *e)
{
	return e->call.flags & ENTRY_APP_SIGNAL ? look_app(s, e) : look_pooled(s, e);
}

/* Ends a pending dispatch that will have no times. */
static void give_up(struct queue *s, struct entry *e, uint32_t reason)
{
	if (e->call.flags & ENTRY_APP_SIGNAL) {
		signal_give_up(e->signal, reason);
		s->in_transit++;
		return;
	}
	emit_untimed(s, e, (uint32_t)e->launch, 1, reason);
	if (reason == RTL_REASON_NO_TIMES)
		pool_defer_reuse(e->signal); /* the hardware may still write the times, unless the application has turned profiling off */
	else
		pool_quarantine(); /* the hardware may still write it, also after one user of a shared queue has destroyed it */
}

/* Why the pending dispatches of this queue end without times now; 0: they do not. */
static uint32_t impatience(struct queue *s, uint64_t now, bool abandon)
{
	if (abandon || runtime_is_lost())
		return RTL_REASON_NOT_COMPLETED;
	if (s->dead_since_ns && now - s->dead_since_ns > DESTROYED_NS)
		return RTL_REASON_QUEUE_DESTROYED;
	return RTL_REASON_NONE;
}

/* A signal that fired without times has one to two periods to get them. */
static bool is_too_late(struct entry *e, uint64_t now)
{
	uint16_t period = (uint16_t)(now / TIMES_LATE_NS & 3);

	if (!(e->call.flags & ENTRY_LATE)) {
		e->call.flags |= (uint16_t)(ENTRY_LATE | period << ENTRY_LATE_SHIFT);
		return false;
	}
	return (uint16_t)((period - (e->call.flags >> ENTRY_LATE_SHIFT)) & 3) >= 2;
}

/* True: the dispatch has its outcome. */
static bool settle(struct queue *s, struct entry *e, uint32_t impatient, uint64_t now)
{
	enum look r = runtime_is_lost() ? LOOK_WAIT : look(s, e);

	if (r == LOOK_DONE)
		return true;
	if (r == LOOK_LATE && is_too_late(e, now))
		give_up(s, e, RTL_REASON_NO_TIMES);
	else if (impatient)
		give_up(s, e, impatient);
	else
		return false;
	return true;
}

uint64_t pending_settle(struct queue *s, uint64_t now, bool abandon)
{
	uint32_t impatient = impatience(s, now, abandon);
	uint64_t kept = 0, i = 0, unfired = 0;

	for (; i < s->pending_count && (unfired < UNFIRED_IN_A_ROW || impatient); i++) {
		struct entry *e = &s->pending[i];

		if (i + LOOK_AHEAD < s->pending_count && !(s->pending[i + LOOK_AHEAD].call.flags & ENTRY_APP_SIGNAL))
			__builtin_prefetch(pooled(&s->pending[i + LOOK_AHEAD]));
		if (settle(s, e, impatient, now)) {
			unfired = 0;
			continue;
		}
		unfired++;
		if (kept != i)
			s->pending[kept] = *e;
		kept++;
	}
	if (kept != i)
		memmove(&s->pending[kept], &s->pending[i], (s->pending_count - i) * sizeof *s->pending);
	s->pending_count -= i - kept;
	return i - kept;
}

void pending_take(struct queue *s, bool abandon)
{
	uint64_t tail = atomic_load_explicit(&s->entry_tail, memory_order_relaxed);
	/* acquire: pairs with instrument() in publish.c */
	uint64_t head = atomic_load_explicit(&s->entry_head, memory_order_acquire);

	for (; tail != head && s->pending_count < PENDING_MAX; tail++) {
		struct entry *e = &s->pending[s->pending_count];

		*e = s->entries[tail & (BACKLOG - 1)];
		uint32_t launch = launch_id(&e->call, &s->agent);
		if (UNLIKELY(!launch && !abandon))
			break; /* no room for its definition: it stays in the backlog */
		e->launch = launch;
		s->pending_count++;
	}
	atomic_store_explicit(&s->entry_tail, tail, memory_order_release); /* pairs with instrument() in publish.c */
}
