/*
 * SDMA queues: byte streams of little packets, numbers as in AMD's
 * vega10_sdma_pkt_open.h. ROCr makes one command of [poll dependencies,
 * timestamp, copies, timestamp, decrement, mailbox fence, trap]; the truth log
 * has one record for it, closed at the decrement. From 6.1 on several engines may
 * share a copy over xGMI: the one that leads polls a signal of each other before
 * its decrement, and decrements that, too. Each engine's part is a record.
 */
#include <string.h>

#include "engine.h"

enum sdma_op {
	SDMA_NOP = 0,
	SDMA_COPY = 1,
	SDMA_FENCE = 5,
	SDMA_TRAP = 6,
	SDMA_POLL = 8,
	SDMA_ATOMIC = 10,
	SDMA_FILL = 11,
	SDMA_TIMESTAMP = 13,
	SDMA_GCR = 17,
};

enum { PACKETS_PER_STEP = 64, COPY_LINEAR = 0, COPY_BYTES_PER_NS = 25 };

static uint64_t address(const uint32_t *low)
{
	return low[0] | (uint64_t)low[1] << 32;
}

static uint64_t round_down(uint64_t ns)
{
	return ns - ns % TICK_NS;
}

static void close_transfer(struct queue *q, uint64_t signal)
{
	struct transfer *x = &q->transfer;
	struct truth_record *t;

	if (!x->open)
		return;
	x->open = false;
	if (!x->packets)
		return; /* timestamps around nothing */
	t = truth_append(x->fill ? TRUTH_FILL : TRUTH_COPY, q);
	if (!t)
		return;
	t->flags = x->stamped ? TRUTH_PROFILED : 0;
	t->packet = x->first_packet;
	t->start_ns = x->start_ns;
	t->end_ns = x->end_ns > x->start_ns ? x->end_ns : x->start_ns + TICK_NS;
	t->signal = signal;
	t->value[0] = x->bytes;
	t->value[1] = x->packets;
}

static struct transfer *open_transfer(struct queue *q, uint64_t now)
{
	if (!q->transfer.open)
		q->transfer = (struct transfer){ .open = true, .first_packet = q->packets, .start_ns = round_down(now) };
	return &q->transfer;
}

static void account(struct queue *q, bool fill, uint64_t began_ns, uint64_t bytes)
{
	struct transfer *x = open_transfer(q, began_ns);

	x->fill = x->packets ? x->fill && fill : fill;
	x->packets++;
	x->bytes += bytes;
	x->done_ns = began_ns + config.copy_ns + bytes / COPY_BYTES_PER_NS;
	if (!x->stamped)
		x->end_ns = round_down(x->done_ns);
}

static void copy_linear(struct queue *q, const uint32_t *c)
{
	uint64_t began_ns = now_ns();
	uint64_t bytes = (c[1] & 0x3fffffff) + (config.gfx_major >= 9); /* from gfx9 on the count is one less */

	memcpy(memory_host(address(c + 5)), memory_host(address(c + 3)), bytes);
	account(q, false, began_ns, bytes);
}

/* Pitches and extents are one less than they mean, in elements of 2^e bytes. */
static void copy_rect(struct queue *q, const uint32_t *c)
{
	uint64_t began_ns = now_ns();
	unsigned e = c[0] >> 29;
	const uint8_t *src = (uint8_t *)memory_host(address(c + 1)) + ((uint64_t)(c[3] & 0x3fff) << e);
	uint8_t *dst = (uint8_t *)memory_host(address(c + 6)) + ((uint64_t)(c[8] & 0x3fff) << e);
	uint64_t src_pitch = ((uint64_t)(c[4] >> 13) + 1) << e, src_slice = ((uint64_t)(c[5] & 0xfffffff) + 1) << e;
	uint64_t dst_pitch = ((uint64_t)(c[9] >> 13) + 1) << e, dst_slice = ((uint64_t)(c[10] & 0xfffffff) + 1) << e;
	uint64_t width = ((uint64_t)(c[11] & 0x3fff) + 1) << e;
	uint64_t height = (c[11] >> 16 & 0x3fff) + 1, depth = (c[12] & 0x7ff) + 1;

	for (uint64_t z = 0; z < depth; z++)
		for (uint64_t y = 0; y < height; y++)
			memcpy(dst + z * dst_slice + y * dst_pitch, src + z * src_slice + y * src_pitch, width);
	account(q, false, began_ns, width * height * depth);
}

static void fill(struct queue *q, const uint32_t *c)
{
	uint64_t began_ns = now_ns();
	uint32_t *dst = memory_host(address(c + 1));
	uint64_t bytes = (c[4] & 0x3fffffff) + 4;

	for (uint64_t i = 0; i < bytes / 4; i++)
		dst[i] = c[3];
	account(q, true, began_ns, bytes);
}

static void timestamp(struct queue *q, const uint32_t *c)
{
	uint64_t now = round_down(now_ns());
	struct transfer *x;

	if (q->transfer.open && !q->transfer.packets)
		q->transfer.open = false;
	x = open_transfer(q, now);
	if (x->packets) {
		x->end_ns = now > x->start_ns ? now : x->start_ns + TICK_NS;
		x->stamped = true;
		now = x->end_ns;
	}
	__atomic_store_n((uint64_t *)address(c + 1), gpu_ticks(q->gpu, now), __ATOMIC_RELAXED);
}

/* The 64-bit add of -1 that completes a signal, or lets go of another engine's. */
static void atomic_add(struct queue *q, const uint32_t *c)
{
	uint64_t target = address(c + 1);

	if (!q->transfer.leads)
		close_transfer(q, target - offsetof(amd_signal_t, value)); /* logged before anybody can know */
	q->transfer.leads = false;
	__atomic_fetch_add((uint64_t *)target, address(c + 3), __ATOMIC_SEQ_CST);
}

static bool poll_met(const uint32_t *c)
{
	bool memory = c[0] >> 31; /* else: a register, of which there are none */

	return !memory || (__atomic_load_n((uint32_t *)address(c + 1), __ATOMIC_ACQUIRE) & c[4]) == c[3];
}

/* Between a copy and its decrement, for 1 and not for 0: the part of another engine is awaited. */
static void lead(struct queue *q, const uint32_t *c)
{
	q->transfer.leads = q->transfer.open && q->transfer.packets && c[0] >> 31 && c[3] == 1;
}

/* Executes the packet at c; its length in bytes, 0: it must wait. */
static uint64_t execute(struct queue *q, const uint32_t *c)
{
	unsigned sub_op = c[0] >> 8 & 0xff;

	switch ((enum sdma_op)(c[0] & 0xff)) {
	case SDMA_COPY:
		if (sub_op == COPY_LINEAR) {
			copy_linear(q, c);
			return 28;
		}
		copy_rect(q, c);
		return 52;
	case SDMA_FENCE:
		__atomic_store_n((uint32_t *)address(c + 1), c[3], __ATOMIC_RELEASE);
		return 16;
	case SDMA_TRAP:
		event_set(c[1] & 0xfffffff);
		return 8;
	case SDMA_POLL:
		if (!poll_met(c))
			return 0;
		lead(q, c);
		return 24;
	case SDMA_ATOMIC:
		atomic_add(q, c);
		return 32;
	case SDMA_FILL:
		fill(q, c);
		return 20;
	case SDMA_TIMESTAMP:
		timestamp(q, c);
		return 12;
	case SDMA_GCR:
		return 20;
	case SDMA_NOP:
		return 4;
	}
	truth_violation(q, TRUTH_BAD_PACKET, c[0], 0);
	return 4;
}

void sdma_step(struct queue *q, struct round *r)
{
	uint64_t end = __atomic_load_n(q->doorbell, __ATOMIC_ACQUIRE); /* here the doorbell is the write pointer, in bytes */

	for (unsigned i = 0; i < PACKETS_PER_STEP && q->read < end; i++) {
		uint64_t bytes;

		/* The bytes were moved at once; the engine is busy for as long as a real one would be. */
		if (q->transfer.open && q->transfer.done_ns > now_ns()) {
			round_due(r, q->transfer.done_ns);
			return;
		}
		bytes = execute(q, (const uint32_t *)(q->ring + q->read % q->ring_bytes));

		if (!bytes)
			return;
		q->read += bytes;
		q->packets++;
		__atomic_store_n(q->read_ptr, q->read, __ATOMIC_RELEASE);
		r->done++;
	}
	if (q->read >= end && q->transfer.done_ns <= r->now_ns)
		close_transfer(q, 0); /* completed without a decrement */
}
