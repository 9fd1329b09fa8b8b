/*
 * calls.c: the API kinds. A call is recorded when it returns, by the thread that made it (leave.c),
 * and its record is written here, on the worker. A call that has not returned when the session
 * ends has no record, and has not begun for the account.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/clocks.h"
#include "core/ranges.h"
#include "core/session_flags.h"
#include "kinds/calls/calls_abi.h"
#include "kinds/calls/find.h"
#include "kinds/calls/functions.h"
#include "kinds/calls/got.h"
#include "kinds/calls/operations.h"
#include "kinds/calls/trampoline.h"
#include "kinds/kind.h"
#include "record/event.h"
#include "record/lanes.h"
#include "record/ring.h"
#include "record/session_end.h"

static _Atomic bool coverage_is_due[RTL_KINDS_MAX]; /* set when the hooks are in place */
static struct rtl_call_coverage at_end[RTL_KINDS_MAX]; /* before the hooks were restored; without a type: they are in place */

static void note_own_text(void)
{
	struct rtl_range text;

	if (!text_of(call_trampolines, &text))
		return;
	call_own_text = text.lo;
	call_own_bytes = text.hi - text.lo;
}

static int prepare(uint32_t kind, char *err, size_t errlen)
{
	if (lanes_prepare()) {
		snprintf(err, errlen, "no memory for the records of calls");
		return -ENOMEM;
	}
	int e = operations_take(config.operations, err, errlen);
	if (e)
		return e;
	note_own_text();
	calls_find(kind);
	call_by_boottime = config.stamp == RTL_STAMP_BOOTTIME;
	at_end[kind] = (struct rtl_call_coverage){0};
	return 0;
}

/* The callers' entries of all kinds are patched together. */
static bool is_first_by_got(uint32_t kind)
{
	for (uint32_t k = 0; k < RTL_KINDS_MAX; k++)
		if (is_recorded(k) && call_apis[k].way == RTL_CALL_WAY_GOT)
			return k == kind;
	return false;
}

static int start(uint32_t kind)
{
	if (is_first_by_got(kind))
		got_patch();
	return 0;
}

static void open_calls(uint32_t kind)
{
	lanes_open(kind);
	atomic_store(&coverage_is_due[kind], true);
}

static void take_cell(const struct lane_cell *c)
{
	struct rtl_call r = {
		.header = {.type = RTL_CALL_TYPE(c->kind), .lines = 2},
		.start_ns = stamp_to_ns(c->start),
		.end_ns = stamp_to_ns(c->end),
		.result = c->result,
		.tid = c->tid,
		.function = c->what,
		.flags = c->detail,
	};
	uint32_t words = functions[c->what].stack_words;

	if (r.end_ns < r.start_ns) /* the thread has moved to a core whose clock is behind */
		r.end_ns = r.start_ns;

	r.stack_words = (uint8_t)(words < RTL_CALL_STACK_WORDS ? words : RTL_CALL_STACK_WORDS);
	memcpy(r.registers, c->words, sizeof r.registers);
	memcpy(r.stack, c->words + RTL_CALL_REGISTERS, r.stack_words * sizeof *r.stack);
	TALLY(kind[c->kind].begun);
	TALLY(kind[c->kind].timed);
	ring_put(&r.header);
}

static uint32_t count_hooked(uint32_t kind)
{
	const struct hook_table *t = &call_apis[kind].hooks;
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->count; i++) {
		uint32_t function = (uint32_t)(&t->hooks[i] - call_hooks);

		n += call_apis[kind].way == RTL_CALL_WAY_GOT ? call_is_by_got(function) :
							       t->hooks[i].state == HOOK_PATCHED && operation_is_wanted(function);
	}
	return n;
}

static struct rtl_call_coverage coverage(uint32_t kind)
{
	const struct call_api *a = &call_apis[kind];
	struct got_tally got = got_tally();
	struct rtl_call_coverage r = {
		.header = {.type = RTL_CALL_COVERAGE_TYPE(kind), .lines = 1},
		.way = a->way,
		.functions = a->functions,
		.hooked = count_hooked(kind),
		.excluded = a->excluded,
		.omitted = a->omitted,
		.unknown = a->unknown,
	};

	if (a->way == RTL_CALL_WAY_GOT) {
		r.modules = got.modules;
		r.entries = got.entries;
		r.dropped = got.dropped;
	}
	return r;
}

static bool emit_coverage(uint32_t kind)
{
	struct rtl_call_coverage r = at_end[kind].header.type ? at_end[kind] : coverage(kind);

	return ring_put_definition(&r.header);
}

/* Before the hooks of the session's kinds are restored. */
static void undo(uint32_t kind)
{
	at_end[kind] = coverage(kind);
	if (at_end[kind].way == RTL_CALL_WAY_NONE && calls_library_is_loaded(kind))
		at_end[kind].way = RTL_CALL_WAY_LATE;
	if (is_first_by_got(kind))
		got_restore();
}

/* Where the session could not be undone: the runtime or the process was ending. */
static void release(uint32_t kind)
{
	if (is_first_by_got(kind))
		got_restore();
	lanes_release();
}

static uint64_t poll(uint32_t kind)
{
	if (atomic_load(&coverage_is_due[kind]))
		atomic_store(&coverage_is_due[kind], !emit_coverage(kind));
	return 0;
}

static void make_ready(uint32_t kind)
{
	if (is_first_by_got(kind))
		got_patch_new(now_monotonic());
}

static void write_last(uint32_t kind, struct patience *p)
{
	while (!emit_coverage(kind) && session_end_wait(p))
		;
}

/* The functions of struct kind do not get the kind's number. */
#define API_KIND(ID, object)                                                                                             \
	static int object##_prepare(char *err, size_t errlen) { return prepare(RTL_KIND_##ID, err, errlen); }             \
	static int object##_start(char *err, size_t errlen) { (void)err, (void)errlen; return start(RTL_KIND_##ID); }     \
	static void object##_open(void) { open_calls(RTL_KIND_##ID); }                                                    \
	static uint32_t object##_close(const struct ending *end, uint64_t until_ns)                                       \
	{                                                                                                                 \
		if (end->why == RTL_END_EXIT)                                                                             \
			got_leave();                                                                                      \
		lanes_close(RTL_KIND_##ID, until_ns);                                                                     \
		return 0;                                                                                                 \
	}                                                                                                                 \
	static void object##_undo(void) { undo(RTL_KIND_##ID); }                                                          \
	static uint64_t object##_poll(uint64_t now_ns, bool abandon) { (void)now_ns, (void)abandon; return poll(RTL_KIND_##ID); } \
	static void object##_release(void) { release(RTL_KIND_##ID); }                                                    \
	static void object##_make_ready(void) { make_ready(RTL_KIND_##ID); }                                              \
	static void object##_write_last(struct patience *p) { write_last(RTL_KIND_##ID, p); }                             \
	void object##_take(const struct event *e, bool abandon) { (void)e, (void)abandon; } /* no events */              \
	const struct kind object##_kind = {                                                                               \
		.outer_hooks = &call_apis[RTL_KIND_##ID].hooks,                                                           \
		.prepare = object##_prepare,                                                                              \
		.start = object##_start,                                                                                  \
		.open = object##_open,                                                                                    \
		.close = object##_close,                                                                                  \
		.undo = object##_undo,                                                                                    \
		.release = object##_release,                                                                              \
		.poll = object##_poll,                                                                                    \
		.make_ready = object##_make_ready,                                                                        \
		.take_cell = take_cell,                                                                                   \
		.write_last = object##_write_last,                                                                        \
	};

API_KIND(HIP_RUNTIME_API, hip_runtime_api)
API_KIND(HIP_COMPILER_API, hip_compiler_api)
API_KIND(HSA_CORE_API, hsa_core_api)
API_KIND(HSA_AMD_EXT_API, hsa_amd_ext_api)
API_KIND(RCCL_API, rccl_api)
