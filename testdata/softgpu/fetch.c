/*
 * When the packet processor looks at the write index, and which packets it
 * takes. By default a doorbell is a hint to read the index again; the modes of
 * SOFTGPU_MODE play the GPUs that the documentation does not exclude.
 */
#include "engine.h"

/* The doorbell's value does not matter. Resetting it makes two equal rings two rings. */
static const uint64_t doorbell_quiet = ~0ull;

/* Producers may claim beyond the ring's end before they wait for room; none of ours claims more than this. */
enum { MAX_OVERCLAIM = 4096 };

static uint64_t slots(const struct queue *q)
{
	return q->ring_bytes / sizeof(union packet);
}

static union packet *slot(const struct queue *q, uint64_t packet)
{
	return (union packet *)q->ring + packet % slots(q);
}

void fetch_reset(struct queue *q)
{
	q->read = q->limit = q->fetched = *q->read_ptr;
	*q->doorbell = doorbell_quiet;
}

static bool doorbell_rung(struct queue *q)
{
	if (__atomic_load_n(q->doorbell, __ATOMIC_RELAXED) == doorbell_quiet)
		return false;
	__atomic_exchange_n(q->doorbell, doorbell_quiet, __ATOMIC_SEQ_CST);
	return true;
}

static void check_index(struct queue *q, uint64_t index)
{
	uint64_t end = q->read + slots(q);

	if (index < q->limit)
		truth_violation(q, TRUTH_INDEX_BACKWARD, index, q->limit);
	if (index > end + MAX_OVERCLAIM) {
		truth_violation(q, TRUTH_INDEX_WILD, index, q->read);
	} else if (index > end && !q->overclaim_noted) {
		q->overclaim_noted = true;
		truth_violation(q, TRUTH_OVERCLAIM, index, q->read);
	}
}

/* When the index is next to be read: 0 while nothing asks for it. */
static void schedule_look(struct gpu *g, struct queue *q, uint64_t now)
{
	bool rung = doorbell_rung(q);
	uint64_t when = now;

	if (!rung && !config.eager)
		return;
	if (config.late && !config.eager)
		when += engine_random(g, (uint32_t)config.late_ns);
	if (config.stale_index && when < q->looked_at_ns + config.stale_ns)
		when = q->looked_at_ns + config.stale_ns;
	if (!q->look_at_ns)
		q->look_at_ns = when;
}

bool fetch_look(struct gpu *g, struct queue *q, struct round *r)
{
	uint64_t index;

	schedule_look(g, q, r->now_ns);
	if (!q->look_at_ns)
		return false;
	if (q->look_at_ns > r->now_ns) {
		round_due(r, q->look_at_ns);
		return false;
	}
	q->look_at_ns = 0;
	q->looked_at_ns = r->now_ns;
	index = __atomic_load_n(q->write_ptr, __ATOMIC_ACQUIRE);
	if (index == q->limit)
		return false;
	check_index(q, index);
	q->limit = index < q->fetched ? q->fetched : index; /* what was fetched stays fetched */
	return true;
}

/* The header is published last, so it is read first. */
static bool copy_packet(union packet *to, const union packet *from)
{
	uint16_t header = __atomic_load_n(&from->header, __ATOMIC_ACQUIRE);

	if ((header & 0xff) == HSA_PACKET_TYPE_INVALID)
		return false;
	*to = *from;
	return true;
}

static const union packet *next_prefetched(struct queue *q)
{
	uint64_t end = q->read + config.prefetch_depth;

	if (end > q->limit)
		end = q->limit;
	if (end > q->read + slots(q))
		end = q->read + slots(q);
	while (q->fetched < end && copy_packet(&q->prefetched[q->fetched % MAX_PREFETCH], slot(q, q->fetched)))
		q->fetched++;
	return q->read < q->fetched ? &q->prefetched[q->read % MAX_PREFETCH] : NULL;
}

const union packet *fetch_next(struct queue *q)
{
	if (q->read >= q->limit)
		return NULL;
	if (config.prefetch)
		return next_prefetched(q);
	return copy_packet(&q->front, slot(q, q->read)) ? &q->front : NULL;
}

static void check_unchanged(struct queue *q)
{
	const uint8_t *was = (const uint8_t *)&q->prefetched[q->read % MAX_PREFETCH];
	const uint8_t *is = (const uint8_t *)slot(q, q->read);

	for (unsigned i = 0; i < sizeof(union packet); i++)
		if (was[i] != is[i]) {
			truth_violation(q, TRUTH_CHANGED, i, 0);
			return;
		}
}

/* The slot is given back: its header is INVALID before the read index says so. */
void fetch_consume(struct queue *q)
{
	uint64_t read = __atomic_load_n(q->read_ptr, __ATOMIC_RELAXED);

	if (config.prefetch)
		check_unchanged(q);
	if (read != q->read)
		truth_violation(q, TRUTH_READ_MOVED, read, q->read);
	__atomic_store_n(&slot(q, q->read)->header, HSA_PACKET_TYPE_INVALID, __ATOMIC_RELEASE);
	q->read++;
	if (q->fetched < q->read)
		q->fetched = q->read;
	__atomic_store_n(q->read_ptr, q->read, __ATOMIC_RELEASE);
	q->packets++;
}
