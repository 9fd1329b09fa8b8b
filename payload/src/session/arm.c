/* arm.c: how a session begins (docs/architecture.md). */
#include <errno.h>
#include <string.h>

#include "core/fault.h"
#include "core/ranges.h"
#include "core/runtime.h"
#include "core/session_flags.h"
#include "core/shared_hooks.h"
#include "core/threads.h"
#include "kinds/kind.h"
#include "record/agents.h"
#include "record/emit.h"
#include "record/event.h"
#include "record/launches.h"
#include "record/ring.h"
#include "record/worker.h"
#include "session/control_block.h"
#include "session/launch.h"
#include "session/listeners.h"
#include "session/periods.h"
#include "session/quiesce.h"
#include "session/session.h"
#include "signals/signals.h"

static hsa_status_t shut_down(void)
{
	return NEXT(shared_hooks[SHUT_DOWN], hsa_status_t (*)(void))();
}

/* Takes a reference to the runtime, which keeps it from ending while we call it, until every
 * thread that calls hsa_shut_down meets our wrapper. */
static int hold_runtime(void)
{
	if (atomic_load(&runtime_shutting_down) || !runtime_open() || rt.init())
		return control_fail(-ENODEV, "the HSA runtime is loaded, but hsa_init has not been called (or hsa_shut_down has)");
	return 0;
}

/* Drops the reference: from here on the wrapper protects us. It may be the last one, and the
 * application may have initialized the runtime again since. */
static int let_runtime_go(void)
{
	shut_down();
	if (!runtime_open() || !agents_remain())
		return control_fail(-ECANCELED, "the application called hsa_shut_down meanwhile");
	return 0;
}

static int find_everything(void)
{
	char err[RTL_TEXT_MAX];
	int r;

	if ((r = runtime_find(config.hsa_library, err, sizeof err)))
		return control_fail(r, "%s", err);
	if ((r = kinds_find_hooks(err, sizeof err)) || (r = hooks_find(&shared_hook_table, err, sizeof err)))
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

static int make_tables(void)
{
	if (events_init(config.buffer_policy == RTL_BUFFER_POLICY_LOSSLESS) ||
	    fault_at("handoff") || signals_init() || fault_at("signals") || launches_init() || fault_at("names"))
		return -ENOMEM;
	return 0;
}

static int prepare_memory(void)
{
	char err[RTL_TEXT_MAX];
	int r;

	if (make_tables())
		return control_fail(-ENOMEM, "no memory for the session's tables");
	signals_reset();
	launches_reset();
	emit_reset();
	r = kinds_prepare(err, sizeof err);
	if (r)
		return control_fail(r, "%s", err);
	memset(counters, 0, sizeof *counters);
	return 0;
}

static int start_kinds(void)
{
	char err[RTL_TEXT_MAX];
	int r = kinds_start(err, sizeof err);

	return r ? control_fail(r, "%s", err) : 0;
}

/* What threads must have left: the raw index functions, hsa_shut_down, and our own wrappers,
 * in which a thread of the last session may still be. Not the wrapper of recorded calls (kind.h). */
static struct rtl_range ranges[RTL_GRACE_RANGES];
static uint32_t range_count;

static void add_own_text(void)
{
	struct rtl_range text;

	if (!text_of(call_text_begin, &text))
		return;
	ranges[range_count++] = (struct rtl_range){text.lo, (uint64_t)call_text_begin};
#ifdef RTL_EMBED /* the library's own functions, in which threads wait (embed/embed.h) */
	extern HIDDEN const char __start_rtl_embed_text[], __stop_rtl_embed_text[];
	ranges[range_count++] = (struct rtl_range){(uint64_t)call_text_end, (uint64_t)__start_rtl_embed_text};
	ranges[range_count++] = (struct rtl_range){(uint64_t)__stop_rtl_embed_text, text.hi};
#else
	ranges[range_count++] = (struct rtl_range){(uint64_t)call_text_end, text.hi};
#endif
}

static int set_ranges(void)
{
	const uint32_t most = RTL_GRACE_RANGES - 2;

	range_count = kinds_grace_ranges(ranges, 0, most);
	range_count = hooks_grace_ranges(&shared_hook_table, ranges, range_count, most);
	if (range_count > most)
		return control_fail(-E2BIG, "more than %u functions that no thread may be inside", most);
	add_own_text();
	return 0;
}

#define WINDOW_GRACE_NS (250 * NS_PER_MS) /* then the control thread takes commands, and tries again */

static int wait_grace(void)
{
	uint32_t left = 0;

	if (TEST_KNOB(no_grace))
		return 0;
	uint64_t most_ns = periods_are_on() ? WINDOW_GRACE_NS : config.grace_timeout_ms * NS_PER_MS;
	int r = grace_wait(ranges, range_count, most_ns, &session_cancelled, &left);
	if (r == -ETIMEDOUT)
		return control_fail(r, "%u threads may still be inside a write-index function or hsa_shut_down after %llu ms", left,
				    (unsigned long long)(most_ns / NS_PER_MS));
	if (r == -E2BIG)
		return control_fail(r, "the process has more threads than the payload can look at");
	if (r)
		return control_fail(r, "the wait for other threads was given up: %s", strerror(-r));
	return 0;
}

static void begin_generation(void)
{
	control->generation = atomic_fetch_add(&session_flags.generation, 1) + 1;
	control->error = 0;
	control->error_text[0] = 0;
	control->armed_ns = control->detached_ns = 0;
	if (!periods_are_on())
		control->skip_drain = 0;
	atomic_store(&session_flags.lost, 0);
	atomic_store(&session_flags.stamp_boottime, config.stamp == RTL_STAMP_BOOTTIME);
	thread_find_tid_offset(config.thread_id_offset);
}

/* Ring and worker: what must be there before the first slot is patched. */
static int start(void)
{
	int r = periods_open_ring();

	if (r)
		return control_fail(r, "no ring of %llu bytes: %s", (unsigned long long)config.buffer_size_bytes, strerror(-r));
	session_describe_ring();
	if ((r = session_step("ring")))
		goto ring;
	if ((r = worker_start())) {
		control_fail(r, "no worker thread: %s", thread_error(r));
		goto ring;
	}
	control->worker_tid = (uint32_t)worker_tid();
	return 0;
ring:
	periods_close_ring(RTL_END_ARM_FAILED);
	session_describe_ring();
	return r;
}

/* Acquires downward, releases upward. When it succeeds, the hooks are in place, and nothing is recorded. */
static int arm(void)
{
	bool held = false;
	int r;

	if ((r = find_everything()) || (r = session_step("find")) || (r = hold_runtime()))
		return r;
	held = true;
	if (launch_is_due()) {
		r = control_fail(-ENODEV, "the program has not asked the HSA runtime for its GPUs yet");
		goto runtime;
	}
	if ((r = session_step("hold")) || (r = ask_runtime()) || (r = prepare_memory()) || (r = session_step("memory")) || (r = start()))
		goto memory;
	if ((r = session_step("worker")) || (r = set_ranges()))
		goto worker;
	listeners_call(RTL_TABLES_WILL_PATCH, LISTENERS_MOST_NS);
	launch_restore_hook(); /* the runtime is held: OnLoad does not run again before the end of the grace period */
	atomic_store(&session_flags.track, 1);
	kinds_patch();
	hooks_patch(&shared_hook_table); /* from here on wrappers run, and every queue is raw */
	kinds_patch_outer();
	session_describe_hooks();
	if ((r = session_step("patch")) || (r = wait_grace()))
		goto worker;
	held = false;
	if ((r = let_runtime_go()) || (r = session_step("grace")) || (r = start_kinds()))
		goto worker;
	return 0;

worker:
	kinds_restore_hooks();
	session_finish(RTL_END_ARM_FAILED);
	goto runtime;
memory:
	kinds_release_signals(&(struct ending){.why = RTL_END_ARM_FAILED});
	session_forget_tables();
runtime:
	if (held)
		shut_down();
	return r;
}

static void open(void)
{
	control->armed_ns = now_boottime();
	periods_opened();
	control_set_state(RTL_STATE_ACTIVE);
	kinds_open(); /* last */
}

static int parse_config(const void *env, uint64_t len)
{
	static struct rtl_config parsed; /* under the lock; too large for a small stack */
	char err[RTL_TEXT_MAX];
	int r = rtl_env_parse(env, len, &parsed, err, sizeof err);

	if (r)
		return control_fail(r, "environment buffer: %s", err);
	config = parsed;
	fault_expect(env, len);
	return 0;
}

int session_arm(const void *env, uint64_t len)
{
	int r = session_enter();

	if (r)
		return r;
	if (session_is_unfinished())
		r = session_finish_dormant(session_last_end());
	if (r) {
		/* the last session's text says why */
	} else if (!session_is_idle()) {
		r = control_fail(-EALREADY, "a session is active already");
	} else if (!(r = parse_config(env, len)) && !(r = periods_prepare())) {
		enum rtl_state before = control_state();

		begin_generation();
		control_set_state(RTL_STATE_ARMING);
		uint64_t from = now_monotonic();
		r = arm();
		periods_note_arming(now_monotonic() - from);
		if (!r && config.schedule[0])
			r = session_undo_arming(); /* the first window begins later, and is known to be possible */
		else if (!r)
			open();
		if (!r) {
			control_watch();
		} else {
			session_note_end(RTL_END_ARM_FAILED);
			control_set_state(session_is_unfinished() ? RTL_STATE_DRAINING : before);
		}
	}
	session_leave();
	return r;
}

int session_begin_window(uint64_t *armed_at)
{
	int r = session_enter();

	if (r)
		return r;
	if (control_state() != RTL_STATE_OFF) {
		session_leave();
		return -ECANCELED; /* the session has ended meanwhile */
	}
	begin_generation();
	control_set_state(RTL_STATE_ARMING);
	r = arm();
	*armed_at = now_monotonic();
	if (r)
		control_set_state(session_is_unfinished() ? RTL_STATE_DRAINING : RTL_STATE_OFF);
	else if (periods_await_begin() && !session_step("begin"))
		open();
	else
		r = session_undo_arming() ? -EBUSY : -ECANCELED;
	session_leave();
	return r;
}
