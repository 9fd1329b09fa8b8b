/* sys.c: see sys.h. */
#define _GNU_SOURCE
#include "core/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#define FD_FLOOR 512 /* our descriptors stay above the numbers that programs expect */

uint64_t clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

int sys_gettid(void)
{
	return (int)syscall(SYS_gettid);
}

#define RELAX_TURNS 100
#define YIELD_TURNS 1000
#define BACK_OFF_NS (100 * NS_PER_US)

void sys_back_off(uint32_t turn)
{
	if (turn < RELAX_TURNS)
		cpu_relax();
	else if (turn < YIELD_TURNS)
		sys_yield();
	else
		sys_sleep_ns(BACK_OFF_NS);
}

void sys_yield(void)
{
	syscall(SYS_sched_yield);
}

/* sched_setattr(2); glibc has no wrapper before 2.41. */
void sys_short_slices(uint64_t slice_ns)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = {.size = sizeof attr};

	if (!syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0) && attr.policy == 0 /* SCHED_OTHER */) {
		attr.runtime = slice_ns;
		syscall(SYS_sched_setattr, 0, &attr, 0);
	}
}

void sys_sleep_ns(uint64_t ns)
{
	struct timespec t = {(time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S)};

	syscall(SYS_nanosleep, &t, NULL);
}

uint64_t sys_thread_cpu_ns(int tid)
{
	/* CPUCLOCK_PERTHREAD_MASK 4 | CPUCLOCK_SCHED 2 */
	clockid_t id = (clockid_t)(((unsigned)~tid << 3) | 6u);
	struct timespec t;

	if (syscall(SYS_clock_gettime, id, &t))
		return 0;
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec + 1;
}

static void futex_sleep(uint32_t *word, uint32_t value, uint64_t timeout_ns, int flags)
{
	struct timespec t = {(time_t)(timeout_ns / NS_PER_S), (long)(timeout_ns % NS_PER_S)};

	syscall(SYS_futex, word, FUTEX_WAIT | flags, value, timeout_ns == UINT64_MAX ? NULL : &t, NULL, 0);
}

void futex_wait(uint32_t *word, uint32_t value, uint64_t timeout_ns)
{
	futex_sleep(word, value, timeout_ns, FUTEX_PRIVATE_FLAG);
}

void futex_wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT32_MAX, NULL, NULL, 0);
}

void futex_wait_shared(uint32_t *word, uint32_t value, uint64_t timeout_ns)
{
	futex_sleep(word, value, timeout_ns, 0);
}

void futex_wake_shared(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* After mlockall(MCL_FUTURE) the kernel locks each new mapping, and backs it at once. It
 * cannot back pages without access; once they are unlocked, it backs them as they are used.
 * Raw: a sanitizer's munlock() does nothing. */
static void unlock(void *p, size_t size)
{
	if (madvise(p, size, MADV_DONTNEED)) /* EINVAL: locked */
		syscall(SYS_munlock, p, size);
}

static void *map_lazily(size_t size, int flags, int fd)
{
	void *p = mmap(NULL, size, PROT_NONE, flags, fd, 0);

	if (p == MAP_FAILED)
		return NULL;
	unlock(p, size);
	if (!mprotect(p, size, PROT_READ | PROT_WRITE))
		return p;
	unmap_memory(p, size);
	return NULL;
}

void *map_memory(size_t size)
{
	return map_lazily(size, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

void unmap_memory(void *p, size_t size)
{
	if (p)
		munmap(p, size);
}

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24 /* Linux 5.18 */
#endif

void clear_memory(void *p, size_t size)
{
	if (p && madvise(p, size, MADV_DONTNEED) && madvise(p, size, MADV_DONTNEED_LOCKED))
		memset(p, 0, size);
}

void forget_memory(void *p, size_t size)
{
	if (p && madvise(p, size, MADV_DONTNEED))
		madvise(p, size, MADV_DONTNEED_LOCKED);
}

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

void back_memory(void *p, size_t size)
{
	madvise(p, size, MADV_POPULATE_WRITE);
}

/* Raw system calls, here and below: an application may interpose close() and fcntl(). */
void sys_close(int fd)
{
	syscall(SYS_close, fd);
}

static int memfd_sealed(const char *name, size_t size)
{
	int fd = (int)syscall(SYS_memfd_create, name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
		fd = (int)syscall(SYS_memfd_create, name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (syscall(SYS_ftruncate, fd, size) ||
	    syscall(SYS_fcntl, fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		int err = -errno;

		sys_close(fd);
		return err;
	}
	int high = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, FD_FLOOR);
	if (high >= 0) {
		sys_close(fd);
		fd = high;
	}
	return fd;
}

/* newfstatat, not fstat: glibc's fstat is GLIBC_2.33 */
static int status_of(int fd, struct stat *out)
{
	return (int)syscall(SYS_newfstatat, fd, "", out, AT_EMPTY_PATH);
}

void *memfd_map(const char *name, size_t size, struct memfd *out)
{
	struct stat st;
	int fd = memfd_sealed(name, size);

	if (fd < 0) {
		errno = -fd;
		return NULL;
	}
	void *p = NULL;
	if (!status_of(fd, &st))
		p = map_lazily(size, MAP_SHARED, fd);
	if (!p) {
		int err = errno;

		sys_close(fd);
		errno = err;
		return NULL;
	}
	madvise(p, size, MADV_DONTFORK);
	*out = (struct memfd){fd, st.st_dev, st.st_ino};
	return p;
}

void memfd_close(const struct memfd *m)
{
	struct stat st;

	if (!status_of(m->fd, &st) && st.st_dev == m->dev && st.st_ino == m->inode)
		sys_close(m->fd);
}

void memfd_release(void *p, uint64_t size)
{
	unlock(p, size); /* else it is refused */
	madvise(p, size, MADV_REMOVE);
}

long read_file(const char *path, char *buf, size_t size)
{
	long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	long n = 0, r;
	while ((size_t)n < size && (r = syscall(SYS_read, fd, buf + n, size - (size_t)n)) > 0)
		n += r;
	sys_close((int)fd);
	return n;
}

long read_memory(uint64_t address, void *buf, size_t size)
{
	struct iovec local = {buf, size}, remote = {(void *)address, size};
	/* By the id of this thread: the process's leader may have ended, and then has no memory. */
	long n = syscall(SYS_process_vm_readv, sys_gettid(), &local, 1, &remote, 1, 0);

	return n < 0 ? -errno : n;
}

long probe_memory(const volatile void *address)
{
	/* The kernel reads the set before it finds out that ~0 is nothing to do with it. */
	syscall(SYS_rt_sigprocmask, ~0, address, NULL, sizeof(uint64_t));
	return errno == EINVAL ? 0 : -errno;
}

struct deadline deadline_in(uint64_t ns)
{
	return (struct deadline){.until = now_monotonic() + ns};
}

uint64_t deadline_left(struct deadline *d)
{
	uint64_t now = now_monotonic();

	if (now < d->until)
		return d->until - now;
	return d->looks++ < LAST_LOOKS ? LAST_LOOK_NS : 0;
}

int mutex_lock(struct mutex *m, uint64_t timeout_ns)
{
	struct deadline d = deadline_in(timeout_ns);
	uint32_t free = 0;

	if (__atomic_compare_exchange_n(&m->word, &free, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return 0;
	while (__atomic_exchange_n(&m->word, 2, __ATOMIC_ACQUIRE) != 0) {
		uint64_t left = timeout_ns ? deadline_left(&d) : 0;

		if (!left)
			return -ETIMEDOUT;
		futex_wait(&m->word, 2, left);
	}
	return 0;
}

void mutex_unlock(struct mutex *m)
{
	if (__atomic_exchange_n(&m->word, 0, __ATOMIC_RELEASE) == 2)
		futex_wake(&m->word);
}
