/* busy_loops.c: threads that run, in code of every kind. */
#include "busy.h"

#include <sys/resource.h>
#include <sys/rseq.h>

uint64_t spin512(uint64_t rounds);
uint64_t spin256(uint64_t rounds);
int rseq_section(struct rseq *area, uint64_t rounds, uint64_t *harm);

/* Runs all the time, but not at the expense of those who wait for a processor: of few,
 * the test needs some itself. */
static void ready_to_loop(struct thread *t)
{
	if (setpriority(PRIO_PROCESS, (id_t)t->tid, 19))
		abort();
	t->ready = 1;
}

static void kind_spin(struct thread *t)
{
	int wide = __builtin_cpu_supports("avx512bw");

	ready_to_loop(t);
	for (;;) {
		t->harm += wide ? spin512(2000) : spin256(2000);
		t->beats++;
	}
}

/* A live tile: 8 KiB of state that only XSAVE knows (Intel SDM, AMX). */
static void kind_amx(struct thread *t)
{
	static const struct {
		uint8_t palette, start, reserved[14];
		uint16_t row_bytes[16];
		uint8_t rows[16];
	} config = {.palette = 1, .row_bytes = {64}, .rows = {16}};
	enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILE_DATA = 18 };
	uint8_t in[1024], out[1024];
	const long stride = 64;

	if (syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA))
		abort();
	memset(in, 0x5a, sizeof(in));
	__asm__ volatile("ldtilecfg %0\n\ttileloadd (%1,%2), %%tmm0" : : "m"(config), "r"(in), "r"(stride) : "memory");
	ready_to_loop(t);
	for (;;) {
		for (volatile int i = 0; i < 20000; i++)
			;
		__asm__ volatile("tilestored %%tmm0, (%0,%1)" : : "r"(out), "r"(stride) : "memory");
		t->harm += memcmp(in, out, sizeof(in)) != 0;
		t->beats++;
	}
}

static void kind_malloc(struct thread *t)
{
	void *p[64] = {0};
	unsigned r = (unsigned)t->tid;

	ready_to_loop(t);
	for (;;) {
		for (int i = 0; i < 2000; i++) {
			unsigned j;

			r = r * 1103515245 + 12345;
			j = r >> 16 & 63;
			free(p[j]);
			p[j] = malloc((r >> 4 & 255) ? (r >> 8 & 0x3fff) + 1 : 200000);
			*(char *)p[j] = 1;
		}
		t->beats++;
	}
}

/* In the vDSO nearly all the time; the clock must not stumble. */
static void kind_vdso(struct thread *t)
{
	uint64_t last = now();

	ready_to_loop(t);
	for (;;) {
		for (int i = 0; i < 5000; i++) {
			uint64_t next = now();

			t->harm += next < last;
			last = next;
		}
		t->beats++;
	}
}

/* In a restartable sequence nearly all the time. One that is interrupted and
 * ends all the same is harm. */
static void kind_rseq(struct thread *t)
{
	struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);

	if (!__rseq_size)
		abort();
	ready_to_loop(t);
	for (;;) {
		uint64_t harm = 0;

		t->beats += (uint64_t)rseq_section(area, 20000, &harm);
		t->harm += harm;
		for (volatile int i = 0; i < 500; i++)
			;
	}
}

static void *nothing(void *arg)
{
	return arg;
}

/* Threads come and go all the time. One that cannot be made is harm. */
static void kind_thread(struct thread *t)
{
	t->ready = 1;
	for (;;) {
		pthread_t id;

		if (pthread_create(&id, NULL, nothing, NULL)) {
			t->harm++;
			continue;
		}
		pthread_join(id, NULL);
		t->beats++;
	}
}

const struct kind loop_kinds[] = {
	{"spin", kind_spin}, {"amx", kind_amx},   {"malloc", kind_malloc}, {"vdso", kind_vdso},
	{"rseq", kind_rseq}, {"thread", kind_thread}, {NULL, NULL},
};
