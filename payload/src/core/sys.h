/*
 * sys.h: the few system services that the payload uses, as raw system calls
 * where glibc's wrapper is newer than 2.17 or touches more than it must.
 * Nothing here allocates. A thread that dispatches calls only the clocks (vDSO); a
 * thread that destroys an object or ends the runtime may wait here, with a deadline.
 */
#ifndef RTL_SYS_H
#define RTL_SYS_H

#include <stdint.h>
#include <stddef.h>
#include <time.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define HIDDEN __attribute__((visibility("hidden")))
#define CACHE_ALIGNED _Alignas(64)

#define NS_PER_US 1000ull
#define NS_PER_MS 1000000ull
#define NS_PER_S 1000000000ull

uint64_t clock_ns(clockid_t id);

static inline uint64_t now_boottime(void) { return clock_ns(CLOCK_BOOTTIME); }
static inline uint64_t now_monotonic(void) { return clock_ns(CLOCK_MONOTONIC); }

static inline uint64_t tsc_now(void)
{
	return __builtin_ia32_rdtsc();
}

static inline void cpu_relax(void)
{
	__builtin_ia32_pause();
}

/* Prefetches lines that another core has used last and that this thread writes soon.
 * Assembly, because the compiler emits the instruction only for CPUs that have it; older
 * 64-bit CPUs execute it as a no-op. */
static inline void prefetch_for_write(const void *p, size_t size)
{
	for (size_t i = 0; i < size; i += 64)
		__asm__ volatile("prefetchw %0" : : "m"(*((const char *)p + i)));
}

int sys_gettid(void);
void sys_yield(void);
/* Waits between two looks. turn: how many looks there were. First it spins, then it yields,
 * then it sleeps, because yielding does not let a thread of lower priority run. */
void sys_back_off(uint32_t turn);
/* Asks for short slices (Linux 6.12: an earlier deadline after each wake-up);
 * without effect before. */
void sys_short_slices(uint64_t slice_ns);
void sys_sleep_ns(uint64_t ns);

/* CPU time used by one thread of this process, in ns; 0: the thread is gone.
 * The clock id is the kernel's encoding (include/linux/posix-timers_types.h). */
uint64_t sys_thread_cpu_ns(int tid);

/* timeout_ns: relative; UINT64_MAX: none. Shared: other processes wait or wake
 * on the same word. */
void futex_wait(uint32_t *word, uint32_t value, uint64_t timeout_ns);
void futex_wake(uint32_t *word);
void futex_wait_shared(uint32_t *word, uint32_t value, uint64_t timeout_ns);
void futex_wake_shared(uint32_t *word);

/* Anonymous memory, lazily backed also where the process locks all that it will map
 * (mlockall); NULL on failure. Never given back while a wrapper could still hold a
 * pointer into it. */
void *map_memory(size_t size);
void unmap_memory(void *p, size_t size);
/* Zeroes whole pages, and frees their memory unless they are locked and the kernel is older
 * than 5.18. */
void clear_memory(void *p, size_t size);
/* Frees the memory of whole pages whose contents are not needed, if the kernel can. */
void forget_memory(void *p, size_t size);
/* Backs whole pages before an application thread has to fault them in; changes
 * nothing in them. Before Linux 5.14 without effect. Our threads only. */
void back_memory(void *p, size_t size);

void sys_close(int fd);

/* A program may close all descriptors that it does not know (closefrom), and reuse their
 * numbers: dev and inode say whether fd is still this file. */
struct memfd {
	int fd;
	uint64_t dev, inode;
};
/* A sealed memfd of exactly size bytes, mapped shared and not inherited by
 * forked children. Its fd is close-on-exec and kept out of the low numbers. */
void *memfd_map(const char *name, size_t size, struct memfd *out);
/* Closes fd, if it is still this file. */
void memfd_close(const struct memfd *m);
/* Frees whole pages of the mapping; they read as zero again. */
void memfd_release(void *p, uint64_t size);

/* Reads a small file whole; returns bytes read or -errno. Not terminated. */
long read_file(const char *path, char *buf, size_t size);

/* Copies from this process's own memory without faulting; bytes copied or -errno.
 * -EFAULT: nothing is mapped there, or a device's memory. */
long read_memory(uint64_t address, void *buf, size_t size);

/* Reads 8 bytes there without faulting, a device's memory, too: 0, -EFAULT, or another error
 * if a seccomp filter refuses to say. */
long probe_memory(const volatile void *address);

/*
 * The end of a wait. When a process that was stopped (SIGSTOP, a paused container) goes on,
 * its deadlines have passed before the thread that it waits for has run. So LAST_LOOKS looks
 * follow after the deadline.
 */
#define LAST_LOOKS 20
#define LAST_LOOK_NS NS_PER_MS
struct deadline {
	uint64_t until;
	uint32_t looks; /* since it has passed */
};
struct deadline deadline_in(uint64_t ns);
/* How long to wait before the next look; 0: the wait has ended. */
uint64_t deadline_left(struct deadline *d);

/* A mutex for threads of ours: futex-based, with a deadline. 0 or -ETIMEDOUT. */
struct mutex {
	uint32_t word; /* 0 free, 1 taken, 2 taken and waited for */
};
int mutex_lock(struct mutex *m, uint64_t timeout_ns);
void mutex_unlock(struct mutex *m);

#endif
