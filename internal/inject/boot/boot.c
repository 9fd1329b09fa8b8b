/*
 * boot.c: runs in the target, on two threads of our own. Freestanding, without data and
 * relocations: the functions that it calls are in struct rtl_boot.
 */
#include "boot.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/memfd.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <dlfcn.h>
#include <signal.h>
#include <time.h>

#ifndef F_ADD_SEALS /* fcntl.h shows them with _GNU_SOURCE only */
#define F_ADD_SEALS 1033
#define F_SEAL_SEAL 1
#define F_SEAL_SHRINK 2
#define F_SEAL_GROW 4
#endif

/* entry.S spells these as numbers. */
_Static_assert(offsetof(struct rtl_boot, map_start) == 64, "entry.S");
_Static_assert(offsetof(struct rtl_boot, map_bytes) == 72, "entry.S");
_Static_assert(offsetof(struct rtl_boot, munmap) == 176, "entry.S");
_Static_assert(sizeof(pthread_attr_t) <= sizeof(((struct rtl_boot *)0)->attr), "attr fits");

/* Hidden: otherwise its address comes from a table that is never relocated. */
__attribute__((visibility("hidden"))) void *rtl_boot_thread_entry(void *);

static inline long syscall6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall" : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}
#define syscall4(nr, a, b, c, d) syscall6(nr, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define syscall3(nr, a, b, c) syscall4(nr, a, b, c, 0)

static inline uint32_t load(uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static inline void store(uint32_t *p, uint32_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

static void fail(struct rtl_boot *b, enum rtl_boot_failed what, long error)
{
	b->failed = what;
	b->error = (int32_t)error;
	store(&b->phase, RTL_BOOT_FAILED);
}

/* Blocks every signal but glibc's own, 32 and 33: if any thread blocks 33, setuid() in the
 * target waits for that thread forever. */
static void block_signals(void)
{
	uint64_t mask = ~(1ull << (32 - 1) | 1ull << (33 - 1));

	syscall4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, sizeof(mask));
}

/* Does what libc does when a thread of its own ends: an allocator such as jemalloc has this
 * thread in its lists by now, and would follow them into unmapped memory. (glibc's
 * allocator has no such list. What it keeps for a thread, 656 bytes and perhaps an arena,
 * is not freed. That happens only if pthread_create has to allocate: from the second
 * injection on it reuses the stack of the first.) */
static void end_thread_data(struct rtl_boot *b)
{
	struct key { /* struct pthread_key_struct: the same in every glibc */
		uint64_t seq;
		void (*destructor)(void *);
	} *keys = (void *)b->pthread_keys;
	void *(*get)(unsigned) = (void *)b->pthread_getspecific;
	int (*set)(unsigned, const void *) = (void *)b->pthread_setspecific;
	int rounds, again = 1;
	unsigned k;

	if (b->call_tls_dtors)
		((void (*)(void))b->call_tls_dtors)();
	for (rounds = 0; keys && again && rounds < PTHREAD_DESTRUCTOR_ITERATIONS; rounds++) {
		again = 0;
		for (k = 0; k < PTHREAD_KEYS_MAX; k++) {
			void *data = get(k);

			if (!data)
				continue;
			set(k, 0);
			if (keys[k].destructor) {
				keys[k].destructor(data);
				again = 1;
			}
		}
	}
}

/* The raw thread has a TCB that the tool made, which libc does not know. It may wait for the
 * locks of malloc and of the loader, because all other threads run. */
void rtl_boot_raw(struct rtl_boot *b)
{
	int (*attr_init)(void *) = (void *)b->pthread_attr_init;
	int (*set_detached)(void *, int) = (void *)b->pthread_attr_setdetachstate;
	int (*create)(void *, void *, void *(*)(void *), void *) = (void *)b->pthread_create;
	int error;

	store(&b->phase, RTL_BOOT_RAW);
	*(uint32_t *)b->tid_at = b->raw_tid;
	block_signals();
	/* A child that the application forks does not need this. */
	syscall3(SYS_madvise, b->map_start, b->map_bytes, MADV_DONTFORK);
	if (b->ctype_init)
		((void (*)(void))b->ctype_init)();
	attr_init(b->attr);
	set_detached(b->attr, PTHREAD_CREATE_DETACHED);
	error = create(&b->thread, b->attr, rtl_boot_thread_entry, b);
	end_thread_data(b);
	if (error)
		fail(b, RTL_BOOT_PTHREAD_CREATE, -error);
}

static int copy(char *to, const char *from, int size)
{
	int i;

	for (i = 0; i < size - 1 && from && from[i]; i++)
		to[i] = from[i];
	to[i] = 0;
	return i;
}

/* Copies the loader's text now: the next call, or the end of the thread, frees it. */
static void copy_error(struct rtl_boot *b, struct rtl_boot_shared *s)
{
	copy(s->text, ((char *(*)(void))b->dlerror)(), sizeof(s->text));
}

static void run_command(struct rtl_boot *b, struct rtl_boot_shared *s, uint64_t *watched)
{
	s->result = 0;
	switch (s->command) {
	case RTL_BOOT_NONE:
		break;
	case RTL_BOOT_LOAD:
		s->handle = (uint64_t)((void *(*)(const char *, int))b->dlopen)(s->path, RTLD_NOW | RTLD_LOCAL);
		if (!s->handle) {
			s->result = -ENOENT;
			copy_error(b, s);
		}
		break;
	case RTL_BOOT_RESOLVE:
		s->address = (uint64_t)((void *(*)(void *, const char *))b->dlsym)((void *)s->handle, s->name);
		if (!s->address) {
			s->result = -ENOENT;
			copy_error(b, s);
		}
		break;
	case RTL_BOOT_CALL:
		s->result = ((int (*)(const void *, uint64_t))s->address)(s->env, s->env_bytes);
		break;
	case RTL_BOOT_CALL_TEXT:
		s->result = ((int (*)(const void *, const char *))s->address)(s->env, s->path);
		break;
	case RTL_BOOT_WATCH:
		*watched = s->address;
		break;
	default:
		s->result = -EINVAL;
	}
}

/* How often the thread wakes up within idle_ns. If the machine was suspended for all that
 * time, or the tool gets no CPU either, the tool is not dead. */
#define IDLE_STEPS 20

/* Serves commands until LEAVE, or until none has come for idle_ns: then the tool is dead or
 * stopped, and this thread removes what the tool has left. It first calls the watched function:
 * that ends what the tool has begun. */
static void serve(struct rtl_boot *b, struct rtl_boot_shared *s)
{
	uint64_t step_ns = b->idle_ns / IDLE_STEPS, watched = 0;
	struct timespec step = {step_ns / 1000000000, step_ns % 1000000000};
	uint32_t seen = 0, seq, left;

	for (;;) {
		for (left = IDLE_STEPS; (seq = load(&s->command_seq)) == seen;)
			if (syscall4(SYS_futex, &s->command_seq, FUTEX_WAIT, seen, &step) == -ETIMEDOUT &&
			    load(&s->command_seq) == seen && !--left) {
				if (watched)
					((int (*)(void))watched)();
				return;
			}
		seen = seq;
		if (s->command == RTL_BOOT_LEAVE)
			return;
		run_command(b, s, &watched);
		store(&s->answer_seq, seq);
		syscall3(SYS_futex, &s->answer_seq, FUTEX_WAKE, INT_MAX);
	}
}

/* Without MFD_EXEC, which vm.memfd_noexec = 2 refuses: the file can be mapped executable
 * without it. */
static int new_memfd(const char *name)
{
	return (int)syscall3(SYS_memfd_create, name, MFD_CLOEXEC | MFD_ALLOW_SEALING, 0);
}

static long map_shared(struct rtl_boot *b)
{
	long at, error;

	error = syscall3(SYS_ftruncate, b->shared_fd, sizeof(struct rtl_boot_shared), 0);
	if (error) {
		fail(b, RTL_BOOT_TRUNCATE, error);
		return 0;
	}
	error = syscall3(SYS_fcntl, b->shared_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	if (error) {
		fail(b, RTL_BOOT_SEAL, error);
		return 0;
	}
	at = syscall6(SYS_mmap, 0, sizeof(struct rtl_boot_shared), PROT_READ | PROT_WRITE, MAP_SHARED,
		      b->shared_fd, 0);
	if (at < 0 && at > -4096) {
		fail(b, RTL_BOOT_MMAP, at);
		return 0;
	}
	syscall3(SYS_madvise, at, sizeof(struct rtl_boot_shared), MADV_DONTFORK);
	return at;
}

/* The pthread. When it returns, entry.S unmaps this code and the raw thread's stack: the raw
 * thread must have ended by then. */
void rtl_boot_thread(struct rtl_boot *b)
{
	char shared_name[] = "rtl-boot", payload_name[] = "rtl-payload", thread_name[] = "rtl-boot";
	struct timespec reading = {0, 100000000}; /* for the tool to read the error */
	struct rtl_boot_shared *s = 0;
	uint32_t alive;

	store(&b->phase, RTL_BOOT_THREAD);
	syscall3(SYS_prctl, PR_SET_NAME, thread_name, 0);
	b->thread_tid = (uint32_t)syscall3(SYS_gettid, 0, 0, 0);
	while ((alive = load(&b->raw_alive)))
		syscall4(SYS_futex, &b->raw_alive, FUTEX_WAIT, alive, 0);

	b->shared_fd = new_memfd(shared_name);
	b->payload_fd = new_memfd(payload_name);
	if (b->shared_fd < 0 || b->payload_fd < 0) {
		fail(b, RTL_BOOT_MEMFD, b->shared_fd < 0 ? b->shared_fd : b->payload_fd);
	} else if ((s = (void *)map_shared(b))) {
		s->nonce = b->nonce;
		store(&b->phase, RTL_BOOT_READY);
		serve(b, s);
		syscall3(SYS_munmap, s, sizeof(*s), 0);
	}
	if (b->phase == RTL_BOOT_FAILED)
		syscall3(SYS_nanosleep, &reading, 0, 0);
	if (b->shared_fd >= 0)
		syscall3(SYS_close, b->shared_fd, 0, 0);
	if (b->payload_fd >= 0)
		syscall3(SYS_close, b->payload_fd, 0, 0);
}
