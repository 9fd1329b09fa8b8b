/* disarm.c: the payload's states, and how a session ends (docs/architecture.md). */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "core/fault.h"
#include "core/session_flags.h"
#include "core/shared_hooks.h"
#include "kinds/kind.h"
#include "record/event.h"
#include "record/launches.h"
#include "record/ring.h"
#include "record/worker.h"
#include "session/control_block.h"
#include "session/listeners.h"
#include "session/periods.h"
#include "session/session.h"

#define LOCK_TIMEOUT_NS (10 * NS_PER_S)
#define EXIT_DRAIN_NS (200 * NS_PER_MS) /* the application waits for us */

/* The longest disarm(): the limits of its steps, without the drain's time-out and without the
 * time in which a delivery makes progress. A detach that waits for another end finds the
 * session ended. */
_Static_assert(KINDS_CLOSE_MOST_NS + KINDS_CLOSE_OVER_NS + WORKER_DRAIN_OVER_NS + WORKER_ABANDON_MOST_NS +
			       WORKER_DELIVERY_STALLED_NS + WORKER_STOP_MOST_NS + KINDS_RELEASE_MOST_NS <=
		       RTL_DETACH_MOST_MS * NS_PER_MS,
	       "a detach is answered in time for the tool");

uint32_t session_cancelled;
static struct mutex lock; /* one arming or disarming at a time */
static bool on_application; /* with the lock: its holder is a thread of the application */
static uint32_t unfinished; /* see session_is_unfinished() */
static uint32_t state;      /* enum rtl_state */
static enum rtl_end last_end;

void control_set_state(enum rtl_state s)
{
	__atomic_store_n(&state, s, __ATOMIC_RELAXED);
	__atomic_store_n(&control->state, s, __ATOMIC_RELEASE);
	futex_wake_shared(&control->state);
}

enum rtl_state control_state(void)
{
	return __atomic_load_n(&state, __ATOMIC_RELAXED);
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
	uint32_t *page = fork_canary ? NULL : map_memory(RTL_PAGE);

	if (fork_canary)
		return 0;
	if (!page || madvise(page, RTL_PAGE, MADV_WIPEONFORK))
		return -errno;
	*page = 1;
	fork_canary = page;
	return 0;
}

int session_enter(void)
{
	if (mutex_lock(&lock, LOCK_TIMEOUT_NS))
		return control_fail(-EBUSY, "another attach or detach is still going on");
	on_application = false;
	return 0;
}

static struct ending ending_now(enum rtl_end why)
{
	return (struct ending){.why = why, .on_application = on_application};
}

void session_leave(void)
{
	mutex_unlock(&lock);
}

bool session_is_idle(void)
{
	return control_state() == RTL_STATE_IDLE || control_state() == RTL_STATE_DORMANT;
}

bool session_is_unfinished(void)
{
	return __atomic_load_n(&unfinished, __ATOMIC_RELAXED);
}

int session_step(const char *name)
{
	return fault_at(name) ? control_fail(-EIO, "made to fail at %s", name) : 0;
}

void session_note_end(enum rtl_end why)
{
	control->last_end = last_end = why;
}

enum rtl_end session_last_end(void)
{
	return last_end;
}

void session_describe_ring(void)
{
	uint64_t size, inode;
	int fd;

	ring_describe(&size, &inode, &fd);
	control->ring_fd = fd;
	control->ring_inode = inode;
	__atomic_store_n(&control->ring_size, size, __ATOMIC_RELEASE);
}

void session_describe_hooks(void)
{
	struct hooks_tally t = {0};

	kinds_add_tally(&t);
	hooks_add_tally(&shared_hook_table, &t);

	control->hooks_patched = t.patched;
	control->hooks_buried = t.buried;
	control->hooks_missing = t.missing;
}

static void unpatch(void)
{
	kinds_restore_hooks();
	hooks_restore(&shared_hook_table);
	atomic_store(&session_flags.track, 0);
	session_describe_hooks();
}

void session_forget_tables(void)
{
	events_close();
	launches_release();
	kinds_release();
}

static bool stop(enum rtl_end why)
{
	periods_closing(why);
	if (!worker_stop(why, control->armed_ns, control->detached_ns)) {
		periods_give_up();
		return false;
	}
	control->worker_tid = 0;
	periods_close_ring(why);
	session_describe_ring();
	return true;
}

/* An end that was put off keeps its reason. */
int session_finish(enum rtl_end why)
{
	bool again = session_is_unfinished(), ended = stop(why);

	__atomic_store_n(&unfinished, !ended, __ATOMIC_RELAXED);
	if (!again)
		session_note_end(why);
	if (!ended)
		return control_fail(-EBUSY, "the end of the session is put off: its worker is held up inside the runtime");
	session_step("stopped");
	struct ending end = ending_now(why);
	kinds_release_signals(&end);
	unpatch(); /* after all calls of the runtime, which the wrapper of hsa_shut_down has kept from ending */
	session_forget_tables();
	if (why != RTL_END_EXIT)
		listeners_call(RTL_TABLES_RESTORED, on_application ? LISTENERS_END_MOST_NS : LISTENERS_MOST_NS);
	session_step("unpatched");
	return 0;
}

static int stays_open(uint32_t places)
{
	return control_fail(-EBUSY, "a thread has been inside a doorbell for long: %u queues cannot be closed", places);
}

/* When all kinds are closed. */
static int become_dormant(enum rtl_end why)
{
	int r = session_finish(why);

	if (!r)
		control_set_state(periods_continue(why) ? RTL_STATE_OFF : RTL_STATE_DORMANT);
	return r;
}

int session_finish_dormant(enum rtl_end why)
{
	struct ending end = ending_now(why);
	uint32_t open = kinds_close(&end); /* the runtime may have ended before, see disarm_in_part() */

	return open ? stays_open(open) : become_dormant(why);
}

static void drain(uint64_t drain_ns)
{
	control->detached_ns = now_boottime();
	if (session_step("drain") || !worker_drain(drain_ns, &control->skip_drain, &session_cancelled))
		worker_abandon();
}

/*
 * A thread stays inside a doorbell: its queue must stay virtual, with all memory that its
 * producers use. If the runtime or the process ends, the recording ends now, and the rest
 * follows when the thread has left. Otherwise the session goes on, and a later detach ends it.
 */
static int disarm_in_part(enum rtl_end why, uint64_t drain_ns, uint32_t open)
{
	if (why == RTL_END_SHUT_DOWN || why == RTL_END_EXIT) {
		drain(drain_ns);
		stop(why);
		session_note_end(why);
		__atomic_store_n(&unfinished, 1, __ATOMIC_RELAXED);
	} else {
		control_set_state(RTL_STATE_ACTIVE);
		kinds_open_calls();
	}
	return stays_open(open);
}

static int disarm(enum rtl_end why, uint64_t drain_ns)
{
	control_set_state(RTL_STATE_DRAINING);
	struct ending end = ending_now(why);
	uint32_t open = kinds_close(&end);
	if (open)
		return disarm_in_part(why, drain_ns, open);
	kinds_undo();
	kinds_restore_hooks();
	drain(drain_ns);
	/* At other ends an application thread waits for this one, or no recorder reads. */
	if (!session_step("deliver") && (why == RTL_END_DETACH || why == RTL_END_OTHER_TOOL || why == RTL_END_PERIOD))
		worker_deliver(&control->skip_drain, &session_cancelled);
	return become_dormant(why);
}

/* With the session's lock, which it unlocks. */
static int end_session(enum rtl_end why, uint64_t drain_ns)
{
	int r;

	if (control_state() == RTL_STATE_ACTIVE) {
		r = disarm(why, drain_ns);
	} else if (control_state() == RTL_STATE_OFF) {
		r = 0;
		if (!periods_continue(why))
			periods_end(why);
	} else if (session_is_unfinished()) {
		r = session_finish_dormant(why);
	} else {
		if (session_is_idle()) /* no queue has stayed virtual, see disarm_in_part() */
			unpatch(); /* hooks that another tool had buried, and are on top again */
		r = control_fail(-EALREADY, "no session is active");
	}
	session_leave();
	return r;
}

int session_undo_arming(void)
{
	struct ending end = ending_now(RTL_END_PERIOD);

	periods_tried();
	control_set_state(RTL_STATE_DRAINING);
	kinds_close(&end); /* nothing has begun */
	kinds_undo();
	kinds_restore_hooks();
	return become_dormant(RTL_END_PERIOD);
}

int session_end_window(void)
{
	int r = session_enter();

	if (r)
		return r;
	if (control_state() == RTL_STATE_ACTIVE)
		return end_session(RTL_END_PERIOD, config.drain_timeout_ms * NS_PER_MS);
	session_leave();
	return 0;
}

int session_disarm(enum rtl_end why)
{
	int r = session_enter();

	return r ? r : end_session(why, config.drain_timeout_ms * NS_PER_MS);
}

int session_disarm_orphan(uint32_t generation)
{
	int r = session_enter();

	if (r)
		return r;
	if (generation == atomic_load(&session_flags.generation))
		return end_session(RTL_END_RECORDER_DEAD, config.drain_timeout_ms * NS_PER_MS);
	session_leave();
	return 0;
}

/* session_cancelled is set as long as another thread has the lock. If the session cannot be
 * ended, the runtime ends all the same, when this function has returned. */
int session_end_now(enum rtl_end why)
{
	__atomic_fetch_add(&session_cancelled, 1, __ATOMIC_RELAXED);
	int r = session_enter();
	__atomic_fetch_sub(&session_cancelled, 1, __ATOMIC_RELAXED);

	if (!r) {
		on_application = true;
		r = end_session(why, EXIT_DRAIN_NS);
	}
	if (r == -EBUSY) {
		worker_stop_touching_runtime(why == RTL_END_SHUT_DOWN);
		kinds_leave_runtime();
	}
	return r;
}
