#include "core/clocks.h"

#include "core/clock_map.h"
#include "core/session_flags.h"

static struct clock_map map;

/* Tries three times, and keeps the try that took the least time: nothing interrupted it. */
static struct clock_pair read_pair(void)
{
	struct clock_pair best = {0};
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 3; i++) {
		uint64_t before = tsc_now(), ns = now_boottime(), after = tsc_now();

		if (after - before < least) {
			least = after - before;
			best = (struct clock_pair){before + (after - before) / 2, ns};
		}
	}
	return best;
}

void clocks_start(void)
{
	struct clock_pair first = read_pair();

	sys_sleep_ns(2 * NS_PER_MS); /* on a thread of ours */
	clock_map_start(&map, first, read_pair());
}

void clocks_sample(void)
{
	clock_map_add(&map, read_pair());
}

uint64_t stamp_to_ns(uint64_t stamp)
{
	if (!stamp || atomic_load_explicit(&session_flags.stamp_boottime, memory_order_relaxed))
		return stamp;
	return clock_map_ns(&map, stamp);
}
