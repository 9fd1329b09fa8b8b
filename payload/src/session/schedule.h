/*
 * schedule.h: when the windows of a schedule are. No state but the caller's, and no wait.
 *
 * A schedule is a list of rules CLOCK:DELAY:ON:REPEAT, which follow each other: a rule begins where
 * the rule before has ended, waits for DELAY, records for ON, and does both REPEAT times. DELAY and
 * ON are ns of its clock. ON 0: until the end; REPEAT 0: forever.
 */
#ifndef RTL_SCHEDULE_H
#define RTL_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "abi.h"

#define SCHEDULE_RULES_MAX 16
#define SCHEDULE_NEVER UINT64_MAX

struct schedule_rule {
	uint32_t clock; /* enum rtl_clock */
	uint64_t delay_ns, on_ns, repeat;
};

struct schedule {
	struct schedule_rule rules[SCHEDULE_RULES_MAX];
	uint32_t count, rule; /* rule == count: all windows are over */
	uint64_t round;       /* of the rule */
	uint64_t base;        /* when the rule began, on its clock */
	uint64_t number;      /* of the window, from 0 */
};

/* A window, on the clock of its rule. */
struct schedule_window {
	uint32_t clock;
	uint64_t on, off; /* off: SCHEDULE_NEVER: none */
};

/* text: "boottime:0:1000000:5,cputime:…". 0 or -EINVAL. */
int schedule_parse(const char *text, struct schedule *s);
/* start_ns: CLOCK_BOOTTIME. */
void schedule_begin(struct schedule *s, uint64_t start_ns);
/* The present window. False: all are over. */
bool schedule_window(const struct schedule *s, struct schedule_window *w);
/* Goes on to the next window. */
void schedule_next(struct schedule *s);
/* Goes on to the first window that is not over. Returns how many it passed over; all of them are
 * of one rule: call it until it returns 0. */
uint64_t schedule_pass_over(struct schedule *s);

uint64_t schedule_now(uint32_t clock);
/* A time of a clock as CLOCK_BOOTTIME; 0: not known. */
uint64_t schedule_boottime(uint32_t clock, uint64_t time_ns);

#endif
