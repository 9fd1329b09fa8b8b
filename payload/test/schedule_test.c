/* schedule_test.c: when the windows of a schedule are, with clocks that the test sets. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/sys.h"
#include "session/schedule.h"

static uint64_t now[8]; /* by clockid_t */

uint64_t clock_ns(clockid_t id)
{
	return now[id];
}

#define CHECK(x)                                                       \
	do {                                                           \
		if (!(x)) {                                            \
			printf("%s:%d: %s\n", __FILE__, __LINE__, #x); \
			exit(1);                                       \
		}                                                      \
	} while (0)

static struct schedule s;
static struct schedule_window w;

static void texts(void)
{
	static const char *const bad[] = {
		"", ":", "boottime", "boottime:1:2", "boottime:1:2:", "boottime:1:2:3,", "boottime:1:2:3:4", "sundial:1:2:3", "boottime:-1:2:3",
		"boottime:1:2:3,x:1:2:3", "boottime:99999999999999999999:1:1", ",boottime:1:2:3", "boottime: 1:2:3",
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK(schedule_parse(bad[i], &s) != 0);
	CHECK(schedule_parse("boottime:1:2:3,cputime:4:5:0", &s) == 0);
	CHECK(s.count == 2 && s.rules[0].repeat == 3 && s.rules[1].clock == RTL_CLOCK_CPUTIME && s.rules[1].delay_ns == 4);
	char many[64 * (SCHEDULE_RULES_MAX + 1)] = "realtime:1:1:1";
	for (int i = 1; i < SCHEDULE_RULES_MAX; i++)
		strcat(many, ",realtime:1:1:1");
	CHECK(schedule_parse(many, &s) == 0 && s.count == SCHEDULE_RULES_MAX);
	strcat(many, ",realtime:1:1:1");
	CHECK(schedule_parse(many, &s) != 0);
}

/* Two rules on two clocks: the second begins where the first has ended. */
static void follow(void)
{
	now[CLOCK_BOOTTIME] = 1000;
	now[CLOCK_REALTIME] = 500000;
	CHECK(schedule_parse("boottime:10:20:2,realtime:5:7:0", &s) == 0);
	schedule_begin(&s, 1100);
	CHECK(schedule_window(&s, &w) && w.on == 1110 && w.off == 1130);
	schedule_next(&s);
	CHECK(schedule_window(&s, &w) && w.on == 1140 && w.off == 1160 && s.number == 1);
	schedule_next(&s);
	CHECK(schedule_window(&s, &w) && w.clock == RTL_CLOCK_REALTIME && w.on == 500000 + 160 + 5 && w.off == w.on + 7 && s.number == 2);
	CHECK(schedule_boottime(w.clock, w.on) == 1165);
	CHECK(schedule_boottime(RTL_CLOCK_CPUTIME, 1) == 0 && schedule_boottime(RTL_CLOCK_BOOTTIME, SCHEDULE_NEVER) == 0);
}

static void pass_over(void)
{
	now[CLOCK_BOOTTIME] = 0;
	CHECK(schedule_parse("boottime:10:20:5,boottime:100:1:1", &s) == 0);
	schedule_begin(&s, 0);
	CHECK(schedule_pass_over(&s) == 0);
	now[CLOCK_BOOTTIME] = 29;
	CHECK(schedule_pass_over(&s) == 0); /* within the first */
	now[CLOCK_BOOTTIME] = 75;
	CHECK(schedule_pass_over(&s) == 2 && s.number == 2 && schedule_pass_over(&s) == 0);
	CHECK(schedule_window(&s, &w) && w.on == 70 && w.off == 90);
	now[CLOCK_BOOTTIME] = 10000;
	CHECK(schedule_pass_over(&s) == 3 && s.rule == 1 && s.number == 5);
	CHECK(schedule_pass_over(&s) == 1 && schedule_pass_over(&s) == 0 && !schedule_window(&s, &w));
}

static void without_an_end(void)
{
	now[CLOCK_BOOTTIME] = 0;
	CHECK(schedule_parse("boottime:10:0:1", &s) == 0);
	schedule_begin(&s, 0);
	now[CLOCK_BOOTTIME] = 1ull << 60;
	CHECK(schedule_pass_over(&s) == 0 && schedule_window(&s, &w) && w.on == 10 && w.off == SCHEDULE_NEVER);
	schedule_next(&s);
	CHECK(!schedule_window(&s, &w));
}

int main(void)
{
	texts();
	follow();
	pass_over();
	without_an_end();
	return 0;
}
