/* scratch_test.c: the kind "scratch-memory" from the search of the tools table to its account, in tables as the
 * runtime has them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "core/session_flags.h"
#include "edge.h"
#include "kinds/scratch/scratch_abi.h"
#include "session/control_block.h"
#include "session/entry.h"

#define KIND RTL_KIND_SCRATCH_MEMORY
#define BYTES 4096
#define QUEUE ((const void *)0x7000beef0000)

struct version {
	uint32_t major, size, step, reserved;
};
struct tool_event {
	uint32_t kind;
	const void *queue;
	uint32_t flags;
	uint64_t dispatch, bytes, slots;
};
typedef int handler(const struct tool_event *);

struct toy_table {
	struct version version;
	void *entries[4];
};
static struct toy_table amd_ext;
/* A core table without a root table in front of it. */
static struct {
	uint64_t before[32];
	struct toy_table core;
} alone;
/* What the exported functions jump through. */
__attribute__((used)) void *toy_core_table = &alone.core, *toy_amd_table = &amd_ext;

void toy_get_info(void);
void toy_allow_access(void);
__asm__(".text\n"
	"toy_get_info:\n\tmovq toy_core_table(%rip), %rax\n\tjmpq *16(%rax)\n"
	"toy_allow_access:\n\tmovq toy_amd_table(%rip), %rax\n\tjmpq *24(%rax)\n");

static struct tools {
	struct version version;
	_Atomic(uintptr_t) entries[RTL_SCRATCH_EVENTS];
} tools;

/* The core table is some words behind the root table. */
static struct {
	uint64_t before[32];
	struct {
		struct version version;
		void *core, *amd_ext, *finalizer, *image, *tools;
	} root;
	uint64_t more[3];
	struct toy_table core;
} runtime;

extern __typeof__(dlsym) __real_dlsym, __wrap_dlsym;
static bool has_stubs;

void *__wrap_dlsym(void *library, const char *name)
{
	if (has_stubs && !strcmp(name, "hsa_system_get_info"))
		return (void *)toy_get_info;
	if (has_stubs && !strcmp(name, "hsa_amd_agents_allow_access"))
		return (void *)toy_allow_access;
	return __real_dlsym(library, name);
}

static void make_runtime(void)
{
	has_stubs = true;
	toy_core_table = &runtime.core;
	runtime.root.version = (struct version){.major = 2, .size = sizeof runtime.root};
	runtime.root.core = &runtime.core;
	runtime.root.amd_ext = &amd_ext;
	runtime.root.tools = &tools;
	tools.version = (struct version){.major = 1, .size = sizeof tools};
}

static struct rtl_ring *begin_scratch(void)
{
	begin("RTL_TRACE", "dispatch,scratch-memory");
	return map_ring();
}

/* As the runtime does. */
static void tell(uint32_t what)
{
	handler *h = (handler *)atomic_load(&tools.entries[what]);
	struct tool_event *e = malloc(sizeof *e); /* the address sanitizer sees what is read behind a shorter one */

	if (what != RTL_SCRATCH_ALLOC_END)
		e = realloc(e, what == RTL_SCRATCH_ALLOC_START ? offsetof(struct tool_event, bytes) : offsetof(struct tool_event, dispatch));
	e->kind = what;
	e->queue = QUEUE;
	e->flags = 2;
	if (what <= RTL_SCRATCH_ALLOC_END)
		e->dispatch = 5;
	if (what == RTL_SCRATCH_ALLOC_END)
		e->bytes = BYTES, e->slots = 7;
	if (h)
		CHECK(h(e) == 0);
	free(e);
}

static void tell_all(void)
{
	for (uint32_t i = 0; i < RTL_SCRATCH_EVENTS; i++)
		tell(i);
}

static void check_event(const struct rtl_scratch *r, uint32_t what)
{
	CHECK(r->event == what && r->queue_address == (uint64_t)QUEUE && r->flags == 2 && r->tid && r->time_ns);
	CHECK(r->dispatch == (what <= RTL_SCRATCH_ALLOC_END ? 5 : 0));
	CHECK(r->size_bytes == (what == RTL_SCRATCH_ALLOC_END ? BYTES : 0) && r->slots == (what == RTL_SCRATCH_ALLOC_END ? 7 : 0));
}

/* The session has ended: it has so many events, in the order of the table, and says so of the runtime. */
static void check_ring(const struct rtl_ring *ring, uint32_t want, uint32_t has, uint32_t buried)
{
	const char *at = (const char *)ring + RTL_PAGE, *end = at + ring->head;
	uint32_t found = 0, coverages = 0, accounts = 0;

	while (at < end) {
		const struct rtl_header *h = (const struct rtl_header *)at;
		const struct rtl_scratch_coverage *c = (const struct rtl_scratch_coverage *)at;
		const struct rtl_kind_account *a = (const struct rtl_kind_account *)at;

		if (h->type == RTL_TYPE_SCRATCH)
			check_event((const struct rtl_scratch *)at, found++ % RTL_SCRATCH_EVENTS);
		if (h->type == RTL_TYPE_SCRATCH_COVERAGE && ++coverages)
			CHECK(c->events == has && c->buried == buried);
		if (h->type == RTL_TYPE_KIND_ACCOUNT && a->kind == KIND && ++accounts)
			CHECK(a->begun == want && a->timed == want && !a->untimed && !a->lost);
		at += (size_t)h->lines * RTL_LINE;
	}
	CHECK(found == want && coverages == 1 && accounts == 1);
}

/* After the session our functions stay in the empty slots, and do nothing. A later session records again. */
static void each_event_has_a_record(void)
{
	make_runtime();
	for (uint32_t i = 1; i <= 2; i++) {
		struct rtl_ring *ring = begin_scratch();

		tell_all();
		tell_all();
		CHECK(rtl_detach() == 0);
		tell_all();
		CHECK(atomic_load(&tools.entries[0]));
		check_ring(ring, 2 * RTL_SCRATCH_EVENTS, RTL_SCRATCH_EVENTS, 0);
	}
}

static uint32_t others; /* calls of another tool's function */
static _Atomic(uintptr_t) below_other[RTL_SCRATCH_EVENTS];

static int other(const struct tool_event *e)
{
	handler *h = (handler *)atomic_load(&below_other[e->kind]);

	CHECK(++others < 100); /* else the two call each other */
	return h ? h(e) : 0;
}

static void put_other(void)
{
	for (uint32_t i = 0; i < RTL_SCRATCH_EVENTS; i++)
		atomic_store(&below_other[i], atomic_exchange(&tools.entries[i], (uintptr_t)other));
}

static void another_tool_below(void)
{
	make_runtime();
	put_other();
	struct rtl_ring *ring = begin_scratch();
	tell_all();
	CHECK(others == RTL_SCRATCH_EVENTS && rtl_detach() == 0);
	check_ring(ring, RTL_SCRATCH_EVENTS, RTL_SCRATCH_EVENTS, 0);
	CHECK(atomic_load(&tools.entries[0]) == (uintptr_t)other);
}

static uint32_t successors; /* calls */

static int successor(const struct tool_event *e)
{
	(void)e;
	successors++;
	return 0;
}

/* Between two sessions another tool takes the place of the one below us. */
static void another_tool_between(void)
{
	make_runtime();
	put_other();
	begin_scratch();
	CHECK(rtl_detach() == 0);
	for (uint32_t i = 0; i < RTL_SCRATCH_EVENTS; i++)
		atomic_store(&tools.entries[i], (uintptr_t)successor);
	struct rtl_ring *ring = begin_scratch();
	tell_all();
	CHECK(successors == RTL_SCRATCH_EVENTS && rtl_detach() == 0);
	check_ring(ring, RTL_SCRATCH_EVENTS, RTL_SCRATCH_EVENTS, 0);
	CHECK(atomic_load(&tools.entries[0]) == (uintptr_t)successor);
}

/* It came after a session, and calls our functions, which that has left in the slots. */
static void another_tool_above(void)
{
	make_runtime();
	begin_scratch();
	CHECK(rtl_detach() == 0);
	put_other();
	struct rtl_ring *ring = begin_scratch();
	tell_all();
	CHECK(others == RTL_SCRATCH_EVENTS && rtl_detach() == 0);
	check_ring(ring, RTL_SCRATCH_EVENTS, RTL_SCRATCH_EVENTS, RTL_SCRATCH_EVENTS);
	CHECK(atomic_load(&tools.entries[0]) == (uintptr_t)other);

	for (uint32_t i = 0; i < RTL_SCRATCH_EVENTS; i++) /* it goes */
		atomic_store(&tools.entries[i], atomic_load(&below_other[i]));
	ring = begin_scratch();
	tell_all();
	CHECK(rtl_detach() == 0);
	check_ring(ring, RTL_SCRATCH_EVENTS, RTL_SCRATCH_EVENTS, 0);
}

static void check_silence(void)
{
	struct rtl_ring *ring = begin_scratch();

	CHECK(!atomic_load(&tools.entries[0]) && rtl_detach() == 0);
	check_ring(ring, 0, 0, 0);
}

/* Tables of an older runtime, and of one that is not known. */
static void without_tools_table(void)
{
	check_silence(); /* no exported functions */
	make_runtime();
	runtime.root.version.size = sizeof runtime.root - sizeof(void *);
	check_silence();
	make_runtime();
	runtime.root.tools = NULL;
	check_silence();
	make_runtime();
	runtime.root.amd_ext = NULL;
	check_silence();
	make_runtime();
	tools.version.major = 2;
	check_silence();
	make_runtime();
	tools.version.size -= sizeof(void *);
	check_silence();
	make_runtime();
	toy_core_table = &alone.core;
	check_silence();
}

static const struct edge_case scratch_cases[] = {
	{"scratch: each event has a record", each_event_has_a_record},
	{"scratch: above another tool", another_tool_below},
	{"scratch: another tool between two sessions", another_tool_between},
	{"scratch: below another tool", another_tool_above},
	{"scratch: no tools table", without_tools_table},
	{0},
};
EDGE_CASES_OF_KIND(scratch_cases)
