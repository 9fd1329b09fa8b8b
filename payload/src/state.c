/* state.c: how a session begins and ends (design.md section 4). */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "agents.h"
#include "control.h"
#include "copies.h"
#include "fault.h"
#include "grace.h"
#include "handoff.h"
#include "hooks.h"
#include "names.h"
#include "pool.h"
#include "publish.h"
#include "ranges.h"
#include "ring.h"
#include "runtime.h"
#include "session.h"
#include "signals.h"
#include "threads.h"
#include "worker.h"
#include "wrappers.h"

#define READY_AT_START 8
#define LOCK_TIMEOUT_NS (10 * NS_PER_S)
#define CLOSE_MOST_NS (3 * NS_PER_S)
#define DELIVERY_MOST_NS (8 * NS_PER_S)

/* disarm(), each step at its worst but for the drain's time-out. A detach that
 * has to wait for another end finds the session ended then. */
_Static_assert(COPIES_CLOSE_NS + CLOSE_MOST_NS + CLOSE_PUSH_MOST_NS + WORKER_DRAIN_OVER_NS + WORKER_ABANDON_MOST_NS + DELIVERY_MOST_NS +
			       WORKER_ROUND_MOST_NS + WORKER_STOP_MOST_NS <=
		       RTL_DETACH_MOST_MS * NS_PER_MS,
	       "a detach is answered in time for the tool");

struct gate gate;
struct rtl_config config;
struct rtl_counters *counters;
const volatile uint32_t *owner_page;

static struct mutex lock; /* one arming or disarming at a time */
static uint32_t cancelled;
static uint32_t unfinished; /* see session_is_unfinished() */

void control_set_state(enum rtl_state s)
{
	__atomic_store_n(&control->state, s, __ATOMIC_RELEASE);
	futex_wake_shared(&control->state);
}

int control_fail(int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(control->error_text, sizeof control->error_text, format, args);
	va_end(args);
	control->error = err;
	return err;
}

int session_own(void)
{
	uint32_t *page = owner_page ? NULL : map_memory(RTL_PAGE);

	if (owner_page)
		return 0;
	if (!page || madvise(page, RTL_PAGE, MADV_WIPEONFORK))
		return -errno;
	*page = 1;
	owner_page = page;
	return 0;
}

static hsa_status_t shut_down(void)
{
	return NEXT(SHUT_DOWN, hsa_status_t (*)(void))();
}

/*
 * Until our wrapper stands before hsa_shut_down, a reference of our own keeps
 * the runtime from ending while we call it.
 */
static int hold_runtime(void)
{
	if (atomic_load(&wrap_shutting_down) || !runtime_open() || rt.init())
		return control_fail(-ENODEV, "the HSA runtime is loaded, but hsa_init has not been called (or hsa_shut_down has)");
	return 0;
}

/* From here on the wrapper protects us. Ours may turn out to be the last one. */
static int let_runtime_go(void)
{
	shut_down();
	if (!runtime_open())
		return control_fail(-ECANCELED, "the application called hsa_shut_down meanwhile");
	return 0;
}

static int find_everything(void)
{
	char err[RTL_TEXT_MAX];
	int r;

	if ((r = runtime_find(config.hsa_library, err, sizeof err)))
		return control_fail(r, "%s", err);
	if ((r = hooks_find(err, sizeof err)))
		return control_fail(r, "%s", err);
	return 0;
}

static int ask_runtime(void)
{
	char err[RTL_TEXT_MAX];
	int r;

	if ((r = runtime_load_extension(err, sizeof err)))
		return control_fail(r, "%s", err);
	if (agents_find())
		return control_fail(-ENODEV, "the HSA runtime knows no GPU agent");
	return 0;
}

static int prepare_copies(void)
{
	char err[RTL_TEXT_MAX];
	int r = copies_init(err, sizeof err);

	return r ? control_fail(r, "%s", err) : 0;
}

static int prepare_memory(void)
{
	if (pool_init() || handoff_init() || signals_init() || names_init())
		return control_fail(-ENOMEM, "no memory for the session's tables");
	signals_reset();
	names_reset();
	queue_reset_all();
	memset(counters, 0, sizeof *counters);
	if (queue_make_ready(READY_AT_START))
		return control_fail(-ENOMEM, "the HSA runtime makes no more signals");
	return prepare_copies();
}

static void describe_ring(void)
{
	uint64_t size, inode;
	int fd;

	ring_describe(&size, &inode, &fd);
	control->ring_fd = fd;
	control->ring_inode = inode;
	__atomic_store_n(&control->ring_size, size, __ATOMIC_RELEASE);
}

static void describe_hooks(void)
{
	struct hooks_tally t = hooks_tally();

	control->hooks_patched = t.patched;
	control->hooks_buried = t.buried;
	control->hooks_missing = t.missing;
}

/* What threads must have left: the raw index functions, and our own wrappers,
 * where the last session may have left a thread. */
static void set_ranges(void)
{
	struct rtl_grace *g = (struct rtl_grace *)((char *)control + RTL_GRACE_OFFSET);
	struct rtl_range own;

	g->range_count = hooks_index_ranges(g->ranges, RTL_GRACE_RANGES - 1);
	if (text_of((const void *)set_ranges, &own))
		g->ranges[g->range_count++] = own;
}

static int wait_grace(void)
{
	struct rtl_grace *g = (struct rtl_grace *)((char *)control + RTL_GRACE_OFFSET);
	uint32_t left = 0;

	if (TEST_KNOB(no_grace))
		return 0;
	int r = grace_wait(g, config.grace_timeout_ms * NS_PER_MS, &cancelled, &left);
	if (r == -ETIMEDOUT)
		return control_fail(r, "%u threads may still be inside a write-index function after %llu ms", left,
				    (unsigned long long)config.grace_timeout_ms);
	if (r)
		return control_fail(r, "the wait for other threads was given up: %s", strerror(-r));
	return 0;
}

static void begin_generation(void)
{
	control->generation++;
	control->error = 0;
	control->error_text[0] = 0;
	control->armed_ns = control->detached_ns = 0;
	control->skip_drain = 0;
	__atomic_store_n(&cancelled, 0, __ATOMIC_RELAXED);
	atomic_store(&gate.generation, control->generation);
	atomic_store(&gate.stamp_boottime, config.stamp == RTL_STAMP_BOOTTIME);
	thread_find_tid_offset(config.thread_id_offset);
}

static void unpatch(void)
{
	hooks_restore(HOOK_COPY);
	hooks_restore(HOOK_INDEX);
	hooks_restore(HOOK_SIGNAL);
	atomic_store(&gate.track, 0);
	describe_hooks();
}

static void give_back_memory(void)
{
	pool_destroy_all();
	queue_forget_memory();
	control->queues_kept = atomic_load(&queue_count);
	control->signals_kept = (uint32_t)pool_count(); /* the hardware may still write them */
}

static int step(const char *name)
{
	return fault_at(name) ? control_fail(-EIO, "made to fail at %s", name) : 0;
}

/* Ring and worker: what must be there before the first slot is patched. */
static int start(void)
{
	int r = ring_open(&config, control->generation);

	if (r)
		return control_fail(r, "no ring of %llu bytes: %s", (unsigned long long)config.buffer_size_bytes, strerror(-r));
	describe_ring();
	if ((r = step("ring")))
		goto ring;
	if ((r = worker_start())) {
		control_fail(r, "no worker thread: %s", strerror(-r));
		goto ring;
	}
	control->worker_tid = (uint32_t)worker_tid();
	return 0;
ring:
	ring_close();
	describe_ring();
	return r;
}

static bool stop(enum rtl_end why)
{
	if (!worker_stop(why, control->armed_ns, control->detached_ns))
		return false;
	control->worker_tid = 0;
	ring_close();
	describe_ring();
	return true;
}

/*
 * The last part of every end. While the worker is held up, all that it uses stays,
 * and the wrappers that keep signals and runtime there for it. After an end of the
 * runtime nobody tries again: the signals to be destroyed went with it.
 */
static int finish(enum rtl_end why)
{
	bool ended = stop(why);

	__atomic_store_n(&unfinished, !ended && why != RTL_END_SHUT_DOWN && why != RTL_END_EXIT, __ATOMIC_RELAXED);
	control->last_end = why;
	if (!ended)
		return control_fail(-EBUSY, "the end of the session is put off: its worker is held up inside the runtime");
	step("stopped");
	give_back_memory();
	unpatch(); /* last: the wrapper of hsa_shut_down has kept the runtime there for us */
	step("unpatched");
	return 0;
}

bool session_is_unfinished(void)
{
	return __atomic_load_n(&unfinished, __ATOMIC_RELAXED);
}

/* Also some time after a finish() that was put off. */
static int finish_session(enum rtl_end why)
{
	int r = finish(why);

	if (!r)
		control_set_state(RTL_STATE_DORMANT);
	return r;
}

/* Acquires downward, releases upward. */
static int arm(void)
{
	bool held = false;
	int r;

	if ((r = find_everything()) || (r = step("find")) || (r = hold_runtime()))
		return r;
	held = true;
	if ((r = ask_runtime()) || (r = prepare_memory()) || (r = step("memory")) || (r = start()))
		goto memory;
	if ((r = step("worker")))
		goto worker;
	set_ranges();
	atomic_store(&gate.track, 1);
	hooks_patch(); /* from here on wrappers run, and every queue is raw */
	describe_hooks();
	held = false;
	if ((r = let_runtime_go()) || (r = step("patch")) || (r = wait_grace()) || (r = step("grace")))
		goto worker;
	if (config.memory_copy_trace) {
		copies_profile();
		copies_open();
	}
	control->armed_ns = now_boottime();
	control_set_state(RTL_STATE_ACTIVE);
	atomic_store(&gate.flips, 1); /* last: queues turn virtual at their next index call */
	return 0;

worker:
	hooks_restore(HOOK_INDEX);
	finish(RTL_END_ARM_FAILED);
	goto runtime;
memory:
	give_back_memory();
runtime:
	if (held)
		shut_down();
	return r;
}

static bool is_idle(void)
{
	return control->state == RTL_STATE_IDLE || control->state == RTL_STATE_DORMANT;
}

static int parse_config(const void *env, uint64_t len)
{
	static struct rtl_config parsed; /* under the lock; too large for a small stack */
	char err[RTL_TEXT_MAX];
	int r = rtl_env_parse(env, len, &parsed, err, sizeof err);

	if (r)
		return control_fail(r, "environment buffer: %s", err);
	config = parsed;
	return 0;
}

int session_arm(const void *env, uint64_t len)
{
	if (mutex_lock(&lock, LOCK_TIMEOUT_NS))
		return control_fail(-EBUSY, "another attach or detach is still going on");
	int r = session_is_unfinished() ? finish_session(control->last_end) : 0;
	if (r) {
		/* the last session's text says why */
	} else if (!is_idle()) {
		r = control_fail(-EALREADY, "a session is active already");
	} else if (!(r = parse_config(env, len))) {
		uint32_t before = control->state;

		begin_generation();
		control_set_state(RTL_STATE_ARMING);
		r = arm();
		if (!r) {
			control_watch();
		} else {
			control->last_end = RTL_END_ARM_FAILED;
			control_set_state(session_is_unfinished() ? RTL_STATE_DRAINING : before);
		}
	}
	mutex_unlock(&lock);
	return r;
}

/* After the first that stays closed to us, enough for one that is merely preempted. */
static uint64_t lock_patience_ns(uint64_t until, uint32_t open)
{
	uint64_t now = now_monotonic(), left = now < until ? until - now : 0, most = open ? LOCK_WAIT_NS / 40 : LOCK_WAIT_NS;

	return left < most ? left : most;
}

/* Every lock is taken, whatever the queue's word says: a flip that has passed
 * the gate holds it, and none can pass once it is ours. Returns how many queues
 * could not be closed. */
static uint32_t close_queues(void)
{
	uint64_t until = now_monotonic() + CLOSE_MOST_NS;
	uint32_t open = 0;

	for (uint32_t i = 0; i < atomic_load(&queue_count); i++) {
		struct queue *s = queue_all[i];

		if (!queue_lock_wait(s, lock_patience_ns(until, open))) {
			open++;
			continue;
		}
		queue_close(s);
		queue_unlock(s);
		queue_drain_pend(s);
	}
	return open;
}

/* False: the worker does not answer. */
static bool drain(uint64_t drain_ns)
{
	control->detached_ns = now_boottime();
	if (!step("drain") && worker_drain(drain_ns, &control->skip_drain, &cancelled))
		return true;
	return worker_abandon();
}

/*
 * A thread stays inside a doorbell: its queue must remain virtual, with all that
 * its producers use. When the runtime or the process ends, the recording gets
 * its end; otherwise the session goes on, to be ended when the thread has left.
 */
static int disarm_in_part(enum rtl_end why, uint64_t drain_ns, uint32_t open)
{
	if (why == RTL_END_SHUT_DOWN || why == RTL_END_EXIT) {
		drain(drain_ns);
		stop(why);
		control->last_end = why;
	} else {
		control_set_state(RTL_STATE_ACTIVE);
	}
	return control_fail(-EBUSY, "a thread has been inside a doorbell for long: %u queues cannot be closed", open);
}

static int disarm(enum rtl_end why, uint64_t drain_ns)
{
	control_set_state(RTL_STATE_DRAINING);
	atomic_store(&gate.flips, 0);
	uint32_t open = step("close") ? 1 : close_queues();
	open += !copies_close();
	if (open)
		return disarm_in_part(why, drain_ns, open);
	copies_unprofile();
	hooks_restore(HOOK_COPY);
	hooks_restore(HOOK_INDEX);
	/* At other ends an application thread waits for us, or nobody reads. */
	if (drain(drain_ns) && !step("deliver") && (why == RTL_END_DETACH || why == RTL_END_OTHER_TOOL))
		worker_deliver(DELIVERY_MOST_NS, &control->skip_drain, &cancelled);
	return finish_session(why);
}

int session_disarm(enum rtl_end why, uint64_t drain_ns)
{
	if (mutex_lock(&lock, LOCK_TIMEOUT_NS))
		return control_fail(-EBUSY, "another attach or detach is still going on");
	int r = 0;
	__atomic_store_n(&cancelled, 0, __ATOMIC_RELAXED); /* our own cancel, or one that came too late */
	if (control->state == RTL_STATE_ACTIVE) {
		r = disarm(why, drain_ns == UINT64_MAX ? config.drain_timeout_ms * NS_PER_MS : drain_ns);
	} else if (session_is_unfinished()) {
		r = finish_session(why);
	} else {
		if (is_idle()) /* no queue has stayed virtual, see disarm_in_part() */
			unpatch(); /* hooks that another tool had buried, and has uncovered since */
		r = control_fail(-EALREADY, "no session is active");
	}
	mutex_unlock(&lock);
	return r;
}

void session_cancel(void)
{
	__atomic_store_n(&cancelled, 1, __ATOMIC_RELAXED);
}
