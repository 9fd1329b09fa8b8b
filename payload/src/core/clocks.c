#include "core/clocks.h"

#include <stdbool.h>

#include "core/clock_map.h"
#include "core/session_flags.h"

enum { TRIES = 64 };

static struct clock_map map;
static uint64_t least; /* cycles that a reading has taken */

/* Reads the counter before and after the clock, until nothing comes in between. false: something always did. */
static bool read_both(struct clock_pair *out)
{
	for (unsigned i = 0; i < TRIES; i++) {
		uint64_t before = tsc_now(), ns = now_boottime(), took = tsc_now() - before;

		*out = (struct clock_pair){before + took / 2, ns};
		if (took < least)
			least = took;
		if (took <= least + least / 4)
			return true;
	}
	least += least / 4 + 1; /* a processor may be slower now */
	return false;
}

static struct clock_pair first_reading(void)
{
	struct clock_pair p;

	least = UINT64_MAX / 2;
	for (unsigned i = 0; i < TRIES; i++) /* finds the least */
		read_both(&p);
	return p;
}

void clocks_start(void)
{
	struct clock_pair first = first_reading(), second;

	sys_sleep_ns(2 * NS_PER_MS); /* on a thread of ours */
	read_both(&second);
	clock_map_start(&map, first, second);
}

void clocks_sample(void)
{
	struct clock_pair now;

	if (read_both(&now))
		clock_map_add(&map, now);
}

uint64_t stamp_to_ns(uint64_t stamp)
{
	if (!stamp || atomic_load_explicit(&session_flags.stamp_boottime, memory_order_relaxed))
		return stamp;
	return clock_map_ns(&map, stamp);
}
