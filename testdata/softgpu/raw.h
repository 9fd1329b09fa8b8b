/*
 * What both a thread of the target and the bare engine process may use: system
 * calls without errno, a clock, and a lock whose state is one word.
 *
 * The engine shares the target's memory but is not one of its threads. It must
 * not touch errno, malloc or pthreads, and must never wait for a lock: the
 * thread that holds it may be stopped by a debugger, or dead.
 */
#ifndef SOFTGPU_RAW_H
#define SOFTGPU_RAW_H

#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

static inline long raw6(long nr, long a, long b, long c, long d, long e, long f)
{
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

static inline long raw3(long nr, long a, long b, long c)
{
	return raw6(nr, a, b, c, 0, 0, 0);
}

static inline long futex_wait(uint32_t *word, uint32_t seen, const struct timespec *timeout)
{
	return raw6(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, seen, (long)timeout, 0, 0);
}

static inline void futex_wake_all(uint32_t *word)
{
	raw3(SYS_futex, (long)word, FUTEX_WAKE_PRIVATE, INT32_MAX);
}

/* CLOCK_BOOTTIME is what ROCr calls the system clock. The vDSO answers. */
static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) };
}

/* 0 free, 1 held, 2 held and somebody waits. */
struct lock {
	uint32_t word;
};

static inline bool lock_try(struct lock *l)
{
	uint32_t free = 0;

	return __atomic_compare_exchange_n(&l->word, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void lock_take(struct lock *l)
{
	if (lock_try(l))
		return;
	while (__atomic_exchange_n(&l->word, 2, __ATOMIC_ACQUIRE) != 0)
		futex_wait(&l->word, 2, NULL);
}

static inline void lock_drop(struct lock *l)
{
	if (__atomic_exchange_n(&l->word, 0, __ATOMIC_RELEASE) == 2)
		raw3(SYS_futex, (long)&l->word, FUTEX_WAKE_PRIVATE, 1);
}

#endif
