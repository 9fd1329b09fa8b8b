/* clock_map_test.c: times keep the order of the counter whenever they are asked for, and stay near the clock. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/clock_map.h"
#include "core/sys.h"

#define CHECK(x)                                                       \
	do {                                                           \
		if (!(x)) {                                            \
			printf("%s:%d: %s\n", __FILE__, __LINE__, #x); \
			exit(1);                                       \
		}                                                      \
	} while (0)

enum { NOISE_NS = 60, STEPS = 20000, KEPT = 512 };

static uint64_t state = 88172645463325252ull;

static uint64_t upto(uint64_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % (n + 1);
}

/* A counter of 2.6 GHz, and a clock that somebody slews. */
static uint64_t tsc = 123456789012345;
static double ns = 987654321098765.0, ns_per_tsc = 1 / 2.6;

static struct clock_pair passes(uint64_t cycles)
{
	tsc += cycles;
	ns += (double)cycles * ns_per_tsc;
	return (struct clock_pair){tsc, (uint64_t)ns + upto(2 * NOISE_NS) - NOISE_NS};
}

static uint64_t away(uint64_t a, double b)
{
	return (uint64_t)((double)a > b ? (double)a - b : b - (double)a);
}

/* Counter values are asked for at once and again in later rounds: the answers are the same. */
static void order(void)
{
	static struct {
		uint64_t tsc, ns;
	} kept[KEPT];
	static struct clock_map m;
	uint64_t before = 0, worst = 0, last_ns = 0;
	int n = 0;
	struct clock_pair first = passes(0);

	clock_map_start(&m, first, passes(2 * 2600000));
	for (int step = 0; step < STEPS; step++) {
		if (step % 1000 == 500)
			ns_per_tsc = (1 + ((double)upto(40) - 20) * 1e-6) / 2.6;
		clock_map_add(&m, passes(upto(26 * 2600000ull)));
		uint64_t round = tsc;
		for (int i = 0; i < 4; i++) {
			passes(upto(300));
			uint64_t t = clock_map_ns(&m, tsc);
			CHECK(t >= last_ns);
			last_ns = t;
			kept[n % KEPT].tsc = tsc;
			kept[n++ % KEPT].ns = t;
			if (step > 200) {
				uint64_t off = away(t, ns);
				worst = off > worst ? off : worst;
			}
		}
		if (n >= KEPT) {
			unsigned i = (unsigned)upto(KEPT - 1);
			CHECK(clock_map_ns(&m, kept[i].tsc) == kept[i].ns);
		}
		CHECK(round > before);
		before = round;
	}
	printf("clock map: %u bends, at most %" PRIu64 " ns from the clock\n", m.count, worst);
	CHECK(m.count > CLOCK_BENDS && worst < 20000) /* 40 ppm for the length of some bends */;
}

/* After a suspend the clock has gone on and the counter not, or from 0: later times are right at once. */
static void suspended(void)
{
	struct clock_map m;
	struct clock_pair first = passes(0);

	clock_map_start(&m, first, passes(2 * 2600000));
	ns += 3600e9;
	clock_map_add(&m, passes(26 * 2600000));
	CHECK(away(clock_map_ns(&m, tsc), ns) < 1000);
	tsc = 1000;
	clock_map_add(&m, passes(26000));
	CHECK(away(clock_map_ns(&m, tsc), ns) < 1000);
	for (int i = 0; i < 100; i++)
		clock_map_add(&m, passes(26 * 2600000));
	CHECK(away(clock_map_ns(&m, tsc), ns) < 1000);
}

int main(void)
{
	order();
	suspended();
	return 0;
}
