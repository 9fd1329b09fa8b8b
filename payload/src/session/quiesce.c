#define _GNU_SOURCE
#include "session/quiesce.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/session_flags.h"
#include "record/worker.h"
#include "session/control_block.h"

#define ROUND_NS (100 * NS_PER_US)
#define ASK_AFTER_NS (40 * NS_PER_MS) /* a starved thread has had a turn by then; those left the tool stops */
#define ASKED_ROUND_NS (10 * NS_PER_MS) /* between looks until its answer, which wakes us; it may be starved, too */
#define RAN_NS (50 * NS_PER_US)      /* CPU time in which a raw index function (some ns) has surely ended */
#define STACK_BYTES (64 * 1024)
#define CONTEXT_RSP (40 + 15 * 8)    /* in struct ucontext: uc_mcontext.gregs[REG_RSP] */
#define CONTEXT_RIP (40 + 16 * 8)
#define THREADS_MAX 65536
#define TIDS_MAX (1u << 22) /* PID_MAX_LIMIT on 64-bit kernels */
#define IO_WORKER 0x10 /* PF_IO_WORKER, Linux 5.12 and later */
#define LISTINGS 3          /* a thread that ends may hide another from one of them */

struct pending_thread {
	int tid;         /* as system calls have it */
	int listed;      /* as /proc does: the same, unless it is an outer pid namespace's */
	uint64_t cpu_ns; /* when first seen running, 0: not yet */
	uint32_t ran;    /* times that its CPU clock has advanced by RAN_NS outside a handler */
	uint32_t waited;
};

static struct pending_thread *pending_threads;
static bool outer_proc; /* /proc shows an outer pid namespace */
static uint8_t *seen; /* bitmap over thread ids, for one listing */
static uint64_t stack[STACK_BYTES / 8];
static const struct rtl_range *ranges;
static uint32_t range_count;
static uint32_t asks; /* what of the block counts is kept here: others can write there */
static uint32_t asked[RTL_GRACE_ASK], asked_count;

static bool in_ranges(uint64_t address)
{
	for (uint32_t i = 0; i < range_count; i++)
		if (address >= ranges[i].lo && address < ranges[i].hi)
			return true;
	return false;
}

static long read_task_file(int tid, const char *name, char *buf, size_t size)
{
	char path[64];
	long n;

	snprintf(path, sizeof path, "/proc/self/task/%d/%s", tid, name);
	n = read_file(path, buf, size - 1);
	if (n >= 0)
		buf[n] = 0;
	return n;
}

/* The address that signal handlers return to: glibc gives it to the kernel
 * with every handler. A word of that value on a stack begins a signal frame. */
static uint64_t restorer(void)
{
	struct {
		uint64_t handler, flags, restorer, mask;
	} action;

	for (int sig = 1; sig <= 64; sig++)
		if (!syscall(SYS_rt_sigaction, sig, NULL, &action, 8) && action.handler > 1 && action.restorer)
			return action.restorer;
	return 0;
}

/*
 * Whether a word in [sp, sp + STACK_BYTES) is an address in the ranges, or a
 * signal frame below which one is. Stale words count: they are settled by
 * waiting, or by the tool, which unwinds.
 */
static bool stack_hits(uint64_t sp, uint64_t handler_return, int depth)
{
	long words = read_memory(sp, stack, sizeof stack) / 8;

	if (words <= 0)
		return true; /* cannot tell */
	for (long i = 0; i < words; i++) {
		if (in_ranges(stack[i]))
			return true;
		/* struct rt_sigframe: the restorer, then struct ucontext */
		if (!handler_return || stack[i] != handler_return || depth)
			continue;
		uint64_t at = sp + (uint64_t)i * 8 + 8, interrupted[2];
		if (read_memory(at + CONTEXT_RSP, interrupted, sizeof interrupted) != sizeof interrupted)
			return true;
		if (in_ranges(interrupted[1]) || stack_hits(interrupted[0], 0, depth + 1))
			return true;
		words = read_memory(sp, stack, sizeof stack) / 8; /* the buffer was used */
	}
	return false;
}
_Static_assert(CONTEXT_RIP == CONTEXT_RSP + 8, "read together");

/* An io_uring's: it runs no code but the kernel's, and cannot be stopped. */
static bool is_kernels(int listed)
{
	char stat[512];
	unsigned flags;

	if (read_task_file(listed, "stat", stat, sizeof stat) <= 0)
		return false;
	const char *name_end = strrchr(stat, ')');
	return name_end && sscanf(name_end + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) == 1 && flags & IO_WORKER;
}

/* A running thread is perhaps in a signal handler above a raw function when it
 * blocks a signal that has a handler. */
static bool perhaps_in_handler(int listed)
{
	char buf[4096];

	if (read_task_file(listed, "status", buf, sizeof buf) <= 0)
		return false; /* gone: the caller will see */
	const char *blocked = strstr(buf, "SigBlk:"), *caught = strstr(buf, "SigCgt:");
	return !blocked || !caught || (strtoull(blocked + 7, NULL, 16) & strtoull(caught + 7, NULL, 16));
}

enum where { OUTSIDE, UNSURE, GONE };

static enum where look_running(struct pending_thread *s)
{
	uint64_t cpu_ns = sys_thread_cpu_ns(s->tid);

	if (!cpu_ns || is_kernels(s->listed))
		return GONE;
	if (perhaps_in_handler(s->listed)) {
		s->cpu_ns = 0;
		return UNSURE;
	}
	if (!s->cpu_ns) {
		s->cpu_ns = cpu_ns;
		return UNSURE;
	}
	if (cpu_ns - s->cpu_ns < RAN_NS)
		return UNSURE;
	s->cpu_ns = cpu_ns;
	/* Twice: a handler may have eaten the first span. */
	return ++s->ran >= 2 ? OUTSIDE : UNSURE;
}

/* /proc/PID/task/TID/syscall: "running", or numbers ending in sp and pc. */
static enum where look_thread(struct pending_thread *s, uint64_t handler_return)
{
	char buf[256];
	long n = read_task_file(s->listed, "syscall", buf, sizeof buf);

	if (n == -ENOENT || n == -ESRCH || n == 0)
		return GONE;
	if (n < 0)
		return UNSURE;
	if (strncmp(buf, "running", 7) == 0)
		return look_running(s);
	char *pc = strrchr(buf, ' ');
	if (!pc)
		return UNSURE;
	*pc = 0;
	char *sp = strrchr(buf, ' ');
	if (!sp || in_ranges(strtoull(pc + 1, NULL, 16)))
		return UNSURE;
	uint64_t top = strtoull(sp + 1, NULL, 16);
	if (!top && !strtoull(pc + 1, NULL, 16))
		return GONE; /* it has no stack any more, a leader before the others, or is the kernel's (io_uring) */
	return stack_hits(top, handler_return, 0) ? UNSURE : OUTSIDE;
}

static bool is_ours(int tid)
{
	return tid == sys_gettid() || tid == worker_tid() || tid == control_tid();
}

struct dirent64 {
	uint64_t ino, off;
	uint16_t reclen;
	uint8_t type;
	char name[];
};

static bool is_new(int tid)
{
	if (tid <= 0 || tid >= (int)TIDS_MAX || is_ours(tid) || seen[tid / 8] & 1 << tid % 8)
		return false;
	seen[tid / 8] |= (uint8_t)(1 << tid % 8);
	return true;
}

static bool proc_is_outer(void)
{
	char self[16] = "";

	return syscall(SYS_readlinkat, AT_FDCWD, "/proc/self", self, sizeof self - 1) > 0 && atoi(self) != syscall(SYS_getpid);
}

/* What system calls call a thread that /proc lists: the last number of its NSpid. */
static int own_tid(int listed)
{
	char buf[4096];

	if (!outer_proc)
		return listed;
	if (read_task_file(listed, "status", buf, sizeof buf) <= 0)
		return 0; /* gone */
	char *line = strstr(buf, "\nNSpid:"), *end = line ? strchr(line + 1, '\n') : NULL;
	if (!end)
		return -EOVERFLOW; /* it has so many groups that they fill the buffer */
	*end = 0;
	return atoi(strrchr(line, '\t') + 1);
}

static long list_once(long count)
{
	_Alignas(8) char buf[8192];
	long fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC), n;

	if (fd < 0)
		return -errno;
	int err = 0;
	while (!err && (n = syscall(SYS_getdents64, fd, buf, sizeof buf)) > 0) {
		for (long at = 0; at < n;) {
			struct dirent64 *d = (struct dirent64 *)(buf + at);
			int listed = atoi(d->name), tid = listed ? own_tid(listed) : 0;

			at += d->reclen;
			if (tid < 0)
				err = tid;
			if (count < THREADS_MAX && is_new(tid))
				pending_threads[count++] = (struct pending_thread){.tid = tid, .listed = listed};
		}
	}
	if (n < 0)
		err = -errno;
	sys_close((int)fd);
	return err ? err : count;
}

/* Threads made after the patching cannot be inside: they need not be seen. */
static long list_threads(void)
{
	long count = 0;

	outer_proc = proc_is_outer();
	for (int i = 0; i < LISTINGS && count >= 0; i++)
		count = list_once(count);
	clear_memory(seen, TIDS_MAX / 8);
	return count;
}

/* Keeps those that are not known to be outside. */
static uint32_t look_at_all(uint32_t count, uint64_t handler_return)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct pending_thread s = pending_threads[i];

		if (look_thread(&s, handler_return) != UNSURE)
			continue;
		if (!s.waited++)
			COUNT(grace_waited);
		pending_threads[kept++] = s;
	}
	return kept;
}

static void ask(struct rtl_grace *block, uint32_t count)
{
	asked_count = count < RTL_GRACE_ASK ? count : RTL_GRACE_ASK;
	for (uint32_t i = 0; i < asked_count; i++) {
		block->tids[i] = asked[i] = (uint32_t)pending_threads[i].tid;
		block->verdicts[i] = RTL_VERDICT_NONE;
	}
	block->count = asked_count;
	memcpy(block->ranges, ranges, range_count * sizeof *ranges);
	block->range_count = range_count;
	COUNT_N(grace_asked, asked_count);
	__atomic_store_n(&block->ask_seq, ++asks, __ATOMIC_RELEASE); /* pairs with the tool's acquire */
	futex_wake_shared(&block->ask_seq);
}

static uint32_t verdict_on(const struct rtl_grace *block, int tid)
{
	for (uint32_t i = 0; i < asked_count; i++)
		if (asked[i] == (uint32_t)tid)
			return __atomic_load_n(&block->verdicts[i], __ATOMIC_RELAXED);
	return RTL_VERDICT_NONE;
}

/* The tool has answered: drops whom it cleared. However late, a verdict holds:
 * whoever was outside after the patching stays so. */
static uint32_t take_verdicts(struct rtl_grace *block, uint32_t count)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t v = verdict_on(block, pending_threads[i].tid);

		if (v == RTL_VERDICT_OUTSIDE || v == RTL_VERDICT_GONE)
			continue;
		pending_threads[kept++] = pending_threads[i];
	}
	return kept;
}

static bool answered(const struct rtl_grace *block)
{
	return __atomic_load_n(&block->answer_seq, __ATOMIC_ACQUIRE) == asks;
}

static int prepare(void)
{
	if (!pending_threads)
		pending_threads = map_memory(THREADS_MAX * sizeof *pending_threads);
	if (!seen)
		seen = map_memory(TIDS_MAX / 8);
	return pending_threads && seen ? 0 : -ENOMEM;
}

static int wait_for_pending_threads(long count, uint64_t timeout_ns, const uint32_t *cancel, uint32_t *left)
{
	struct rtl_grace *block = (struct rtl_grace *)((char *)control + RTL_GRACE_OFFSET);
	uint64_t from = now_monotonic(), handler_return = restorer();
	bool waits = false; /* for an answer */

	for (;;) {
		uint64_t spent = now_monotonic() - from;

		if (waits && answered(block)) {
			count = take_verdicts(block, (uint32_t)count);
			waits = false;
		}
		count = look_at_all((uint32_t)count, handler_return);
		__atomic_store_n(&counters->grace_ns, spent, __ATOMIC_RELAXED);
		*left = (uint32_t)count;
		if (!count)
			return 0;
		if (__atomic_load_n(cancel, __ATOMIC_RELAXED))
			return -ECANCELED;
		if (spent > timeout_ns)
			return -ETIMEDOUT;
		if (!waits && spent > ASK_AFTER_NS) {
			ask(block, (uint32_t)count);
			waits = true;
		}
		futex_wait_shared(&block->answer_seq, block->answer_seq, waits ? ASKED_ROUND_NS : ROUND_NS);
	}
}

int grace_wait(const struct rtl_range *of, uint32_t of_count, uint64_t timeout_ns, const uint32_t *cancel, uint32_t *left)
{
	int err = prepare();

	if (err)
		return err;
	ranges = of;
	range_count = of_count;
	long count = list_threads();
	if (count < 0)
		return (int)count;
	COUNT_N(grace_threads, (uint64_t)count);
	int r = wait_for_pending_threads(count, timeout_ns, cancel, left);
	forget_memory(pending_threads, THREADS_MAX * sizeof *pending_threads);
	return r;
}
