/*
 * rows.h: the n-th dispatch of the benchmark, as in scripts/benchdb/rows.go, and the
 * clocks. 8 queues, 300 kernels, 16 threads; dispatches of some microseconds.
 */
#ifndef BENCHDB_ROWS_H
#define BENCHDB_ROWS_H

#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#define ROW_CONTEXTS 9600 /* 600 pairs of queue and kernel, by 16 threads */

static inline uint64_t row_context(uint64_t n) { return n % 600 * 16 + n / 64 % 16; }

/* A context's row ids. Row ids begin at 1. */
static inline uint64_t context_queue(uint64_t c) { return c / 16 % 8 + 1; }
static inline uint64_t context_launch(uint64_t c) { return c / 16 % 300 + 1; }
static inline uint64_t context_thread(uint64_t c) { return c % 16 + 1; }

static inline uint64_t row_index(uint64_t n) { return n / 8; }
static inline uint64_t row_start_ns(uint64_t n) { return 30 * 86400000000000ULL + n * 4000; }
static inline uint64_t row_duration_ns(uint64_t n) { return 9000 + n % 5000; }
static inline uint64_t row_queued_ns(uint64_t n) { return 6000 + n % 7000; }

static inline int64_t wall_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static inline int64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Prints a writer's result: the nanoseconds since these two times. */
static inline void print_elapsed(int64_t wall, int64_t cpu)
{
	printf("%lld %lld\n", (long long)(wall_ns() - wall), (long long)(cpu_ns() - cpu));
}

#endif
