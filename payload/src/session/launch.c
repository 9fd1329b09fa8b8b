/*
 * launch.c: see launch.h.
 *
 * OnLoad runs inside hsa_init, with the runtime's lock: a session cannot begin there, because an
 * arming calls hsa_init. So the wait is in the first call after it. No program has a queue or memory
 * of a GPU before it has called hsa_iterate_agents, which gives it the agents.
 */
#define _GNU_SOURCE
#include "session/launch.h"

#include <errno.h>
#include <hsa/hsa.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "abi.h"
#include "core/hooks.h"
#include "core/runtime.h"
#include "core/session_flags.h"
#include "core/sys.h"
#include "record/worker.h"
#include "session/control_block.h"

#define WAIT_NS (10 * NS_PER_S) /* for a recorder that lives; a dead one is noticed at once */
#define WAITERS_MAX 16

typedef hsa_status_t (*agent_callback)(hsa_agent_t, void *);
typedef hsa_status_t (*iterate_function)(agent_callback, void *);

static hsa_status_t wrap_iterate_agents(agent_callback callback, void *data);

static struct hook launch_hooks[] = {HOOK("hsa_iterate_agents", wrap_iterate_agents, HOOK_REQUIRED)};
static const struct hook_table launch_table = HOOK_TABLE(launch_hooks);
static struct mutex patching; /* the table */

/* futex word */
enum { GATE_OPEN, GATE_SHUT, GATE_WAITING };
static uint32_t gate;

static int waiters[WAITERS_MAX]; /* thread ids; 0: free */

static struct sockaddr_un recorder = {.sun_family = AF_UNIX};
static socklen_t recorder_len;

/* The recorder listens at an abstract address, whose name the tool has put into the environment. */
static bool find_recorder(void)
{
	const char *name = secure_getenv(RTL_LAUNCHED);
	size_t len = name ? strlen(name) : 0;

	if (!len || len > sizeof recorder.sun_path - 1)
		return false;
	memcpy(recorder.sun_path + 1, name, len);
	recorder_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
	return true;
}

void launch_prepare(void)
{
	char err[RTL_TEXT_MAX];

	/* Active: the program has initialized a second copy of the runtime. */
	if (!find_recorder() || control_state() == RTL_STATE_ACTIVE || mutex_lock(&patching, NS_PER_S))
		return;
	if (!runtime_find("", err, sizeof err) && !hooks_find(&launch_table, err, sizeof err)) {
		__atomic_store_n(&gate, GATE_SHUT, __ATOMIC_RELEASE);
		hooks_patch(&launch_table);
	}
	mutex_unlock(&patching);
}

void launch_restore_hook(void)
{
	if (mutex_lock(&patching, NS_PER_S))
		return;
	hooks_restore(&launch_table);
	mutex_unlock(&patching);
}

bool launch_is_due(void)
{
	return __atomic_load_n(&gate, __ATOMIC_ACQUIRE) == GATE_SHUT;
}

bool launch_is_waiting(int tid)
{
	for (int i = 0; i < WAITERS_MAX; i++)
		if (__atomic_load_n(&waiters[i], __ATOMIC_RELAXED) == tid)
			return true;
	return false;
}

static int *note_waiter(int tid)
{
	for (int i = 0; i < WAITERS_MAX; i++) {
		int unused = 0;

		if (__atomic_compare_exchange_n(&waiters[i], &unused, tid, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return &waiters[i];
	}
	return NULL;
}

/* The recorder sends nothing: it closes the connection when this thread shall go on, and the
 * kernel does that when the recorder dies. */
static void wait_for_close(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct deadline d = deadline_in(WAIT_NS);
	uint64_t left;
	long r = 0;

	while (r == 0 && (left = deadline_left(&d))) {
		r = syscall(SYS_poll, &p, 1, (int)(left / NS_PER_MS) + 1);
		if (r < 0 && errno == EINTR)
			r = 0;
	}
}

static void ask_recorder(void)
{
	/* NONBLOCK: a recorder that does not accept would block connect(). */
	int fd = (int)syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return;
	if (!syscall(SYS_connect, fd, &recorder, recorder_len))
		wait_for_close(fd);
	sys_close(fd);
}

static void open_gate(void)
{
	launch_restore_hook();
	__atomic_store_n(&gate, GATE_OPEN, __ATOMIC_RELEASE);
	futex_wake(&gate);
}

static void wait_for_gate(void)
{
	struct deadline d = deadline_in(WAIT_NS);
	uint64_t left;

	while (__atomic_load_n(&gate, __ATOMIC_ACQUIRE) == GATE_WAITING && (left = deadline_left(&d)))
		futex_wait(&gate, GATE_WAITING, left);
}

/* The first thread asks the recorder, others wait for the first. */
static void pass_gate(void)
{
	uint32_t shut = GATE_SHUT;
	int tid = sys_gettid(), err = errno;

	if (tid == control_tid() || tid == worker_tid())
		return; /* they begin the session that the others wait for */
	int *waiter = note_waiter(tid);
	if (!waiter)
		return;
	if (__atomic_compare_exchange_n(&gate, &shut, GATE_WAITING, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		ask_recorder();
		open_gate();
	} else {
		wait_for_gate();
	}
	__atomic_store_n(waiter, 0, __ATOMIC_RELAXED);
	errno = err;
}

static hsa_status_t wrap_iterate_agents(agent_callback callback, void *data)
{
	if (is_original_process() && __atomic_load_n(&gate, __ATOMIC_ACQUIRE) != GATE_OPEN)
		pass_gate();
	return NEXT(launch_hooks[0], iterate_function)(callback, data);
}
