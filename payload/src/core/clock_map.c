#include "core/clock_map.h"

#include "core/sys.h"

/* Without need the line bends when an eighth of the time so far has passed: its speed is that since some bends ago. */
enum {
	LEAST_SPAN_NS = NS_PER_MS,
	MOST_SPAN_NS = 100 * NS_PER_MS,
	SPANS = 8,
	BASE_BENDS = 8,
	NEAR_NS = 20 /* a reading errs by that */
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
	m->begun_ns = at.ns;
	m->latest = 0;
}

void clock_map_start(struct clock_map *m, struct clock_pair first, struct clock_pair second)
{
	start(m, first, second.tsc > first.tsc ? speed(first, second) : 0);
}

static int is_due(const struct clock_map *m, const struct clock_bend *last, struct clock_pair now)
{
	uint64_t span = (now.ns - m->begun_ns) / SPANS;
	int64_t off = (int64_t)(now.ns - on_line(last, now.tsc));

	span = span < LEAST_SPAN_NS ? LEAST_SPAN_NS : span > MOST_SPAN_NS ? MOST_SPAN_NS : span;
	return off > NEAR_NS || off < -NEAR_NS || now.ns - last->read.ns >= span;
}

void clock_map_add(struct clock_map *m, struct clock_pair now)
{
	struct clock_bend *last = bend(m, m->count - 1), *base = bend(m, m->count < BASE_BENDS ? 0 : m->count - BASE_BENDS);
	uint64_t from = m->latest > last->at.tsc ? m->latest : last->at.tsc;

	if (now.tsc <= from) { /* the machine was suspended, and counts from 0 */
		start(m, now, last->ns_per_tsc);
		return;
	}
	if (!is_due(m, last, now))
		return;
	/* From the last time that was told to the present, or further on if that is near: a short line would be steep. */
	struct clock_pair at = {from, on_line(last, from)};
	double usual = speed(base->read, now), cycles = (double)(now.tsc - from), least = (double)LEAST_SPAN_NS / usual;
	double off = (double)(int64_t)(now.ns - at.ns) - cycles * usual;
	double steep = usual + off / (cycles > least ? cycles : least);

	if (steep < usual / 2 || steep > usual * 2) { /* suspended, while the counter stood still */
		start(m, now, last->ns_per_tsc);
		return;
	}
	*bend(m, m->count) = (struct clock_bend){now, at, steep};
	m->count++;
}

uint64_t clock_map_ns(struct clock_map *m, uint64_t tsc)
{
	uint32_t oldest = m->count > CLOCK_BENDS ? m->count - CLOCK_BENDS : 0, n = m->count - 1;

	if (tsc > m->latest)
		m->latest = tsc;
	while (n > oldest && bend(m, n)->at.tsc > tsc)
		n--;
	return on_line(bend(m, n), tsc);
}
