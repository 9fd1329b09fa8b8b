#include "core/clock_map.h"

#include "core/sys.h"

enum {
	FIRST_SPAN_NS = 4 * NS_PER_MS, /* then twice as long each time: what is read errs less over a longer time */
	MOST_SPAN_NS = 100 * NS_PER_MS,
	BASE_BENDS = 4	     /* the speed is that since the bend before so many */
};

static struct clock_bend *bend(struct clock_map *m, uint32_t number)
{
	return &m->bends[number % CLOCK_BENDS];
}

static uint64_t on_line(const struct clock_bend *b, uint64_t tsc)
{
	return b->at.ns + (uint64_t)(int64_t)((double)(int64_t)(tsc - b->at.tsc) * b->ns_per_tsc);
}

static double speed(struct clock_pair from, struct clock_pair to)
{
	return (double)(to.ns - from.ns) / (double)(to.tsc - from.tsc);
}

static void start(struct clock_map *m, struct clock_pair at, double ns_per_tsc)
{
	m->bends[0] = (struct clock_bend){.read = at, .at = at, .ns_per_tsc = ns_per_tsc};
	m->count = 1;
	m->next_ns = FIRST_SPAN_NS;
}

void clock_map_start(struct clock_map *m, struct clock_pair first, struct clock_pair second)
{
	start(m, first, second.tsc > first.tsc ? speed(first, second) : 0);
}

void clock_map_add(struct clock_map *m, struct clock_pair read)
{
	struct clock_bend *last = bend(m, m->count - 1), *base = bend(m, m->count < BASE_BENDS ? 0 : m->count - BASE_BENDS);
	struct clock_pair at = {read.tsc, on_line(last, read.tsc)};
	int64_t off = (int64_t)(read.ns - at.ns), next_ns = (int64_t)(m->next_ns < MOST_SPAN_NS / 2 ? m->next_ns * 2 : MOST_SPAN_NS);

	if (read.tsc > last->at.tsc && read.ns - last->read.ns < m->next_ns)
		return;
	if (read.tsc <= last->at.tsc || off > next_ns / 2 || off < -next_ns / 2) { /* the machine was suspended */
		start(m, read, last->ns_per_tsc);
		return;
	}
	m->next_ns = (uint64_t)next_ns;
	/* With the last factor the line is at what was read by the next bend. */
	*bend(m, m->count) = (struct clock_bend){read, at, speed(base->read, read) * (1 + (double)off / (double)next_ns)};
	m->count++;
}

uint64_t clock_map_ns(const struct clock_map *m, uint64_t tsc)
{
	uint32_t oldest = m->count > CLOCK_BENDS ? m->count - CLOCK_BENDS : 0, n = m->count - 1;

	while (n > oldest && m->bends[n % CLOCK_BENDS].at.tsc > tsc)
		n--;
	return on_line(&m->bends[n % CLOCK_BENDS], tsc);
}
