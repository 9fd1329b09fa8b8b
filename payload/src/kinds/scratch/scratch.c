/*
 * scratch.c: the kind "scratch-memory". A runtime from 6.0 on calls the functions in its tools table
 * when it allocates, frees and reclaims scratch memory.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

#include "core/clocks.h"
#include "core/glibc217.h"
#include "core/modules.h"
#include "core/runtime.h"
#include "core/session_flags.h"
#include "core/stub.h"
#include "kinds/kind.h"
#include "kinds/scratch/scratch_abi.h"
#include "record/event.h"
#include "record/lanes.h"
#include "record/ring.h"

/* What the runtime passes (hsa_amd_tool_event_t); the fields that an event does not have are behind its end. */
struct scratch_event {
	uint32_t kind;
	const void *queue;
	uint32_t flags;
	uint64_t dispatch; /* ALLOC_START, ALLOC_END */
	uint64_t bytes, slots; /* ALLOC_END */
};
typedef int (*handler_fn)(const struct scratch_event *);

enum { SCRATCH_QUEUE, SCRATCH_DISPATCH, SCRATCH_BYTES, SCRATCH_SLOTS, SCRATCH_FLAGS /* losses << 32 | flags */ }; /* words of a cell */

/* The slots of the tools table, and what was in them. */
static struct event_slot {
	_Atomic(uintptr_t) *slot; /* NULL: the runtime has none */
	_Atomic(uintptr_t) next;
	bool is_left; /* a session has ended, and could not take our function out */
} events[RTL_SCRATCH_EVENTS];
static uint32_t buried; /* events of this session, see struct rtl_scratch_coverage */
static _Atomic bool coverage_is_due;
static uint32_t ring_losses; /* the worker: records for which the ring had no room */

static void note(uint32_t event, const struct scratch_event *e)
{
	uint32_t gate = atomic_load(lanes_gate);

	if (!lane_is_open(RTL_KIND_SCRATCH_MEMORY, gate))
		return;
	struct lane_claim claim = lane_claim(RTL_KIND_SCRATCH_MEMORY, 1);
	if (!claim.lane)
		return;
	struct lane_cell *c = lane_cell(&claim, 0);
	c->kind = lane_is_open(RTL_KIND_SCRATCH_MEMORY, gate) ? RTL_KIND_SCRATCH_MEMORY : LANE_VOID;
	c->start = stamp_time();
	c->tid = current_tid();
	c->what = (uint16_t)event;
	c->words[SCRATCH_QUEUE] = (uint64_t)e->queue;
	c->words[SCRATCH_DISPATCH] = event <= RTL_SCRATCH_ALLOC_END ? e->dispatch : 0;
	c->words[SCRATCH_BYTES] = event == RTL_SCRATCH_ALLOC_END ? e->bytes : 0;
	c->words[SCRATCH_SLOTS] = event == RTL_SCRATCH_ALLOC_END ? e->slots : 0;
	c->words[SCRATCH_FLAGS] = (uint64_t)atomic_load_explicit(&claim.lane->losses, memory_order_relaxed) << 32 | e->flags;
	lane_publish(&claim, 1);
}

static int handle(uint32_t event, const struct scratch_event *e)
{
	handler_fn next = (handler_fn)atomic_load(&events[event].next);

	note(event, e);
	return next ? next(e) : 0;
}

#define HANDLER(event) \
	static int handle_##event(const struct scratch_event *e) { return handle(event, e); }
HANDLER(0)
HANDLER(1)
HANDLER(2)
HANDLER(3)
HANDLER(4)
HANDLER(5)
static const handler_fn handlers[RTL_SCRATCH_EVENTS] = {handle_0, handle_1, handle_2, handle_3, handle_4, handle_5};

/* The runtime's tables begin with their version: major number, and their size in bytes. */
struct table {
	uint32_t major, size, step, reserved;
	uintptr_t entries[];
};
enum { ROOT_CORE = 0, ROOT_AMD_EXT = 1, ROOT_TOOLS = 4 }; /* entries of the root table */
#define ROOT_DISTANCE_MOST 256 /* in front of the core table: 56 bytes in 6.1, 64 in 6.4 */

/* The table through which an exported function jumps. */
static uintptr_t table_behind(const struct module *m, const char *function)
{
	const void *code = dlsym(rt.library, function);
	struct stub s;

	return code && stub_decode(m, code, &s) && module_has(m, s.table_pointer, PF_W) ? *(const uintptr_t *)s.table_pointer : 0;
}

/* The root table is in front of the core table, and refers to it and to the AMD extension's. */
static const struct table *find_root(const struct module *m)
{
	uintptr_t core = table_behind(m, "hsa_system_get_info"), amd_ext = table_behind(m, "hsa_amd_agents_allow_access");

	for (uintptr_t at = core - sizeof(struct table); core && amd_ext && at >= core - ROOT_DISTANCE_MOST && module_has(m, at, PF_W);
	     at -= sizeof(uintptr_t)) {
		const struct table *t = (const struct table *)at;

		if (t->entries[ROOT_CORE] == core && t->entries[ROOT_AMD_EXT] == amd_ext)
			return t;
	}
	return NULL;
}

static bool has_entries(const struct table *t, uint32_t count)
{
	return t->size >= sizeof *t + count * sizeof *t->entries;
}

/* NULL: the runtime is older. */
static struct table *find_tools(void)
{
	struct module m;
	const struct table *root = module_of((uintptr_t)rt.init, &m) ? find_root(&m) : NULL;

	if (!root || !has_entries(root, ROOT_TOOLS + 1) || !module_has(&m, root->entries[ROOT_TOOLS], PF_W))
		return NULL;
	struct table *tools = (struct table *)root->entries[ROOT_TOOLS];
	return tools->major == 1 && has_entries(tools, RTL_SCRATCH_EVENTS) ? tools : NULL;
}

static int prepare(char *err, size_t errlen)
{
	struct table *tools = find_tools();

	if (lanes_prepare()) {
		snprintf(err, errlen, "no memory for the records of scratch memory");
		return -ENOMEM;
	}
	for (uint32_t i = 0; tools && i < RTL_SCRATCH_EVENTS; i++)
		events[i].slot = (_Atomic(uintptr_t) *)&tools->entries[i];
	buried = ring_losses = 0;
	return 0;
}

/* A tool that came after us has its function above ours, which it calls: if ours went above it as well, the two
 * would call each other without end. */
static bool is_buried(const struct event_slot *e, uintptr_t now)
{
	return e->is_left && now && now != atomic_load(&e->next);
}

/* Above another tool's function, which is called, too. */
static void take_slot(struct event_slot *e, uintptr_t ours)
{
	uintptr_t now = atomic_load(e->slot);

	while (now != ours) {
		if (is_buried(e, now)) {
			buried++;
			return;
		}
		atomic_store(&e->next, now);
		if (atomic_compare_exchange_weak(e->slot, &now, ours))
			return;
	}
}

static bool is_started; /* the slots were taken, and undo() has not given them back */

static int start(char *err, size_t errlen)
{
	(void)err, (void)errlen;
	is_started = true;
	for (uint32_t i = 0; i < RTL_SCRATCH_EVENTS && events[i].slot; i++)
		take_slot(&events[i], (uintptr_t)handlers[i]);
	return 0;
}

/* A slot that was empty keeps our function, which does nothing: the runtime may have seen that the
 * slot is not empty, and read it again to call it. */
static void undo(void)
{
	if (!is_started)
		return;
	is_started = false;
	for (uint32_t i = 0; i < RTL_SCRATCH_EVENTS && events[i].slot; i++) {
		uintptr_t ours = (uintptr_t)handlers[i], next = atomic_load(&events[i].next);

		events[i].is_left = !next || !atomic_compare_exchange_strong(events[i].slot, &ours, next);
	}
}

/* Also where undo() was not called: the runtime or the process was ending. */
static void release(void)
{
	undo();
	lanes_release();
}

static void open(void)
{
	lanes_open(RTL_KIND_SCRATCH_MEMORY);
	atomic_store(&coverage_is_due, true);
}

static uint32_t close(const struct ending *end, uint64_t until_ns)
{
	(void)end;
	lanes_close(RTL_KIND_SCRATCH_MEMORY, until_ns);
	return 0;
}

static bool emit_coverage(void)
{
	struct rtl_scratch_coverage r = {
		.header = {.type = RTL_TYPE_SCRATCH_COVERAGE, .lines = 1},
		.events = events[0].slot ? RTL_SCRATCH_EVENTS : 0,
		.buried = buried,
	};

	return ring_put_definition(&r.header);
}

static uint64_t poll(uint64_t now_ns, bool abandon)
{
	(void)now_ns, (void)abandon;
	if (atomic_load(&coverage_is_due))
		atomic_store(&coverage_is_due, !emit_coverage());
	return 0;
}

static void take_cell(const struct lane_cell *c)
{
	struct rtl_scratch r = {
		.header = {.type = RTL_TYPE_SCRATCH, .lines = 1},
		.time_ns = stamp_to_ns(c->start),
		.queue_address = c->words[SCRATCH_QUEUE],
		.dispatch = c->words[SCRATCH_DISPATCH],
		.size_bytes = c->words[SCRATCH_BYTES],
		.slots = c->words[SCRATCH_SLOTS],
		.tid = c->tid,
		.flags = (uint32_t)c->words[SCRATCH_FLAGS],
		.losses = (uint32_t)(c->words[SCRATCH_FLAGS] >> 32) + ring_losses,
		.event = c->what,
	};

	TALLY(kind[RTL_KIND_SCRATCH_MEMORY].begun);
	TALLY(kind[RTL_KIND_SCRATCH_MEMORY].timed);
	ring_losses += !ring_put(&r.header);
}

void scratch_take(const struct event *e, bool abandon)
{
	(void)e, (void)abandon; /* it has no events */
}

const struct kind scratch_kind = {
	.prepare = prepare,
	.start = start,
	.open = open,
	.close = close,
	.undo = undo,
	.release = release,
	.poll = poll,
	.take_cell = take_cell,
};
