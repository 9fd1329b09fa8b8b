/* clock_map_test.c: times keep the order of the counter whenever they are asked for, and stay near the clock. */
#include <inttypes.h>
#include <stdbool.h>
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

enum { NOISE_NS = 10, STEPS = 20000, SLEWED = 500, KEPT = 64, CYCLES_PER_MS = 2600000 };

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

static struct clock_map m;
static uint64_t early, worst; /* ns from the clock: before it is slewed, and after */

static struct {
	uint64_t tsc, ns;
} kept[KEPT];
static int asked;

static uint64_t ask(uint64_t at_tsc, double at_ns, bool slewed)
{
	uint64_t t = clock_map_ns(&m, at_tsc), off = away(t, at_ns), *most = slewed ? &worst : &early;

	*most = off > *most ? off : *most;
	kept[asked % KEPT].tsc = at_tsc;
	kept[asked++ % KEPT].ns = t;
	return t;
}

/* In each round the worker reads both clocks, and asks for what was stamped before and meanwhile; rounds are sometimes late. Some stamps are asked
 * for again later: the answers are the same. */
static void order(void)
{
	uint64_t last_ns = 0;
	struct clock_pair first = passes(0);

	clock_map_start(&m, first, passes(2 * CYCLES_PER_MS));
	for (int step = 0; step < STEPS; step++) {
		struct {
			uint64_t tsc;
			double ns;
		} stamps[4];
		bool slewed = step >= SLEWED;

		if (step % 1000 == SLEWED)
			ns_per_tsc = (1 + ((double)upto(40) - 20) * 1e-6) / 2.6;
		for (int i = 0; i < 4; i++) {
			passes(upto(upto(9) == 0 ? 10 * CYCLES_PER_MS : CYCLES_PER_MS));
			stamps[i].tsc = tsc;
			stamps[i].ns = ns;
		}
		clock_map_add(&m, passes(upto(1000)));
		for (int i = 0; i < 4; i++) {
			uint64_t t = ask(stamps[i].tsc, stamps[i].ns, slewed);
			CHECK(t >= last_ns);
			last_ns = t;
		}
		passes(upto(3000));
		uint64_t t = ask(tsc, ns, slewed);
		CHECK(t >= last_ns);
		last_ns = t;
		unsigned i = (unsigned)upto((unsigned)(asked < KEPT ? asked - 1 : KEPT - 1));
		CHECK(clock_map_ns(&m, kept[i].tsc) == kept[i].ns);
	}
	printf("clock map: %u bends, at most %" PRIu64 " ns from the clock before it is slewed, %" PRIu64 " after\n", m.count, early, worst);
	CHECK(m.count > CLOCK_BENDS && early < 10 * NOISE_NS && worst < 1000); /* by 40 ppm in the middle of 10 ms */
}

/* After a suspend the clock has gone on and the counter not, or from 0: later times are right at once. */
static void suspended(void)
{
	struct clock_pair first = passes(0);

	clock_map_start(&m, first, passes(2 * CYCLES_PER_MS));
	ns += 3600e9;
	clock_map_add(&m, passes(26 * CYCLES_PER_MS));
	CHECK(away(clock_map_ns(&m, tsc), ns) < 1000);
	tsc = 1000;
	clock_map_add(&m, passes(26000));
	CHECK(away(clock_map_ns(&m, tsc), ns) < 1000);
	for (int i = 0; i < 100; i++)
		clock_map_add(&m, passes(26 * CYCLES_PER_MS));
	CHECK(away(clock_map_ns(&m, tsc), ns) < 1000);
}

int main(void)
{
	order();
	suspended();
	return 0;
}
