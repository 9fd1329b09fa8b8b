/* ring.c: see ring.h. */
#include "record/ring.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "core/session_flags.h"

#define FULL_UNTIL 8 /* full until this part of the ring is free */
#define HOLE_MOST (1u << 20)
#define RESERVE_MOST (32 * 1024ull) /* for definitions and the end record; an eighth of a small ring */

struct lines {
	uint8_t *data;
	uint64_t size; /* power of two */
	uint64_t head;
};

static struct rtl_ring *shared;
static struct lines ring;
static uint64_t reserve;
static uint64_t backed; /* bytes of the ring that have memory: in its first lap each page would fault */
static struct lines overflow; /* lossless only; private memory */
static uint64_t overflow_tail;
static uint64_t published_head; /* what the consumer has been shown */
static uint32_t seq;
static uint64_t lost, lost_from_ns; /* not yet in a lost record */
static bool full; /* records were lost, and there is no room for many yet */
static uint64_t uncounted[RTL_KINDS_MAX]; /* lost records by kind, until ring_flush(): counting each would take a locked instruction */
static bool any_uncounted;
static struct memfd file = {.fd = -1};
static bool kept; /* a later session writes into this ring, too */
static _Atomic uint32_t held; /* nothing is shown from held_head on */
static uint64_t held_head;
static uint32_t held_seq;
static uint64_t held_lost;

int ring_open(const struct rtl_config *c, uint32_t generation)
{
	struct rtl_ring *r = memfd_map(RTL_RING_NAME, RTL_PAGE + c->buffer_size_bytes, &file);

	if (!r)
		return -errno;
	overflow = (struct lines){0};
	if (c->buffer_policy == RTL_BUFFER_POLICY_LOSSLESS) {
		uint64_t size = 1ull << (63 - __builtin_clzll(c->buffer_limit_bytes));

		overflow = (struct lines){.data = map_memory(size), .size = size};
		if (!overflow.data) {
			unmap_memory(r, RTL_PAGE + c->buffer_size_bytes);
			memfd_close(&file);
			return -ENOMEM;
		}
	}
	ring = (struct lines){.data = (uint8_t *)r + RTL_PAGE, .size = c->buffer_size_bytes};
	reserve = ring.size / 8 < RESERVE_MOST ? ring.size / 8 : RESERVE_MOST;
	overflow_tail = published_head = lost = backed = 0;
	memset(uncounted, 0, sizeof uncounted);
	any_uncounted = false;
	full = kept = false;
	atomic_store(&held, 0);
	seq = 0;
	r->abi_version = RTL_ABI_VERSION;
	r->generation = generation;
	r->size_bytes = c->buffer_size_bytes;
	/* within what plain records can fill */
	r->watermark_bytes = (ring.size - reserve) / 100 * c->buffer_watermark_percent;
	__atomic_store_n(&r->magic, RTL_RING_MAGIC, __ATOMIC_RELEASE);
	shared = r;
	return 0;
}

void ring_describe(uint64_t *size, uint64_t *inode, int *fd)
{
	*size = shared ? ring.size : 0;
	*inode = file.inode;
	*fd = file.fd;
}

/* A forked child may have the descriptor, and then keeps this memory until it exits. Frees
 * the pages without a record that the recorder has not taken; the recorder frees the rest. */
static void release_all_but_unread(void)
{
	uint64_t from = (ring.head + RTL_PAGE - 1) & ~(RTL_PAGE - 1ull);
	uint64_t to = (ring_taken_bytes() + ring.size) & ~(RTL_PAGE - 1ull);
	uint64_t at = from & (ring.size - 1), bytes = to - from;

	if (from >= to || bytes > ring.size)
		return; /* full, or an impossible tail */
	uint64_t first = bytes < ring.size - at ? bytes : ring.size - at;
	memfd_release(ring.data + at, first);
	if (bytes > first)
		memfd_release(ring.data, bytes - first);
}

void ring_close(void)
{
	if (overflow.data)
		unmap_memory(overflow.data, overflow.size);
	if (shared) {
		release_all_but_unread();
		unmap_memory(shared, RTL_PAGE + ring.size);
	}
	memfd_close(&file);
	file = (struct memfd){.fd = -1};
	shared = NULL;
	ring = overflow = (struct lines){0};
}

bool ring_is_open(void)
{
	return shared != NULL;
}

/* The consumer writes tail: an impossible value means no room. */
static uint64_t room(void)
{
	uint64_t tail = __atomic_load_n(&shared->tail, __ATOMIC_ACQUIRE); /* pairs with the reader's release */
	uint64_t used = ring.head - tail;

	return used > ring.size ? 0 : ring.size - used;
}

#define BACKED_STEP (256 * 1024ull)

static void back_ring(uint64_t bytes)
{
	while (UNLIKELY(backed < ring.size && ring.head + bytes > backed)) {
		uint64_t n = ring.size - backed < BACKED_STEP ? ring.size - backed : BACKED_STEP;

		back_memory(ring.data + backed, n);
		backed += n;
	}
}

static void append(struct lines *l, const void *record, uint32_t lines)
{
	for (uint32_t i = 0; i < lines; i++) {
		memcpy(l->data + (l->head & (l->size - 1)), (const uint8_t *)record + (uint64_t)i * RTL_LINE, RTL_LINE);
		l->head += RTL_LINE;
	}
}

static const struct rtl_header *first_waiting(void)
{
	return (const struct rtl_header *)(overflow.data + (overflow_tail & (overflow.size - 1)));
}

static bool is_room_for_first(uint64_t spare)
{
	return room() >= (uint64_t)first_waiting()->lines * RTL_LINE + spare;
}

/* Line by line: either buffer may end within the record. */
static void move_first(void)
{
	for (uint32_t lines = first_waiting()->lines; lines; lines--) {
		append(&ring, overflow.data + (overflow_tail & (overflow.size - 1)), 1);
		overflow_tail += RTL_LINE;
	}
}

/* In order, and whole: the reader must never see a part of a record. */
static void move_waiting(void)
{
	while (overflow_tail != overflow.head && is_room_for_first(reserve))
		move_first();
	if (overflow_tail == overflow.head)
		forget_memory(overflow.data, overflow.size);
}

static bool is_definition(uint16_t type)
{
	return type < RTL_KIND_TYPES;
}

/* Lost definitions count as records of dispatches, which need them. */
static uint32_t kind_of(uint16_t type)
{
	return is_definition(type) ? RTL_KIND_DISPATCH : RTL_KIND_OF_TYPE(type);
}

static void lose(uint32_t kind, uint64_t records)
{
	if (!lost)
		lost_from_ns = now_boottime();
	lost += records;
	uncounted[kind] += records;
	any_uncounted = true;
	full = true;
}

void ring_give_up(void)
{
	while (overflow_tail != overflow.head) {
		uint16_t type = first_waiting()->type;

		if (is_definition(type) && is_room_for_first(reserve / 2)) {
			move_first();
			continue;
		}
		lose(kind_of(type), 1);
		overflow_tail += (uint64_t)first_waiting()->lines * RTL_LINE;
	}
	if (kept) {
		overflow_tail = overflow.head; /* nothing waits */
		return;
	}
	if (overflow.data)
		unmap_memory(overflow.data, overflow.size);
	overflow = (struct lines){0}; /* later records go into the ring, or are lost */
	overflow_tail = 0;
}

static bool place(struct rtl_header *record, uint64_t spare)
{
	uint64_t bytes = (uint64_t)record->lines * RTL_LINE;

	record->seq = seq;
	if (overflow.head == overflow_tail && room() >= bytes + spare) {
		back_ring(bytes);
		append(&ring, record, record->lines);
	} else if (overflow.data && overflow.head - overflow_tail + bytes + spare <= overflow.size) {
		append(&overflow, record, record->lines);
	} else {
		return false;
	}
	seq++;
	TALLY(records);
	return true;
}

static void say_lost(void)
{
	struct rtl_lost r = {
		.header = {.type = RTL_TYPE_LOST, .lines = 1},
		.count = lost,
		.from_ns = lost_from_ns,
		.until_ns = now_boottime(),
	};

	if (place(&r.header, 0))
		lost = 0;
}

/* Free bytes of the buffer that fills up last. */
static uint64_t free_bytes(void)
{
	return overflow.data ? overflow.size - (overflow.head - overflow_tail) : room();
}

void ring_lose(uint32_t kind, uint64_t records)
{
	if (!records)
		return;
	lose(kind, records);
	/* The reader sees a hole; a larger one would look like a step back. */
	seq += (uint32_t)(records < HOLE_MOST ? records : HOLE_MOST);
}

bool ring_is_full(void)
{
	full = full && free_bytes() <= (overflow.data ? overflow : ring).size / FULL_UNTIL;
	if (lost && !full)
		say_lost();
	return full;
}

/* Out of line: most records find room. */
static __attribute__((noinline)) bool discard(const struct rtl_header *record)
{
	lose(kind_of(record->type), 1);
	seq++; /* the reader sees a hole */
	return false;
}

bool ring_put(struct rtl_header *record)
{
	if (UNLIKELY(lost) && free_bytes() > 2 * reserve)
		say_lost();
	return LIKELY(place(record, reserve)) || discard(record);
}

bool ring_put_definition(struct rtl_header *record)
{
	return place(record, 0);
}

bool ring_put_last(struct rtl_header *record)
{
	if (lost)
		say_lost();
	return place(record, 0);
}

static void wake(void)
{
	__atomic_fetch_add(&shared->wake, 1, __ATOMIC_RELEASE);
	futex_wake_shared(&shared->wake);
}

static void count_uncounted(void)
{
	for (uint32_t kind = 0; kind < RTL_KINDS_MAX; kind++) {
		if (uncounted[kind])
			count_lost(kind, uncounted[kind]);
		uncounted[kind] = 0;
	}
	any_uncounted = false;
}

void ring_flush(void)
{
	if (UNLIKELY(any_uncounted))
		count_uncounted();
	if (overflow.head != overflow_tail)
		move_waiting();
	if (published_head == ring.head || atomic_load_explicit(&held, memory_order_acquire))
		return;
	uint64_t before = published_head;
	published_head = ring.head;
	__atomic_store_n(&shared->head, ring.head, __ATOMIC_RELEASE); /* pairs with the reader's acquire */
	uint64_t tail = __atomic_load_n(&shared->tail, __ATOMIC_RELAXED);
	if (before - tail < shared->watermark_bytes && ring.head - tail >= shared->watermark_bytes)
		wake();
}

uint64_t ring_taken_bytes(void)
{
	return __atomic_load_n(&shared->tail, __ATOMIC_RELAXED);
}

void ring_keep(bool keep)
{
	kept = keep;
}

/* full, and what was lost by kind, are of the session before; what is lost is said in any. */
bool ring_hold(struct rtl_header *first)
{
	held_head = ring.head;
	held_seq = seq;
	held_lost = lost;
	full = false;
	memset(uncounted, 0, sizeof uncounted);
	any_uncounted = false;
	if (overflow.head != overflow_tail || room() < RTL_LINE + reserve || !place(first, reserve))
		return false;
	atomic_store(&held, 1);
	return true;
}

void ring_release(const struct rtl_header *first)
{
	struct lines at = {.data = ring.data, .size = ring.size, .head = held_head};
	struct rtl_period record;

	memcpy(&record, first, sizeof record);
	record.header.seq = held_seq;
	append(&at, &record, 1);
	atomic_store_explicit(&held, 0, memory_order_release); /* pairs with ring_flush() */
}

void ring_undo(void)
{
	if (!atomic_load(&held))
		return;
	ring.head = held_head;
	seq = held_seq;
	overflow_tail = overflow.head;
	lost = held_lost;
	atomic_store(&held, 0);
}

void ring_end(void)
{
	ring_flush();
	if (kept)
		return;
	__atomic_store_n(&shared->ended, 1, __ATOMIC_RELEASE);
	wake();
}

uint64_t ring_waiting_bytes(void)
{
	return overflow.head - overflow_tail;
}
