/* marker.c: the kind "marker": ROCTx's libraries, and the records. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/clocks.h"
#include "core/glibc217.h"
#include "core/modules.h"
#include "core/session_flags.h"
#include "core/stub.h"
#include "kinds/kind.h"
#include "kinds/marker/hooks.h"
#include "kinds/marker/marker.h"
#include "kinds/marker/marker_abi.h"
#include "record/event.h"
#include "record/ring.h"
#include "record/session_end.h"

#define PATH_MOST 512

/* A library, which is kept loaded from the first session on that uses it: its slots are used. */
struct library {
	const char *name; /* its file's name begins so */
	void *handle;
	bool is_late; /* loaded at the end of the session, and not used by it */
	struct module module;
	char path[PATH_MOST];
};
static struct library roctx64 = {.name = "libroctx64.so"}, sdk = {.name = "librocprofiler-sdk-roctx.so"};

static uint32_t ring_losses; /* the worker: markers for which the ring had no room */
static _Atomic bool is_open;
static struct rtl_marker_coverage told;   /* the worker: its last record */
static struct rtl_marker_coverage at_end; /* as undo() has found it; type 0: not yet */

static int note_library(struct dl_phdr_info *info, size_t size, void *data)
{
	struct library *l = data;
	const char *base = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;

	(void)size;
	if (!base || strncmp(base + 1, l->name, strlen(l->name)) || !module_read(info, &l->module))
		return 0;
	snprintf(l->path, sizeof l->path, "%s", info->dlpi_name);
	return 1;
}

static bool find_library(struct library *l)
{
	if (!l->handle && dl_iterate_phdr(note_library, l))
		l->handle = dlopen(l->path, RTLD_NOLOAD | RTLD_LAZY);
	return l->handle;
}

static bool is_loaded(const struct library *l)
{
	struct library now = {.name = l->name};

	return dl_iterate_phdr(note_library, &now);
}

/* roctxRegisterTracerCallback is  [endbr64] mov %rdi,S(%rip) ; ret. */
static _Atomic(uintptr_t) *callback_slot(const struct library *l)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa}, store[] = {0x48, 0x89, 0x3d};
	const uint8_t *p = dlsym(l->handle, "roctxRegisterTracerCallback");
	int32_t distance;

	if (p && !memcmp(p, endbr64, sizeof endbr64))
		p += sizeof endbr64;
	if (!p || memcmp(p, store, sizeof store) || p[7] != 0xc3)
		return NULL;
	memcpy(&distance, p + 3, sizeof distance);
	uintptr_t slot = (uintptr_t)p + 7 + (uintptr_t)(intptr_t)distance;
	return module_has(&l->module, slot, PF_W) ? (_Atomic(uintptr_t) *)slot : NULL;
}

static void make_ready(struct hook *h, _Atomic(uintptr_t) *slot)
{
	if (!slot || h->state != HOOK_ABSENT)
		return;
	h->slot = slot;
	atomic_store(&h->next, atomic_load(slot));
	h->state = HOOK_READY;
}

/* The function that returns the table: all five stubs call it. 0: none. */
static uintptr_t sdk_table_function(void)
{
	uintptr_t shared = 0;

	for (struct hook *h = marker_hooks + SDK_MARK; h < marker_hooks + MARKER_HOOKS; h++) {
		const void *code = dlsym(sdk.handle, h->name);
		struct stub s;

		if (!code || !stub_decode(&sdk.module, code, &s) || (shared && s.table_function != shared))
			return 0;
		shared = s.table_function;
	}
	return shared;
}

static void find_sdk(void)
{
	uintptr_t table_function = sdk_table_function();

	for (struct hook *h = marker_hooks + SDK_MARK; h < marker_hooks + MARKER_HOOKS; h++) {
		uintptr_t stub = (uintptr_t)dlsym(sdk.handle, h->name);

		make_ready(h, stub ? stub_slot(&sdk.module, stub, table_function) : NULL);
	}
}

static int prepare(char *err, size_t errlen)
{
	if (lanes_prepare()) {
		snprintf(err, errlen, "no memory for the records of markers");
		return -ENOMEM;
	}
	if (find_library(&roctx64))
		make_ready(&marker_hooks[ROCTX_CALLBACK], callback_slot(&roctx64));
	if (find_library(&sdk))
		find_sdk();
	ring_losses = 0;
	told.header.type = at_end.header.type = 0;
	roctx64.is_late = sdk.is_late = false;
	return 0;
}

/* The hooks are in place, or are not: only now the worker can tell what is recorded. */
static void open(void)
{
	lanes_open(RTL_KIND_MARKER);
	atomic_store(&is_open, true);
}

static uint32_t close(const struct ending *end, uint64_t until_ns)
{
	(void)end;
	atomic_store(&is_open, false); /* before the slots are given back */
	lanes_close(RTL_KIND_MARKER, until_ns);
	return 0;
}

static uint32_t way_of(const struct library *l, const struct hook *h)
{
	if (!l->handle)
		return l->is_late ? RTL_MARKER_WAY_LATE : RTL_MARKER_WAY_NOT_LOADED;
	switch (h->state) {
	case HOOK_PATCHED:
		if (atomic_load(h->slot) != h->wrapper)
			return RTL_MARKER_WAY_TAKEN;
		return h == &marker_hooks[ROCTX_CALLBACK] && atomic_load(&h->next) ? RTL_MARKER_WAY_CHAINED : RTL_MARKER_WAY_RECORDED;
	case HOOK_BURIED:
		return RTL_MARKER_WAY_TAKEN;
	default:
		return RTL_MARKER_WAY_UNKNOWN;
	}
}

static uint32_t worst_way_of_sdk(void)
{
	uint32_t worst = 0;

	for (struct hook *h = marker_hooks + SDK_MARK; h < marker_hooks + MARKER_HOOKS; h++) {
		uint32_t way = way_of(&sdk, h);

		worst = way > worst ? way : worst; /* those that are not recorded have the largest numbers */
	}
	return worst;
}

static struct rtl_marker_coverage coverage(void)
{
	return (struct rtl_marker_coverage){
		.header = {.type = RTL_TYPE_MARKER_COVERAGE, .lines = 1},
		.roctx64 = way_of(&roctx64, &marker_hooks[ROCTX_CALLBACK]),
		.sdk = worst_way_of_sdk(),
	};
}

static bool is_new(const struct rtl_marker_coverage *r)
{
	return !told.header.type || told.roctx64 != r->roctx64 || told.sdk != r->sdk;
}

/* A tool that registers its callback during the session replaces ours. */
static void tell_coverage(void)
{
	struct rtl_marker_coverage r = coverage();

	if (is_new(&r) && atomic_load(&is_open) && ring_put_definition(&r.header)) /* is_open: the slots were read before close() */
		told = r;
}

/* Before the hooks are restored. */
static void undo(void)
{
	roctx64.is_late = !roctx64.handle && is_loaded(&roctx64);
	sdk.is_late = !sdk.handle && is_loaded(&sdk);
	at_end = coverage();
}

static void write_last(struct patience *p)
{
	if (!at_end.header.type || !is_new(&at_end))
		return;
	while (!ring_put_definition(&at_end.header) && session_end_wait(p))
		;
}

static uint64_t poll(uint64_t now_ns, bool abandon)
{
	(void)now_ns, (void)abandon;
	if (atomic_load(&is_open))
		tell_coverage();
	return 0;
}

static void read_text(const struct lane_cell *c, char *to, size_t bytes)
{
	size_t done = bytes < MARKER_FIRST_BYTES ? bytes : MARKER_FIRST_BYTES;

	memcpy(to, &c->words[MARKER_TEXT], done);
	for (uint32_t i = 1; done < bytes; i++) {
		size_t part = bytes - done < MARKER_MORE_BYTES ? bytes - done : MARKER_MORE_BYTES;

		memcpy(to + done, lane_following(c, i)->words, part);
		done += part;
	}
}

static void take_cell(const struct lane_cell *c)
{
	static union {
		struct rtl_marker r;
		char bytes[offsetof(struct rtl_marker, text) + RTL_MARKER_TEXT_MAX + RTL_LINE];
	} u;
	const size_t before = offsetof(struct rtl_marker, text);
	size_t copied = (uint32_t)c->words[MARKER_SIZES];

	memset(&u, 0, sizeof u);
	read_text(c, u.bytes + before, copied);
	size_t bytes = strnlen(u.bytes + before, copied); /* the application may have changed it while it was copied */
	u.r.header = (struct rtl_header){.type = RTL_TYPE_MARKER, .lines = (uint16_t)((before + bytes + RTL_LINE - 1) / RTL_LINE)};
	u.r.time_ns = stamp_to_ns(c->start);
	u.r.range = c->words[MARKER_RANGE];
	u.r.tid = c->tid;
	u.r.operation = c->what;
	u.r.text_bytes = (uint16_t)bytes;
	u.r.text_cut = c->detail;
	u.r.losses = (uint32_t)(c->words[MARKER_SIZES] >> 32) + ring_losses;
	TALLY(kind[RTL_KIND_MARKER].begun);
	TALLY(kind[RTL_KIND_MARKER].timed);
	ring_losses += !ring_put(&u.r.header);
}

void marker_take(const struct event *e, bool abandon)
{
	(void)e, (void)abandon; /* it has no events */
}

struct hook marker_hooks[MARKER_HOOKS] = {
	[ROCTX_CALLBACK] = HOOK("roctxRegisterTracerCallback", wrap_roctx_callback, HOOK_IF_EXPORTED),
	[SDK_MARK] = HOOK("roctxMarkA", wrap_roctx_mark, HOOK_IF_EXPORTED),
	[SDK_PUSH] = HOOK("roctxRangePushA", wrap_roctx_push, HOOK_IF_EXPORTED),
	[SDK_POP] = HOOK("roctxRangePop", wrap_roctx_pop, HOOK_IF_EXPORTED),
	[SDK_START] = HOOK("roctxRangeStartA", wrap_roctx_start, HOOK_IF_EXPORTED),
	[SDK_STOP] = HOOK("roctxRangeStop", wrap_roctx_stop, HOOK_IF_EXPORTED),
};
static const struct hook_table outer_hooks = HOOK_TABLE(marker_hooks);

const struct kind marker_kind = {
	.outer_hooks = &outer_hooks,
	.prepare = prepare,
	.open = open,
	.close = close,
	.undo = undo,
	.release = lanes_release,
	.poll = poll,
	.take_cell = take_cell,
	.write_last = write_last,
};
