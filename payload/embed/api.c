/* api.c: the life of the library: sessions begin and end, one function at a time. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/session_flags.h"
#include "embed.h"
#include "glibc217.h"

#define DELIVER_MS 5000 /* rtl_stop(), rtl_shutdown(): the callbacks of buffers have so long for what is in them */

static pthread_mutex_t life = PTHREAD_MUTEX_INITIALIZER;
static bool at_exit_set;

static pthread_mutex_t text_lock = PTHREAD_MUTEX_INITIALIZER;
static char error_text[512];

int embed_fail(int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	pthread_mutex_lock(&text_lock);
	vsnprintf(error_text, sizeof error_text, format, args);
	pthread_mutex_unlock(&text_lock);
	va_end(args);
	return err;
}

EXPORT int rtl_error_text(char *text, size_t size)
{
	if (!text || !size)
		return -EINVAL;
	pthread_mutex_lock(&text_lock);
	snprintf(text, size, "%s", error_text);
	pthread_mutex_unlock(&text_lock);
	return 0;
}

/* fork_canary, which the first session sets, for threads that call at the same time. */
static const volatile uint32_t *_Atomic canary;

void note_process(void)
{
	atomic_store(&canary, fork_canary);
}

bool is_forked_child(void)
{
	const volatile uint32_t *c = atomic_load(&canary);

	return c && !*c;
}

EXPORT uint32_t rtl_version(void)
{
	return RTL_VERSION_MAJOR << 16 | RTL_VERSION_MINOR;
}

/* 0: the caller may wait. */
static int check_caller(void)
{
	if (is_forked_child())
		return embed_fail(-ECHILD, "this process was forked: only its parent is recorded");
	if (is_inside_callback())
		return embed_fail(-EDEADLK, "a callback must not wait for callbacks");
	return 0;
}

static bool lock_life(uint64_t until_ns)
{
	while (pthread_mutex_trylock(&life)) {
		if (now_monotonic() > until_ns)
			return false;
		sys_sleep_ns(NS_PER_MS);
	}
	return true;
}

/* At exit, before objects of the application are destroyed that callbacks use. */
static void end_at_exit(void)
{
	uint64_t until = now_monotonic() + SYSTEM_LIMIT_NS;

	if (is_forked_child())
		return;
	if (!is_inside_callback() && lock_life(until)) {
		recorder_exit(until);
		buffers_flush(until);
		atomic_store(&muted, 1);
		until = now_monotonic() + SYSTEM_LIMIT_NS;
		callbacks_await_idle(until);
		buffers_await_idle(until);
		pthread_mutex_unlock(&life);
	}
	atomic_store(&muted, 1);
}

static int take_options(const rtl_options_t *given, rtl_options_t *out)
{
	*out = (rtl_options_t){0};
	if (!given)
		return 0;
	if (given->size < sizeof given->size || given->size > sizeof *out)
		return embed_fail(-EINVAL, "the options are of another version: size is %zu, at most %zu", given->size, sizeof *out);
	memcpy(out, given, given->size);
	return 0;
}

static int start(const rtl_options_t *o)
{
	if (!recorder_is_idle())
		return embed_fail(-EALREADY, "a session is active already");
	if (!at_exit_set && atexit(end_at_exit))
		return embed_fail(-ENOMEM, "no memory for the handler at exit");
	at_exit_set = true;
	return recorder_start(o);
}

EXPORT int rtl_start(const rtl_options_t *options)
{
	rtl_options_t o;
	int r = check_caller();

	if (r || (r = take_options(options, &o)))
		return r;
	pthread_mutex_lock(&life);
	r = start(&o);
	pthread_mutex_unlock(&life);
	return r;
}

EXPORT int rtl_flush(uint32_t timeout_ms)
{
	uint64_t until = deadline_after_ms(timeout_ms);
	int r = check_caller();

	if (r || (r = recorder_flush(until)))
		return r;
	return buffers_flush(until) ? 0 : -ETIMEDOUT;
}

static int stop(void)
{
	int r = recorder_stop();

	if (!r)
		buffers_flush(deadline_after_ms(DELIVER_MS));
	return r;
}

EXPORT int rtl_stop(void)
{
	int r = check_caller();

	if (r)
		return r;
	pthread_mutex_lock(&life);
	r = stop();
	pthread_mutex_unlock(&life);
	return r;
}

EXPORT int rtl_shutdown(void)
{
	int r = check_caller();

	if (r)
		return r;
	pthread_mutex_lock(&life);
	if (stop())
		recorder_abandon(); /* the payload ends its session later, without records */
	buffers_clear();
	callbacks_clear();
	decode_release();
	pthread_mutex_unlock(&life);
	return 0;
}

EXPORT int rtl_get_stats(rtl_stats_t *out)
{
	rtl_stats_t s = {0};

	if (is_forked_child())
		return -ECHILD;
	if (!out || out->size < sizeof out->size || out->size > sizeof s)
		return -EINVAL;
	recorder_stats(&s);
	s.size = out->size;
	s.exceptions = callback_exceptions();
	s.dropped = buffers_dropped();
	memcpy(out, &s, s.size);
	return 0;
}

EXPORT const char *rtl_kind_name(uint32_t kind)
{
	static const char *const names[RTL_RECORD_KINDS] = {
		[RTL_RECORD_DISPATCH] = "kernel dispatch",
		[RTL_RECORD_MEMORY_COPY] = "memory copy",
		[RTL_RECORD_HIP_RUNTIME_API] = "call of HIP",
		[RTL_RECORD_HIP_COMPILER_API] = "call of HIP by compiled code",
		[RTL_RECORD_HSA_CORE_API] = "call of HSA",
		[RTL_RECORD_HSA_AMD_EXT_API] = "call of HSA's AMD extensions",
		[RTL_RECORD_RCCL_API] = "call of RCCL",
		[RTL_RECORD_MEMORY_ALLOCATION] = "memory allocation",
		[RTL_RECORD_SCRATCH_MEMORY] = "scratch memory",
		[RTL_RECORD_MARKER] = "marker",
		[RTL_RECORD_LOST] = "lost records",
		[RTL_RECORD_SESSION_END] = "end of a session",
	};

	return kind < RTL_RECORD_KINDS && names[kind] ? names[kind] : "unknown";
}

EXPORT const char *rtl_reason_text(uint32_t reason)
{
	static const char *const texts[RTL_REASON_COUNT] = {
		[RTL_REASON_NONE] = "none",
		[RTL_REASON_AFTER_DETACH] = "published after the session's end",
		[RTL_REASON_NO_SIGNAL] = "no signal was free",
		[RTL_REASON_BACKLOG] = "the list to the worker was full",
		[RTL_REASON_SHARED_SIGNAL] = "several packets shared a signal",
		[RTL_REASON_REARMED] = "its signal was re-armed before it fired",
		[RTL_REASON_DESTROYED] = "its signal was destroyed before it fired",
		[RTL_REASON_NOT_COMPLETED] = "still running at the session's end",
		[RTL_REASON_SIGNAL_TABLE] = "too many signals at once",
		[RTL_REASON_NO_TIMES] = "the hardware wrote no times",
		[RTL_REASON_QUEUE_DESTROYED] = "its queue was destroyed",
	};

	return reason < RTL_REASON_COUNT && texts[reason] ? texts[reason] : "unknown";
}
