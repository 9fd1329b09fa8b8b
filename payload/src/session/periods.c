/* periods.c: see periods.h. */
#define _GNU_SOURCE
#include "session/periods.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/session_flags.h"
#include "record/emit.h"
#include "record/event.h"
#include "record/lanes.h"
#include "record/ring.h"
#include "session/control_block.h"
#include "session/schedule.h"
#include "session/session.h"

#define RETRY_NS (100 * NS_PER_MS)     /* after a window that could not begin, or end */
#define LOOK_NS NS_PER_S               /* CLOCK_REALTIME may be set */
#define CPU_LOOK_LEAST_NS (200 * NS_PER_US)
#define CPU_LOOK_MOST_NS (10 * NS_PER_MS)
#define LEAD_LEAST_NS (2 * NS_PER_MS)
#define LEAD_MOST_NS (250 * NS_PER_MS)
#define AWAIT_LOOK_NS NS_PER_MS

/*
 * With the session's lock. on is also read without it: by the control thread, and below grace_wait().
 * The schedule itself is the control thread's, while on and begun are set.
 */
static uint32_t on, begun;
static struct schedule schedule;
static struct rtl_period record; /* of the window that is being armed */

static uint64_t lead_ns;    /* how long before a window its arming begins */

/* The control thread. */
static uint64_t retry_at;   /* monotonic */
static int last_error;      /* of the last attempt to begin this window */
static bool was_recorded;   /* this window, at least in part */
static bool disabled, by_command; /* no window; the next window begins by command, not at its time */
static uint64_t cpu_seen, cpu_look_ns;

static struct rtl_schedule *block(void)
{
	return (struct rtl_schedule *)((char *)control + RTL_SCHEDULE_OFFSET);
}

static void show(uint64_t *field, uint64_t value)
{
	__atomic_store_n(field, value, __ATOMIC_RELAXED);
}

bool periods_are_on(void)
{
	return __atomic_load_n(&on, __ATOMIC_RELAXED);
}

int periods_prepare(void)
{
	__atomic_store_n(&on, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&begun, 0, __ATOMIC_RELAXED);
	memset(block(), 0, sizeof *block());
	lead_ns = 0;
	if (config.schedule[0] && schedule_parse(config.schedule, &schedule))
		return control_fail(-EINVAL, "not a schedule: %s", config.schedule);
	return 0;
}

int periods_open_ring(void)
{
	if (!ring_is_open()) {
		int r = ring_open(&config, atomic_load(&session_flags.generation));

		if (r)
			return r;
	}
	ring_keep(false);
	if (!config.schedule[0])
		return 0;
	record.header = (struct rtl_header){.type = RTL_TYPE_PERIOD, .lines = 1};
	record.what = RTL_PERIOD_BEGIN;
	record.generation = atomic_load(&session_flags.generation);
	return ring_hold(&record.header) ? 0 : -ENOBUFS;
}

void periods_opened(void)
{
	if (!config.schedule[0])
		return;
	record.armed_ns = control->armed_ns;
	ring_release(&record.header);
	show(&block()->periods, block()->periods + 1);
}

bool periods_continue(enum rtl_end why)
{
	return periods_are_on() && (why == RTL_END_PERIOD || why == RTL_END_SHUT_DOWN || why == RTL_END_ARM_FAILED);
}

/* What is large stays between two windows: the ring with its records, and memory that the next arming would have to
 * touch again. */
static void keep_memory(bool keep)
{
	ring_keep(keep);
	events_keep(keep);
	lanes_keep(keep);
}

void periods_closing(enum rtl_end why)
{
	keep_memory(periods_continue(why));
}

static void give_up(void)
{
	__atomic_store_n(&on, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&begun, 0, __ATOMIC_RELAXED);
}

void periods_give_up(void)
{
	give_up();
}

void periods_close_ring(enum rtl_end why)
{
	if (periods_continue(why)) {
		ring_undo();
		return;
	}
	give_up();
	ring_keep(false);
	if (ring_is_open())
		ring_end();
	ring_close();
}

void periods_tried(void)
{
	__atomic_store_n(&on, 1, __ATOMIC_RELAXED);
}

void periods_end(enum rtl_end why)
{
	struct rtl_period last = {
		.header = {.type = RTL_TYPE_PERIOD, .lines = 1},
		.what = RTL_PERIOD_LAST,
		.generation = atomic_load(&session_flags.generation),
		.end = why,
	};

	ring_put_definition(&last.header);
	session_note_end(why);
	keep_memory(false);
	events_give_back();
	lanes_give_back();
	periods_close_ring(why);
	session_describe_ring();
	control_set_state(RTL_STATE_DORMANT);
}

/* --- the control thread ------------------------------------------------------ */

int periods_start(void)
{
	if (!periods_are_on())
		return control_fail(-EINVAL, "no session with a schedule is active");
	schedule_begin(&schedule, __atomic_load_n(&block()->start_ns, __ATOMIC_RELAXED));
	retry_at = 0;
	last_error = 0;
	was_recorded = disabled = by_command = false;
	__atomic_store_n(&begun, 1, __ATOMIC_RELAXED);
	return 0;
}

/* A window without an end that was switched off is over: the next one has another number. */
int periods_switch(bool enable)
{
	struct schedule_window w;

	if (!periods_are_on() || !__atomic_load_n(&begun, __ATOMIC_RELAXED))
		return control_fail(-EINVAL, "no session with a schedule is active");
	if (disabled == !enable)
		return 0;
	disabled = !enable;
	by_command = enable;
	retry_at = 0;
	if (enable && was_recorded && schedule_window(&schedule, &w) && w.off == SCHEDULE_NEVER) {
		schedule.number++;
		was_recorded = false;
	}
	return 0;
}

/* How long to sleep until a clock shows a time that is left_ns away. */
static uint64_t look_after(uint32_t clock, uint64_t left_ns)
{
	uint64_t now;

	if (clock == RTL_CLOCK_REALTIME)
		return left_ns < LOOK_NS ? left_ns : LOOK_NS;
	if (clock != RTL_CLOCK_CPUTIME)
		return left_ns;
	/* The fastest that it can pass is on all processors. While it does not pass, the looks become rare. */
	now = schedule_now(clock);
	cpu_look_ns = now - cpu_seen > CPU_LOOK_LEAST_NS / 2 ? CPU_LOOK_LEAST_NS : 2 * cpu_look_ns;
	cpu_seen = now;
	if (cpu_look_ns < CPU_LOOK_LEAST_NS)
		cpu_look_ns = CPU_LOOK_LEAST_NS;
	if (cpu_look_ns > CPU_LOOK_MOST_NS)
		cpu_look_ns = CPU_LOOK_MOST_NS;
	left_ns /= (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
	return left_ns > cpu_look_ns ? left_ns : cpu_look_ns;
}

bool periods_await_begin(void)
{
	struct schedule_window w;

	if (!periods_are_on() || !schedule_window(&schedule, &w))
		return true;
	for (;;) {
		uint64_t now = schedule_now(w.clock), sleep;

		if (__atomic_load_n(&session_cancelled, __ATOMIC_RELAXED))
			return false;
		if (now >= w.on)
			return true;
		if (w.on - now > 2 * LEAD_MOST_NS)
			return false; /* the clock was set back */
		sleep = look_after(w.clock, w.on - now);
		sys_sleep_ns(sleep < AWAIT_LOOK_NS ? sleep : AWAIT_LOOK_NS);
	}
}

/* The longest of late: each one that is shorter counts a little. */
void periods_note_arming(uint64_t took_ns)
{
	uint64_t lead = 3 * took_ns / 2 + LEAD_LEAST_NS / 2;

	lead_ns = lead > lead_ns ? lead : lead_ns - (lead_ns - lead) / 8;
	if (lead_ns > LEAD_MOST_NS)
		lead_ns = LEAD_MOST_NS;
}

static void note_missed(const struct schedule *first, uint64_t count)
{
	struct schedule_window w;
	struct rtl_period r = {
		.header = {.type = RTL_TYPE_PERIOD, .lines = 1},
		.what = RTL_PERIOD_MISSED,
		.generation = atomic_load(&session_flags.generation),
		.error = disabled ? -ECANCELED : last_error,
		.number = first->number,
		.count = count,
	};

	if (!schedule_window(first, &w) || session_enter())
		return;
	if (control_state() == RTL_STATE_OFF) {
		r.clock = (uint16_t)w.clock;
		r.planned_ns = schedule_boottime(w.clock, w.on);
		r.planned_end_ns = schedule_boottime(w.clock, w.off);
		ring_put_definition(&r.header);
		ring_flush();
		show(&block()->missed, block()->missed + count);
	}
	session_leave();
}

static void pass_over(void)
{
	for (;;) {
		struct schedule first = schedule;
		uint64_t over = schedule_pass_over(&schedule);

		if (!over)
			return;
		if (was_recorded) {
			schedule_next(&first);
			over--;
		}
		if (over)
			note_missed(&first, over);
		was_recorded = false;
		last_error = 0;
		retry_at = 0;
	}
}

static void begin_window(const struct schedule_window *w)
{
	uint64_t from = now_monotonic(), took;

	record = (struct rtl_period){
		.number = schedule.number,
		.clock = (uint16_t)w->clock,
		.planned_ns = by_command ? 0 : schedule_boottime(w->clock, w->on),
		.planned_end_ns = schedule_boottime(w->clock, w->off),
	};
	took = from;
	last_error = session_begin_window(&took);
	if (last_error) {
		retry_at = now_monotonic() + RETRY_NS;
		return;
	}
	was_recorded = true;
	by_command = false;
	periods_note_arming(took - from);
}

/* A process that gets no CPU would be armed for long. */
static uint64_t lead_of(uint32_t clock)
{
	if (clock == RTL_CLOCK_CPUTIME)
		return 0;
	return lead_ns > LEAD_LEAST_NS ? lead_ns : LEAD_LEAST_NS;
}

static uint64_t off_turn(void)
{
	struct schedule_window w;

	pass_over();
	if (!schedule_window(&schedule, &w)) {
		session_disarm(RTL_END_SCHEDULE);
		return 0;
	}
	uint64_t now = schedule_now(w.clock), mono = now_monotonic(), lead = lead_of(w.clock);
	show(&block()->next_ns, disabled ? 0 : schedule_boottime(w.clock, w.on));
	if (disabled)
		return w.off == SCHEDULE_NEVER ? UINT64_MAX : look_after(w.clock, w.off > now ? w.off - now : 0);
	if (now + lead < w.on)
		return look_after(w.clock, w.on - lead - now);
	if (mono < retry_at)
		return retry_at - mono;
	begin_window(&w);
	return 0;
}

static uint64_t active_turn(void)
{
	struct schedule_window w;

	if (!schedule_window(&schedule, &w) || (w.off == SCHEDULE_NEVER && !disabled))
		return UINT64_MAX;
	uint64_t now = schedule_now(w.clock), mono = now_monotonic();
	if (now < w.off && !disabled)
		return look_after(w.clock, w.off - now);
	if (mono < retry_at)
		return retry_at - mono;
	if (session_end_window())
		retry_at = mono + RETRY_NS; /* a thread stays inside a doorbell: the window goes on */
	return 0;
}

uint64_t periods_turn(void)
{
	if (!__atomic_load_n(&begun, __ATOMIC_RELAXED))
		return UINT64_MAX;
	switch (control_state()) {
	case RTL_STATE_OFF:
		return off_turn();
	case RTL_STATE_ACTIVE:
		return active_turn();
	default:
		return RETRY_NS; /* another thread ends the session */
	}
}
