/*
 * got_payload.c: the payload's part of got_test: finds the functions of a fake HIP, replaces
 * them at the callers or in the dispatch table, counts the records, and restores.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/modules.h"
#include "core/runtime.h"
#include "core/session_flags.h"
#include "double.h"
#include "got.h"
#include "kinds/calls/find.h"
#include "kinds/calls/functions.h"
#include "kinds/calls/got.h"
#include "kinds/calls/operations.h"
#include "kinds/calls/trampoline.h"
#include "kinds/kind.h"
#include "record/lanes.h"

#define KIND RTL_KIND_HIP_RUNTIME_API
#define CHECK(x)                                                               \
	do {                                                                   \
		if (!(x)) {                                                    \
			printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #x); \
			exit(1);                                               \
		}                                                              \
	} while (0)

static uint32_t records[CALL_FUNCTIONS_MAX];
static void take_cell(const struct lane_cell *c) { records[c->what]++; }
static const struct kind api = {.take_cell = take_cell};
const struct kind *const kinds[RTL_KINDS_MAX] = {[KIND] = &api};
struct session_flags session_flags;
struct rtl_config config = {.trace = 1 << KIND};
static struct rtl_counters counted;
struct rtl_counters *counters = &counted;
const volatile uint32_t *fork_canary;
struct runtime rt;

static uint32_t recorded(const char *name)
{
	int f = function_named(KIND, name, (uint32_t)strlen(name));

	CHECK(f >= 0);
	lanes_take();
	return records[f];
}

/* So many callers have called since the last look. */
static void check_recorded(uint32_t callers)
{
	CHECK(recorded("hipGetNothing") == 3 * callers && recorded("hipSetNothing") == callers && recorded("hipMalloc") == callers);
	CHECK(recorded("hipOne") == callers && recorded("hipMany") == callers && recorded("hipNever") == 0);
	memset(records, 0, sizeof records);
}

/* operations: digits of the functions to record (operations.h); "": all. */
static void begin_with(const char *operations, uint32_t way)
{
	char err[128];

	CHECK(operations_take(operations, err, sizeof err) == 0);
	calls_find(KIND);
	CHECK(call_apis[KIND].way == way);
	atomic_fetch_add(&session_flags.generation, 1);
	CHECK(lanes_prepare() == 0);
	lanes_open(KIND);
}

static void begin(uint32_t way)
{
	begin_with("", way);
}

static void end(void)
{
	lanes_close(KIND, UINT64_MAX);
	lanes_take();
	lanes_release();
	CHECK(counted.records_lost == 0);
}

/* --- callers ------------------------------------------------------------------------ */

enum { LAZY, NO_PLT, RELRO, GONE, LATE, LATER, CALLERS };
static const char *const names[CALLERS] = {"lazy.so", "noplt.so", "relro.so", "gone.so", "late.so", "later.so"};
static struct caller {
	void *library;
	void (*call)(void);
	struct module module;
	const ElfW(Phdr) *data;
	void *before; /* its writable segment */
} callers[CALLERS];

static void *data_of(const struct caller *c)
{
	return (void *)(c->module.base + c->data->p_vaddr);
}

static void load(const char *folder, int which)
{
	struct caller *c = &callers[which];
	char path[4096];

	snprintf(path, sizeof path, "%s/%s", folder, names[which]);
	CHECK((c->library = dlopen(path, RTLD_LAZY | RTLD_LOCAL)));
	c->call = (void (*)(void))dlsym(c->library, "caller_calls");
	CHECK(c->call && module_of((uintptr_t)c->call, &c->module));
	for (uint32_t i = 0; i < c->module.header_count; i++)
		if (c->module.headers[i].p_type == PT_LOAD && c->module.headers[i].p_flags & PF_W)
			c->data = &c->module.headers[i];
	c->before = malloc(c->data->p_memsz);
	memcpy(c->before, data_of(c), c->data->p_memsz);
}

static bool is_as_before(int which)
{
	return !memcmp(callers[which].before, data_of(&callers[which]), callers[which].data->p_memsz);
}

static bool is_protected(uintptr_t address)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long lo, hi;
	char line[4096], access[5] = "";

	while (fgets(line, sizeof line, f))
		if (sscanf(line, "%lx-%lx %4s", &lo, &hi, access) == 3 && address >= lo && address < hi)
			break;
	fclose(f);
	return access[1] == '-';
}

/* The caller's page that the loader protects, where its first entry is. */
static uintptr_t relro_page(int which)
{
	const struct module *m = &callers[which].module;

	for (size_t i = 0; i < m->relocation_count[1]; i++)
		if (module_protects(m, m->base + m->relocations[1][i].r_offset))
			return (m->base + m->relocations[1][i].r_offset) & ~(RTL_PAGE - 1ul);
	return 0;
}

static void check_restored(void)
{
	for (int i = 0; i < CALLERS; i++)
		CHECK(!callers[i].library || is_as_before(i));
	CHECK(is_protected(relro_page(RELRO)));
}

static void look(void)
{
	static uint64_t now = NS_PER_S;

	got_patch_new(now += NS_PER_S);
}

/* Entries that the loader is still about to write, in a page that it then protects, are left alone
 * until it has: another thread's dlopen. */
static void being_relocated(void)
{
	uintptr_t page = relro_page(RELRO);

	begin(RTL_CALL_WAY_GOT);
	CHECK(!mprotect((void *)page, RTL_PAGE, PROT_READ | PROT_WRITE));
	got_patch();
	CHECK(!is_protected(page));
	callers[RELRO].call();
	CHECK(recorded("hipSetNothing") == 0);
	CHECK(!mprotect((void *)page, RTL_PAGE, PROT_READ));
	look();
	memset(records, 0, sizeof records);
	callers[RELRO].call();
	check_recorded(1);
	got_restore();
	end();
	check_restored();
}

#define ONLY_MALLOC "2" /* functions.def */

/* Entries of other functions are not replaced, and each session may have other functions. */
static void restricted(void)
{
	begin_with(ONLY_MALLOC, RTL_CALL_WAY_GOT);
	got_patch();
	CHECK(got_tally().entries > 0 && call_apis[KIND].omitted > 0);
	callers[RELRO].call();
	CHECK(recorded("hipMalloc") == 1 && recorded("hipSetNothing") == 0 && recorded("hipOne") == 0);
	got_restore();
	end();
	check_restored();
	memset(records, 0, sizeof records);
	begin(RTL_CALL_WAY_GOT);
	got_patch();
	callers[RELRO].call();
	check_recorded(1);
	got_restore();
	end();
	check_restored();
}

/* A function of the object's own, which the program or a tool in it has put there, stays. */
static void own_function(void)
{
	struct caller *c = &callers[LAZY];
	int (**place)(void) = ((__typeof__(&caller_data))dlsym(c->library, "caller_data"))(), (*before)(void) = *place;
	int (*own)(void) = (__typeof__(own))dlsym(c->library, "caller_own");

	*place = own;
	begin(RTL_CALL_WAY_GOT);
	got_patch();
	c->call();
	CHECK(*place == own && recorded("hipGetNothing") == 2);
	got_restore();
	end();
	*place = before;
	check_restored();
	memset(records, 0, sizeof records);
}

int got_test(const char *folder, void (*program)(void))
{
	for (int i = 0; i < LATE; i++)
		load(folder, i);
	begin(RTL_CALL_WAY_GOT);
	got_patch();
	CHECK(is_protected(relro_page(RELRO)) && !is_as_before(RELRO) && !is_as_before(LAZY));
	for (int i = 0; i < LATE; i++)
		callers[i].call();
	check_recorded(LATE);
	program();
	CHECK(recorded("hipStart") == 1 && recorded("hipStop") == 2);
	dlclose(callers[GONE].library);
	callers[GONE].library = NULL;
	load(folder, LATE);
	callers[LATE].call(); /* binds its entries, which stay so */
	memcpy(callers[LATE].before, data_of(&callers[LATE]), callers[LATE].data->p_memsz);
	check_recorded(0);
	look();
	callers[LATE].call();
	check_recorded(1);
	got_restore();
	lanes_close(KIND, UINT64_MAX);
	check_restored();
	load(folder, LATER);
	look(); /* the worker comes late */
	check_restored();
	CHECK(got_tally().entries == 0);
	end();
	being_relocated();
	restricted();
	own_function();
	printf("got_test: all right\n");
	return 0;
}

/* --- a dispatch table ------------------------------------------------------------------ */

static void call_table(void *library)
{
	void *p;

	CHECK(((__typeof__(&hipMalloc))dlsym(library, "hipMalloc"))(&p, 1) == 0 && p);
	CHECK(((__typeof__(&hipSetNothing))dlsym(library, "hipSetNothing"))("") == 3);
	CHECK(((__typeof__(&hipMany))dlsym(library, "hipMany"))(p, 1, 2, p, 3, 4, p, 5.0f, 6) == 6);
}

int table_test(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	CHECK(library);
	call_table(library);
	struct table *t = *(struct table *volatile *)dlsym(library, "double_table"), before = *t;

	for (uint32_t session = 1; session <= 2; session++) {
		begin(RTL_CALL_WAY_TABLE);
		CHECK(call_apis[KIND].functions == 6 && !call_apis[KIND].unknown && !call_apis[KIND].excluded);
		hooks_patch(&call_apis[KIND].hooks);
		for (uintptr_t *slot = (uintptr_t *)t + 1; slot < (uintptr_t *)(t + 1); slot++)
			CHECK(*slot - (uintptr_t)call_trampolines < 16 * CALL_FUNCTIONS_MAX);
		call_table(library);
		hooks_restore(&call_apis[KIND].hooks);
		CHECK(!memcmp(t, &before, sizeof before));
		call_table(library);
		end();
		CHECK(recorded("hipMalloc") == session && recorded("hipSetNothing") == session && recorded("hipMany") == session);
	}
	begin_with(ONLY_MALLOC, RTL_CALL_WAY_TABLE);
	CHECK(call_apis[KIND].omitted == 5 && !call_apis[KIND].excluded);
	hooks_patch(&call_apis[KIND].hooks);
	uint32_t ours = 0;
	for (uintptr_t *slot = (uintptr_t *)t + 1; slot < (uintptr_t *)(t + 1); slot++)
		ours += *slot - (uintptr_t)call_trampolines < 16 * CALL_FUNCTIONS_MAX;
	CHECK(ours == 1);
	memset(records, 0, sizeof records);
	call_table(library);
	hooks_restore(&call_apis[KIND].hooks);
	CHECK(!memcmp(t, &before, sizeof before));
	end();
	CHECK(recorded("hipMalloc") == 1 && recorded("hipSetNothing") == 0 && recorded("hipMany") == 0);
	begin_with("8", RTL_CALL_WAY_TABLE); /* only hipNever, which is left out of every set: it has a table all the same */
	end();
	printf("got_test: the slots of a table, all right\n");
	return 0;
}
