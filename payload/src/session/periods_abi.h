/*
 * periods_abi.h: recording by a schedule (RTL_SCHEDULE), in the control block and in the ring.
 *
 * A session with a schedule has one ring and any number of windows. Each window is recorded
 * as a session of its own: after its RTL_TYPE_PERIOD record come definitions, records, counters,
 * accounts and an RTL_TYPE_END record, and ids start again. The header's `ended` is set when no
 * further window comes.
 */
#ifndef RTL_PERIODS_ABI_H
#define RTL_PERIODS_ABI_H

#include "abi.h"

/* The clocks of a schedule. CPUTIME: of all threads of the process. */
enum rtl_clock {
	RTL_CLOCK_BOOTTIME = 0,
	RTL_CLOCK_REALTIME = 1,
	RTL_CLOCK_MONOTONIC = 2,
	RTL_CLOCK_CPUTIME = 3,
	RTL_CLOCKS = 4,
};

#define RTL_SCHEDULE_OFFSET 2048 /* in the control memfd */
struct rtl_schedule {
	uint64_t start_ns; /* tool, before RTL_COMMAND_START: when the schedule begins; may be to come */
	uint64_t periods;  /* payload: windows recorded so far */
	uint64_t missed;   /* payload: windows that could not be recorded */
	uint64_t next_ns;  /* payload: of the next window, while off; 0: not known */
};

enum rtl_period_what {
	RTL_PERIOD_BEGIN = 1,  /* a window is recorded: its records follow */
	RTL_PERIOD_MISSED = 2, /* `count` windows that were not recorded, for the reason `error` */
	RTL_PERIOD_LAST = 3,   /* no further window comes; end says why */
};

struct rtl_period {
	struct rtl_header header;
	uint16_t what;        /* enum rtl_period_what */
	uint16_t clock;       /* enum rtl_clock */
	uint32_t generation;  /* of its session */
	int32_t error;        /* MISSED: -errno of the last attempt; 0: it was over before one */
	uint32_t end;         /* LAST: enum rtl_end */
	uint64_t number;      /* of the window in its schedule, from 0; MISSED: of the first one */
	uint64_t planned_ns;  /* when it should have begun; 0: not known before (CPUTIME) */
	uint64_t planned_end_ns; /* 0: not known, or none */
	uint64_t armed_ns;    /* BEGIN: from when on it was recorded */
	uint64_t count;       /* MISSED */
};

/* Some counters of a window (struct rtl_counters), when it ends; all others are 0. */
#define RTL_COUNTERS_OF_RECORD 6
struct rtl_counters_record {
	struct rtl_header header;
	uint32_t first; /* index of values[0] in the structure, in words */
	uint32_t count;
	uint64_t values[RTL_COUNTERS_OF_RECORD];
};

#ifndef __cplusplus
_Static_assert(sizeof(struct rtl_control) <= RTL_SCHEDULE_OFFSET, "before the schedule");
_Static_assert(RTL_SCHEDULE_OFFSET + sizeof(struct rtl_schedule) <= RTL_PAGE, "in the first page");
#endif
RTL_ONE_LINE(struct rtl_period);
RTL_ONE_LINE(struct rtl_counters_record);

#endif
