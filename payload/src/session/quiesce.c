/* quiesce.c: waits until no thread is inside a raw function, and asks the tool about threads
 * that only a stop can clear. */
#define _GNU_SOURCE
#include "session/quiesce.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/session_flags.h"
#include "record/worker.h"
#include "session/control_block.h"
#include "session/launch.h"
#include "session/periods.h"
#include "session/thread_look.h"

#define ROUND_NS (100 * NS_PER_US)
#define ASK_AFTER_NS (40 * NS_PER_MS) /* by then a starved thread has had a turn; the tool stops the others */
#define ASKED_ROUND_NS (10 * NS_PER_MS) /* between looks until its answer, which wakes us; the tool may be starved, too */
#define THREADS_MAX 65536
#define TIDS_MAX (1u << 22) /* PID_MAX_LIMIT on 64-bit kernels */
#define LISTINGS 3          /* a thread that ends may hide another from one of them */

static struct pending_thread *pending_threads;
static bool outer_proc; /* /proc shows an outer pid namespace */
static uint8_t *seen; /* bitmap over thread ids, for one listing */
static uint32_t asks; /* never read back from the block: other processes can write there */
static uint32_t asked[RTL_GRACE_ASK], asked_count;

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

/* Whether this listing meets the thread for the first time. */
static bool is_new(int tid)
{
	if (tid <= 0 || tid >= (int)TIDS_MAX || is_ours(tid) || launch_is_waiting(tid) || seen[tid / 8] & 1 << tid % 8)
		return false;
	seen[tid / 8] |= (uint8_t)(1 << tid % 8);
	return true;
}

static bool proc_is_outer(void)
{
	char self[16] = "";

	return syscall(SYS_readlinkat, AT_FDCWD, "/proc/self", self, sizeof self - 1) > 0 && atoi(self) != syscall(SYS_getpid);
}

/* The id that system calls use for a thread that /proc lists: the last number of its NSpid. */
static int own_tid(int listed)
{
	char buf[4096];

	if (!outer_proc)
		return listed;
	if (thread_read_file(listed, "status", buf, sizeof buf) <= 0)
		return 0; /* gone */
	char *line = strstr(buf, "\nNSpid:"), *end = line ? strchr(line + 1, '\n') : NULL;
	if (!end)
		return -EOVERFLOW; /* it is in so many groups that they fill the buffer */
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
			if (!is_new(tid))
				continue;
			if (count == THREADS_MAX) {
				err = -E2BIG;
				break;
			}
			pending_threads[count++] = (struct pending_thread){.tid = tid, .listed = listed};
		}
	}
	if (n < 0)
		err = -errno;
	sys_close((int)fd);
	return err ? err : count;
}

/* A thread that was made after the patching cannot be inside: it may be missed. */
static long list_threads(void)
{
	long count = 0;

	outer_proc = proc_is_outer();
	for (int i = 0; i < LISTINGS && count >= 0; i++)
		count = list_once(count);
	clear_memory(seen, TIDS_MAX / 8);
	return count;
}

/* Keeps the threads that are not known to be outside. */
static uint32_t look_at_all(uint32_t count, const struct look_for *f)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct pending_thread s = pending_threads[i];

		if (thread_look(&s, f) != THREAD_UNSURE)
			continue;
		if (!s.waited++)
			COUNT(grace_waited);
		pending_threads[kept++] = s;
	}
	return kept;
}

static void ask(struct rtl_grace *block, const struct look_for *f, uint32_t count)
{
	asked_count = count < RTL_GRACE_ASK ? count : RTL_GRACE_ASK;
	for (uint32_t i = 0; i < asked_count; i++) {
		block->tids[i] = asked[i] = (uint32_t)pending_threads[i].tid;
		block->verdicts[i] = RTL_VERDICT_NONE;
	}
	block->count = asked_count;
	memcpy(block->ranges, f->ranges, f->count * sizeof *f->ranges);
	block->range_count = f->count;
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

/* The tool has answered: drops the threads that it cleared. A late verdict is still true:
 * a thread that was outside after the patching stays outside. */
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

static int wait_for_pending_threads(long count, const struct look_for *f, uint64_t timeout_ns, const uint32_t *cancel, uint32_t *left)
{
	struct rtl_grace *block = (struct rtl_grace *)((char *)control + RTL_GRACE_OFFSET);
	uint64_t from = now_monotonic();
	bool waits = false; /* for an answer */

	for (;;) {
		uint64_t spent = now_monotonic() - from;

		if (waits && answered(block)) {
			count = take_verdicts(block, (uint32_t)count);
			waits = false;
		}
		count = look_at_all((uint32_t)count, f);
		__atomic_store_n(&counters->grace_ns, spent, __ATOMIC_RELAXED);
		*left = (uint32_t)count;
		if (!count)
			return 0;
		if (__atomic_load_n(cancel, __ATOMIC_RELAXED))
			return -ECANCELED;
		if (spent > timeout_ns)
			return -ETIMEDOUT;
		if (!waits && spent > ASK_AFTER_NS && !periods_are_on()) {
			ask(block, f, (uint32_t)count);
			waits = true;
		}
		futex_wait_shared(&block->answer_seq, block->answer_seq, waits ? ASKED_ROUND_NS : ROUND_NS);
	}
}

int grace_wait(const struct rtl_range *ranges, uint32_t range_count, uint64_t timeout_ns, const uint32_t *cancel, uint32_t *left)
{
	int err = prepare();

	if (err)
		return err;
	long count = list_threads();
	const struct look_for f = {.ranges = ranges, .count = range_count, .handler_return = thread_handler_return()};
	int r = (int)count;
	if (count >= 0) {
		COUNT_N(grace_threads, (uint64_t)count);
		r = wait_for_pending_threads(count, &f, timeout_ns, cancel, left);
	}
	forget_memory(pending_threads, THREADS_MAX * sizeof *pending_threads);
	return r;
}
