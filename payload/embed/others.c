/*
 * others.c: the recorder's lock of a control block (internal/ring/lock.go is the tool's half), and the other
 * payloads that are resident in this process: rtl-attach has attached to it before, or it has a second copy of
 * this library.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <fcntl.h>

#include "abi.h"
#include "core/session_flags.h"
#include "embed.h"

#define OTHERS 16
#define SILENT_NS NS_PER_S /* a recorder beats ten times a second */
#define BEAT_LOOK_NS (20 * NS_PER_MS)

static struct {
	struct rtl_control *control;
	uint64_t owner;
} held[OTHERS];
static uint32_t held_count;

/* ---- one lock */

/* Field 22 of /proc/self/stat. */
static uint64_t start_ticks(void)
{
	char stat[1024];
	long n = read_file("/proc/self/stat", stat, sizeof stat - 1);

	stat[n > 0 ? n : 0] = 0;
	const char *at = strrchr(stat, ')');
	for (int field = 2; at && field < 22; field++)
		if ((at = strchr(at + 1, ' ')) == NULL)
			return 0;
	return at ? strtoull(at + 1, NULL, 10) : 0;
}

static uint64_t pid_namespace(void)
{
	struct stat st;

	return syscall(SYS_newfstatat, AT_FDCWD, "/proc/self/ns/pid", &st, 0) ? 0 : st.st_ino;
}

static uint64_t load(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

static bool has_session(struct rtl_control *c)
{
	uint32_t state = __atomic_load_n(&c->state, __ATOMIC_ACQUIRE);

	return state != RTL_STATE_IDLE && state != RTL_STATE_DORMANT;
}

/* A recorder that has not ended its session, or beats, is alive. */
static bool is_alive(struct rtl_control *c, uint64_t owner)
{
	uint64_t beat = load(&c->recorder.beat), until = now_monotonic() + SILENT_NS;

	if (has_session(c))
		return true;
	while (now_monotonic() < until) {
		if (load(&c->recorder.owner) != owner)
			return false;
		if (load(&c->recorder.beat) != beat)
			return true;
		sys_sleep_ns(BEAT_LOOK_NS);
	}
	return false;
}

int lock_recorder(struct rtl_control *c, uint64_t *owner)
{
	uint64_t pid = (uint64_t)syscall(SYS_getpid), old = load(&c->recorder.owner);
	uint64_t mine = pid << 32 | (uint32_t)(now_monotonic() | 1);

	if (old && is_alive(c, old))
		return -EBUSY;
	if (old == load(&c->recorder.owner)) { /* a dead holder's identity is not the new one's */
		__atomic_store_n(&c->recorder.start_ticks, 0, __ATOMIC_SEQ_CST);
		__atomic_store_n(&c->recorder.pidns, 0, __ATOMIC_SEQ_CST);
	}
	if (!__atomic_compare_exchange_n(&c->recorder.owner, &old, mine, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return -EBUSY;
	__atomic_store_n(&c->recorder.stop_request, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&c->recorder.start_ticks, start_ticks(), __ATOMIC_SEQ_CST);
	__atomic_store_n(&c->recorder.pidns, pid_namespace(), __ATOMIC_SEQ_CST);
	*owner = mine;
	return 0;
}

void unlock_recorder(struct rtl_control *c, uint64_t owner)
{
	if (load(&c->recorder.owner) != owner)
		return; /* taken over */
	__atomic_store_n(&c->recorder.start_ticks, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&c->recorder.pidns, 0, __ATOMIC_SEQ_CST);
	__atomic_compare_exchange_n(&c->recorder.owner, &owner, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* ---- all others */

/* Reads without faulting: the mapping may be another program's, and gone by now. */
static bool is_other(struct rtl_control *c)
{
	struct rtl_control seen;

	return c != control && read_memory((uint64_t)c, &seen, sizeof seen) == sizeof seen && seen.magic == RTL_CONTROL_MAGIC &&
	       seen.pid == (uint32_t)syscall(SYS_getpid);
}

/* The line of a mapping: "start-end rw-s 00000000 00:01 inode /memfd:rtl-control (deleted)". */
static int lock_mapping(const char *line)
{
	uint64_t start, end;
	char mode[8];

	if (!strstr(line, "/memfd:" RTL_CONTROL_NAME) || sscanf(line, "%lx-%lx %7s", &start, &end, mode) != 3 || mode[0] != 'r' ||
	    mode[1] != 'w' || end - start < RTL_CONTROL_SIZE)
		return 0;
	struct rtl_control *c = (struct rtl_control *)start;
	if (!is_other(c))
		return 0;
	for (uint32_t i = 0; i < held_count; i++)
		if (held[i].control == c)
			return 0;
	if (held_count == OTHERS)
		return -EBUSY;
	if (has_session(c) || lock_recorder(c, &held[held_count].owner))
		return -EBUSY;
	held[held_count++].control = c;
	return has_session(c) ? -EBUSY : 0; /* its recorder has died meanwhile */
}

int lock_others(void)
{
	char *line = NULL;
	size_t size = 0;
	int r = 0;
	FILE *maps = fopen("/proc/self/maps", "re");

	if (!maps)
		return 0; /* without /proc nobody attaches, either */
	while (!r && getline(&line, &size, maps) > 0)
		r = lock_mapping(line);
	free(line);
	fclose(maps);
	return r;
}

void unlock_others(void)
{
	while (held_count) {
		held_count--;
		unlock_recorder(held[held_count].control, held[held_count].owner);
	}
}
