/* thread_look.c: where a thread is, by its files in /proc and by its stack. */
#define _GNU_SOURCE
#include "session/thread_look.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/sys.h"

#define RAN_NS (50 * NS_PER_US)      /* CPU time in which a raw index function (some ns) has surely ended */
#define STACK_BYTES (64 * 1024)
#define CONTEXT_RSP (40 + 15 * 8)    /* in struct ucontext: uc_mcontext.gregs[REG_RSP] */
#define CONTEXT_RIP (40 + 16 * 8)
#define IO_WORKER 0x10 /* PF_IO_WORKER, Linux 5.12 and later */

static uint64_t stack[STACK_BYTES / 8];

static bool in_ranges(const struct look_for *f, uint64_t address)
{
	for (uint32_t i = 0; i < f->count; i++)
		if (address >= f->ranges[i].lo && address < f->ranges[i].hi)
			return true;
	return false;
}

long thread_read_file(int listed, const char *name, char *buf, size_t size)
{
	char path[64];
	long n;

	snprintf(path, sizeof path, "/proc/self/task/%d/%s", listed, name);
	n = read_file(path, buf, size - 1);
	if (n >= 0)
		buf[n] = 0;
	return n;
}

uint64_t thread_handler_return(void)
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
 * Whether a word in [sp, sp + STACK_BYTES) is an address in the ranges, or begins a signal
 * frame of a function that has such a word on its stack. Stale words count, too: the wait
 * ends when they are overwritten, or when the tool has unwound the stack.
 */
static bool stack_hits(const struct look_for *f, uint64_t sp, int depth)
{
	long words = read_memory(sp, stack, sizeof stack) / 8;

	if (words <= 0)
		return true; /* cannot tell */
	for (long i = 0; i < words; i++) {
		if (in_ranges(f, stack[i]))
			return true;
		/* struct rt_sigframe: the restorer, then struct ucontext */
		if (!f->handler_return || stack[i] != f->handler_return || depth)
			continue;
		uint64_t at = sp + (uint64_t)i * 8 + 8, interrupted[2];
		if (read_memory(at + CONTEXT_RSP, interrupted, sizeof interrupted) != sizeof interrupted)
			return true;
		if (in_ranges(f, interrupted[1]) || stack_hits(f, interrupted[0], depth + 1))
			return true;
		words = read_memory(sp, stack, sizeof stack) / 8; /* the buffer was used */
	}
	return false;
}
_Static_assert(CONTEXT_RIP == CONTEXT_RSP + 8, "read together");

/* A worker of an io_uring runs kernel code only, and cannot be stopped. */
static bool is_io_worker(int listed)
{
	char stat[512];
	unsigned flags;

	if (thread_read_file(listed, "stat", stat, sizeof stat) <= 0)
		return false;
	const char *name_end = strrchr(stat, ')');
	return name_end && sscanf(name_end + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) == 1 && flags & IO_WORKER;
}

/* A running thread that blocks a signal with a handler is perhaps in a signal handler above
 * a raw function. */
static bool perhaps_in_handler(int listed)
{
	char buf[4096];

	if (thread_read_file(listed, "status", buf, sizeof buf) <= 0)
		return false; /* gone: the caller finds out */
	const char *blocked = strstr(buf, "SigBlk:"), *caught = strstr(buf, "SigCgt:");
	return !blocked || !caught || (strtoull(blocked + 7, NULL, 16) & strtoull(caught + 7, NULL, 16));
}

static enum thread_where look_running(struct pending_thread *s)
{
	uint64_t cpu_ns = sys_thread_cpu_ns(s->tid);

	if (!cpu_ns || is_io_worker(s->listed))
		return THREAD_GONE;
	if (perhaps_in_handler(s->listed)) {
		s->cpu_ns = 0;
		return THREAD_UNSURE;
	}
	if (!s->cpu_ns) {
		s->cpu_ns = cpu_ns;
		return THREAD_UNSURE;
	}
	if (cpu_ns - s->cpu_ns < RAN_NS)
		return THREAD_UNSURE;
	s->cpu_ns = cpu_ns;
	/* Twice: a handler may have used the first span. */
	return ++s->ran >= 2 ? THREAD_OUTSIDE : THREAD_UNSURE;
}

enum thread_where thread_look(struct pending_thread *s, const struct look_for *f)
{
	char buf[256];
	long n = thread_read_file(s->listed, "syscall", buf, sizeof buf);

	if (n == -ENOENT || n == -ESRCH || n == 0)
		return THREAD_GONE;
	if (n < 0)
		return THREAD_UNSURE;
	if (strncmp(buf, "running", 7) == 0)
		return look_running(s);
	char *pc = strrchr(buf, ' ');
	if (!pc)
		return THREAD_UNSURE;
	*pc = 0;
	char *sp = strrchr(buf, ' ');
	if (!sp || in_ranges(f, strtoull(pc + 1, NULL, 16)))
		return THREAD_UNSURE;
	uint64_t top = strtoull(sp + 1, NULL, 16);
	if (!top && !strtoull(pc + 1, NULL, 16))
		return THREAD_GONE; /* the leader, which has ended before the others, or a worker of an io_uring */
	return stack_hits(f, top, 0) ? THREAD_UNSURE : THREAD_OUTSIDE;
}
