/*
 * clock_map.h: from the time-stamp counter to CLOCK_BOOTTIME, so that what was in order by the one is in order by the
 * other: a counter value has one time, whenever it is asked for. A call and the kernel that it submitted are stamped tens
 * of ns apart, and converted in different rounds of the worker; that is less than what reading both clocks errs by.
 *
 * The map is a line with bends. A new bend goes to what both clocks are now, and leaves as it is what has been converted.
 * No locks.
 */
#ifndef RTL_CLOCK_MAP_H
#define RTL_CLOCK_MAP_H

#include <stdint.h>

/* Both clocks at one moment; tsc in cycles. */
struct clock_pair {
	uint64_t tsc, ns;
};

enum { CLOCK_BENDS = 256 }; /* before the oldest one its line goes on */

struct clock_map {
	struct clock_bend {
		struct clock_pair read, at; /* what was read then; a point on the line, no later */
		double ns_per_tsc;	    /* from that point on */
	} bends[CLOCK_BENDS];
	uint32_t count;	   /* of all so far */
	uint64_t begun_ns;
	uint64_t latest;   /* counter value that was converted */
};

/* first is some ms before second. */
void clock_map_start(struct clock_map *m, struct clock_pair first, struct clock_pair second);

/* The clocks as they are now. Bends the line, if it is time to, or if it is off. */
void clock_map_add(struct clock_map *m, struct clock_pair now);

uint64_t clock_map_ns(struct clock_map *m, uint64_t tsc);

#endif
