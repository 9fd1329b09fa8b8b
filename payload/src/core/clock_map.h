/*
 * clock_map.h: from the time-stamp counter to CLOCK_BOOTTIME, so that what was in order by the one is in order by the
 * other: a counter value has one time, whenever it is asked for. A call and the kernel that it submitted are stamped tens
 * of ns apart, and converted in different rounds of the worker; that is less than what reading both clocks errs by.
 *
 * The map is a line with bends. A bend is made at the present and changes nothing that was converted before. No locks.
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
		struct clock_pair read, at; /* as read; on the line */
		double ns_per_tsc;	    /* from here on */
	} bends[CLOCK_BENDS];
	uint32_t count; /* of all so far */
	uint64_t next_ns; /* between the last bend and the next one */
};

/* first is some ms before second. */
void clock_map_start(struct clock_map *m, struct clock_pair first, struct clock_pair second);

/* The clocks were read at present: nothing later was converted. Bends the line, if it is time to. */
void clock_map_add(struct clock_map *m, struct clock_pair read);

uint64_t clock_map_ns(const struct clock_map *m, uint64_t tsc);

#endif
