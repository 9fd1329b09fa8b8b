#include "core/clocks.h"

#include "core/session_flags.h"

struct pair {
	uint64_t tsc, ns;
};

static struct pair first, last;
static double ns_per_tsc;

/* Tries three times, and keeps the try that took the least time: nothing interrupted it. */
static struct pair read_pair(void)
{
	struct pair best = {0};
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 3; i++) {
		uint64_t before = tsc_now(), ns = now_boottime(), after = tsc_now();

		if (after - before < least) {
			least = after - before;
			best = (struct pair){before + (after - before) / 2, ns};
		}
	}
	return best;
}

void clocks_start(void)
{
	first = read_pair();
	sys_sleep_ns(2 * NS_PER_MS); /* on a thread of ours; the base line grows during the session */
	clocks_sample();
}

void clocks_sample(void)
{
	last = read_pair();
	if (last.tsc > first.tsc)
		ns_per_tsc = (double)(last.ns - first.ns) / (double)(last.tsc - first.tsc);
}

uint64_t stamp_to_ns(uint64_t stamp)
{
	if (!stamp || atomic_load_explicit(&session_flags.stamp_boottime, memory_order_relaxed))
		return stamp;
	return last.ns + (uint64_t)(int64_t)((double)(int64_t)(stamp - last.tsc) * ns_per_tsc);
}
