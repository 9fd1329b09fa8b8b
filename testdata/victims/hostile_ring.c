/*
 * hostile_ring.c: the producing end of hostile.c's ring, and what it puts there.
 */
#define _GNU_SOURCE
#include "hostile.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kinds/copy/copy_abi.h"
#include "kinds/dispatch/dispatch_abi.h"

struct rtl_ring *ring;
uint64_t ring_bytes = 1 << 20;
static char *lines;
static uint64_t head, dispatches;
static uint32_t seq;

static uint64_t noise(void)
{
	static _Thread_local uint64_t x;

	if (!x)
		x = now() | 1;
	x ^= x << 13;
	x ^= x >> 7;
	return x ^= x << 17;
}

void make_ring(void)
{
	int seals = is("unsealed") ? F_SEAL_GROW : F_SEAL_SHRINK | F_SEAL_GROW;
	uint64_t file = is("huge") ? UINT64_C(8) << 30 : ring_bytes;

	ring = shared(RTL_RING_NAME, is("short") ? RTL_PAGE : RTL_PAGE + file, seals, &control->ring_inode);
	lines = (char *)ring + RTL_PAGE;
	head = seq = dispatches = 0;
	ring->abi_version = RTL_ABI_VERSION;
	ring->generation = ++control->generation;
	ring->size_bytes = file;
	ring->watermark_bytes = ring_bytes / 2;
	ring->magic = RTL_RING_MAGIC;
	if (is("huge"))
		ring->head = file;
	control->ring_size = ring_bytes;
}

/* --- the producing end of the ring ---------------------------------------- */

/* put writes whole lines; it waits for room as long as somebody records. */
static void put(const void *record, unsigned count)
{
	uint64_t bytes = (uint64_t)count * RTL_LINE;

	while (recording && head + bytes - __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) > ring_bytes)
		usleep(100);
	if (!recording)
		return;
	for (uint64_t i = 0; i < bytes; i += RTL_LINE)
		memcpy(lines + (head + i) % ring_bytes, (const char *)record + i, RTL_LINE);
	((struct rtl_header *)(lines + head % ring_bytes))->seq = seq++;
	head += bytes;
	__atomic_store_n(&ring->head, head, __ATOMIC_RELEASE);
}

static void put_string(uint32_t id, const char *text, size_t length)
{
	unsigned count = (unsigned)((16 + length + RTL_LINE - 1) / RTL_LINE);
	struct rtl_string *s = calloc(count, RTL_LINE);

	s->header = (struct rtl_header){.type = RTL_TYPE_STRING, .lines = (uint16_t)count};
	s->id = id;
	s->len_bytes = (uint32_t)length;
	memcpy((char *)s + 16, text, length);
	put(s, count);
	free(s);
}

#define HEAD(t) .header = {.type = (t), .lines = 1}

static void put_definitions(void)
{
	put(&(struct rtl_agent){HEAD(RTL_TYPE_AGENT), .id = 1, .name = 1}, 1);
	put(&(struct rtl_queue){HEAD(RTL_TYPE_QUEUE), .id = 1, .agent = 1, .size = 64}, 1);
	put(&(struct rtl_window){HEAD(RTL_TYPE_WINDOW), .queue = 1, .kind = RTL_WINDOW_OPEN, .time_ns = now()}, 1);
}

static void put_kernel(uint32_t id, uint64_t index)
{
	uint64_t t = now();

	put(&(struct rtl_launch){HEAD(RTL_TYPE_LAUNCH), .id = id, .name = id, .agent = 1, .grid = {1, 1, 1}}, 1);
	put(&(struct rtl_dispatch){HEAD(RTL_TYPE_DISPATCH), .start_ns = t, .end_ns = t + 1000, .submit_ns = t - 1000,
				   .index = index, .queue = 1, .launch = id, .tid = 1}, 1);
}

void put_end(enum rtl_end why)
{
	put(&(struct rtl_window){HEAD(RTL_TYPE_WINDOW), .queue = 1, .kind = RTL_WINDOW_CLOSE, .time_ns = now(),
				 .index = dispatches, .dispatches = dispatches}, 1);
	put(&(struct rtl_end_record){HEAD(RTL_TYPE_END), .end = why}, 1);
	__atomic_store_n(&ring->ended, 1, __ATOMIC_RELEASE);
}

/* --- what it tells the recorder ------------------------------------------ */

void honest(void)
{
	put_string(1, "gfx000", 6);
	put_definitions();
	put_string(2, "_Z4gemmPf.kd", 12);
	put_kernel(2, dispatches++);
}

void names(void)
{
	static const char *const evil[] = {
		"\033[2J\033[31mred.kd", "\033]0;title\007.kd", "a\nb\rc\td.kd", "\xc2\x9b" "31mC1.kd",
		"\xe2\x80\xae" "gnp.exe.kd", "\xff\xfe\x80" "bytes.kd", "\xe2\x80\xa8line.kd", "'; DROP TABLE rtl_dispatch; --.kd",
		"\x7f\b\b\b.kd", "%s%n%x.kd",
	};
	char *long_one = malloc(1 << 20);

	put_string(1, "gfx\033[5m\xff", 8);
	put_definitions();
	for (unsigned i = 0; i < sizeof(evil) / sizeof(evil[0]); i++) {
		put_string(2 + i, evil[i], strlen(evil[i]));
		put_kernel(2 + i, dispatches++);
	}
	memset(long_one, '\033', RTL_STRING_MAX); /* the longest that there may be */
	put_string(100, long_one, RTL_STRING_MAX);
	put_kernel(100, dispatches++);
	put_string(101, "\033[7mfile:///x\n#offset=1", 23);
	put(&(struct rtl_code_object){HEAD(RTL_TYPE_CODE_OBJECT), .id = 1, .agent = 1, .uri = 101}, 1);
	free(long_one);
}

/* A name of 1 MB, which nobody may write. */
void *megabyte(void *arg)
{
	char *text = malloc(1 << 20);

	honest();
	memset(text, 'x', 1 << 20);
	put_string(102, text, (1 << 20) - 4096);
	free(text);
	return arg;
}

void *strings(void *arg)
{
	/* A few bytes that stand for gigabytes: each S_ is the whole name so far. */
	char *text = malloc(RTL_STRING_MAX);
	uint32_t id = 2;

	put_string(1, "gfx000", 6);
	put_definitions();
	for (; recording; id++) {
		int n = snprintf(text, RTL_STRING_MAX, "_Z1fI%uaSt4pairI", id);

		for (int i = 0; i < 40; i++)
			n += snprintf(text + n, RTL_STRING_MAX - (size_t)n, "1tIS%c_S%c_E", '0' + i % 10, '0' + i % 10);
		if (id % 2) {
			memset(text, 'a' + (char)(id % 26), RTL_STRING_MAX);
			n = RTL_STRING_MAX - (int)(noise() % 4096);
			memcpy(text, &id, sizeof id);
		}
		put_string(id, text, (size_t)n);
		put_kernel(id, dispatches++);
	}
	free(text);
	return arg;
}

void *ids(void *arg)
{
	for (uint32_t id = 1; recording; id++) {
		put(&(struct rtl_queue){HEAD(RTL_TYPE_QUEUE), .id = id, .agent = id}, 1);
		put(&(struct rtl_agent){HEAD(RTL_TYPE_AGENT), .id = id, .bdf = id}, 1);
		put(&(struct rtl_launch){HEAD(RTL_TYPE_LAUNCH), .id = id, .name = id, .agent = id}, 1);
		put(&(struct rtl_window){HEAD(RTL_TYPE_WINDOW), .queue = id, .kind = RTL_WINDOW_OPEN, .index = noise()}, 1);
		put(&(struct rtl_untimed){HEAD(RTL_TYPE_UNTIMED), .queue = id, .count = noise(), .tid = id, .reason = 2}, 1);
		put(&(struct rtl_code_object){HEAD(RTL_TYPE_CODE_OBJECT), .id = id, .agent = id}, 1);
	}
	return arg;
}

void *records(void *arg)
{
	union {
		uint64_t words[RTL_LINE / 8];
		struct rtl_string text;
	} line;

	while (recording) {
		for (unsigned i = 0; i < RTL_LINE / 8; i++)
			line.words[i] = noise() >> (noise() % 64);
		line.text.header.type = (uint16_t)(noise() % 2 ? 1 + noise() % RTL_TYPE_END : RTL_KIND_TYPE(noise() % 3, noise() % 2));
		if (line.text.header.type == RTL_TYPE_END) /* nothing would follow */
			line.text.header.type = RTL_TYPE_COPY;
		line.text.header.lines = 1;
		if (line.text.header.type == RTL_TYPE_STRING)
			line.text.len_bytes = (uint32_t)(noise() % 48);
		put(&line, 1);
	}
	return arg;
}

void *scribble(void *arg)
{
	while (recording) {
		uint64_t *c = (uint64_t *)control, *r = (uint64_t *)ring;

		c[noise() % (RTL_CONTROL_SIZE / 8)] = noise() >> (noise() % 64);
		for (int i = 0; i < 8; i++)
			r[noise() % ((RTL_PAGE + ring_bytes) / 8)] = noise() >> (noise() % 64);
		r[offsetof(struct rtl_ring, head) / 8] = noise() % ring_bytes / RTL_LINE * RTL_LINE;
	}
	return arg;
}

void *jump(void *arg)
{
	honest();
	while (recording) {
		uint64_t to[] = {head + RTL_LINE, head - RTL_LINE, 0, UINT64_MAX, head + ring_bytes * 2, 1};

		__atomic_store_n(&ring->head, to[noise() % 6], __ATOMIC_RELEASE);
	}
	return arg;
}
