/* schedule.c: see schedule.h. */
#include "session/schedule.h"

#include <errno.h>
#include <string.h>

#include "core/sys.h"

#define NUMBER_MOST (1ull << 55) /* ns, a year; sums and products of what has passed do not overflow */

static const struct {
	const char *name;
	clockid_t id;
} clocks[RTL_CLOCKS] = {
	[RTL_CLOCK_BOOTTIME] = {"boottime", CLOCK_BOOTTIME},
	[RTL_CLOCK_REALTIME] = {"realtime", CLOCK_REALTIME},
	[RTL_CLOCK_MONOTONIC] = {"monotonic", CLOCK_MONOTONIC},
	[RTL_CLOCK_CPUTIME] = {"cputime", CLOCK_PROCESS_CPUTIME_ID},
};

uint64_t schedule_now(uint32_t clock)
{
	return clock_ns(clocks[clock].id);
}

uint64_t schedule_boottime(uint32_t clock, uint64_t time_ns)
{
	if (clock == RTL_CLOCK_CPUTIME || time_ns == SCHEDULE_NEVER)
		return 0;
	if (clock == RTL_CLOCK_BOOTTIME)
		return time_ns;
	return now_boottime() + (time_ns - schedule_now(clock)); /* modulo 2^64: either may be the later one */
}

/* The CPU time at a moment that is not now is not known: the rule begins now. */
static uint64_t on_clock(uint32_t clock, uint64_t boottime)
{
	uint64_t now = schedule_now(clock);

	if (clock == RTL_CLOCK_BOOTTIME)
		return boottime;
	return clock == RTL_CLOCK_CPUTIME ? now : now + (boottime - now_boottime());
}

static const char *parse_number(const char *at, char end, uint64_t *out)
{
	uint64_t n = 0;

	if (*at < '0' || *at > '9')
		return NULL;
	for (; *at >= '0' && *at <= '9'; at++)
		if ((n = n * 10 + (uint64_t)(*at - '0')) > NUMBER_MOST)
			return NULL;
	*out = n;
	return *at == end ? at + 1 : NULL;
}

static const char *parse_clock(const char *at, uint32_t *clock)
{
	for (*clock = 0; *clock < RTL_CLOCKS; ++*clock) {
		size_t len = strlen(clocks[*clock].name);

		if (strncmp(at, clocks[*clock].name, len) == 0 && at[len] == ':')
			return at + len + 1;
	}
	return NULL;
}

static const char *parse_rule(const char *at, struct schedule_rule *r)
{
	const char *repeat;

	if (!(at = parse_clock(at, &r->clock)) || !(at = parse_number(at, ':', &r->delay_ns)) || !(repeat = parse_number(at, ':', &r->on_ns)))
		return NULL;
	at = strchr(repeat, ',');
	return parse_number(repeat, at ? ',' : 0, &r->repeat);
}

int schedule_parse(const char *text, struct schedule *s)
{
	const char *at = text, *end = text + strlen(text) + 1;

	*s = (struct schedule){0};
	while (at && at < end && s->count < SCHEDULE_RULES_MAX)
		at = parse_rule(at, &s->rules[s->count++]);
	return at == end ? 0 : -EINVAL;
}

void schedule_begin(struct schedule *s, uint64_t start_ns)
{
	s->rule = 0;
	s->round = s->number = 0;
	s->base = on_clock(s->rules[0].clock, start_ns);
}

bool schedule_window(const struct schedule *s, struct schedule_window *w)
{
	const struct schedule_rule *r = &s->rules[s->rule];

	if (s->rule >= s->count)
		return false;
	w->clock = r->clock;
	w->on = s->base + s->round * (r->delay_ns + r->on_ns) + r->delay_ns;
	w->off = r->on_ns ? w->on + r->on_ns : SCHEDULE_NEVER;
	return true;
}

static void advance(struct schedule *s, uint64_t rounds)
{
	const struct schedule_rule *r = &s->rules[s->rule];

	s->number += rounds;
	s->round += rounds;
	if (!r->on_ns) {
		s->rule = s->count; /* it has no end */
	} else if (r->repeat && s->round >= r->repeat) {
		uint64_t end = s->base + r->repeat * (r->delay_ns + r->on_ns), boottime = schedule_boottime(r->clock, end);

		s->rule++;
		s->round = 0;
		if (s->rule < s->count)
			s->base = on_clock(s->rules[s->rule].clock, boottime ? boottime : now_boottime());
	}
}

void schedule_next(struct schedule *s)
{
	advance(s, 1);
}

uint64_t schedule_pass_over(struct schedule *s)
{
	const struct schedule_rule *r = &s->rules[s->rule];
	uint64_t now, over;

	if (s->rule >= s->count || !r->on_ns)
		return 0;
	now = schedule_now(r->clock);
	over = now > s->base ? (now - s->base) / (r->delay_ns + r->on_ns) : 0; /* windows of the rule that have ended */
	if (r->repeat && over > r->repeat)
		over = r->repeat;
	if (over <= s->round)
		return 0;
	over -= s->round;
	advance(s, over);
	return over;
}
