/* find.c: see find.h. */
#define _GNU_SOURCE
#include "kinds/calls/find.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "core/glibc217.h"
#include "core/modules.h"
#include "core/runtime.h"
#include "core/session_flags.h"
#include "core/stub.h"
#include "kinds/calls/functions.h"
#include "kinds/calls/operations.h"
#include "kinds/calls/trampoline.h"

struct hook call_hooks[CALL_FUNCTIONS_MAX];
struct call_api call_apis[RTL_KINDS_MAX];

/* The function is in a library without a dispatch table, such as HIP before 6.0: call_hooks[].next is
 * the function itself. */
static bool by_got[CALL_FUNCTIONS_MAX];
static const char *cxx_names[CALL_FUNCTIONS_MAX]; /* in the library: it exports the function by this name only */

/* A library, which is kept loaded from the first session on that intercepts its functions: its slots
 * are used. */
struct library {
	const char *name; /* its file's name begins so */
	void *handle;
	struct module module;
	char path[512];
};
static struct library hip = {.name = "libamdhip64.so"}, rccl = {.name = "librccl.so"};
static struct module hsa;

/* A library's exported functions of one kind. */
struct finder {
	const struct module *module;
	uint32_t kind;
	uint32_t decoded; /* functions that jump through a table; of those that are not wanted, the first one only */
	uintptr_t table_function; /* returns the library's table; 0: none is known */
};

/* The C name in a C++ function's name; or the name. *len: its length. */
static const char *plain_name(const char *name, uint32_t *len)
{
	uint32_t n = 0;

	*len = (uint32_t)strlen(name);
	if (strncmp(name, "_Z", 2))
		return name;
	const char *p = name + 2;
	while (*p >= '0' && *p <= '9' && n < 1000)
		n = n * 10 + (uint32_t)(*p++ - '0');
	if (n && n <= strlen(p))
		*len = n;
	return n && n <= strlen(p) ? p : name;
}

static bool begins(const char *name, const char *prefix)
{
	return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* RTL_KINDS_MAX: not a function of these APIs. */
static uint32_t kind_of(const char *name)
{
	if (begins(name, "hsa_amd_"))
		return RTL_KIND_HSA_AMD_EXT_API;
	if (begins(name, "hsa_"))
		return RTL_KIND_HSA_CORE_API;
	if (begins(name, "__hip"))
		return RTL_KIND_HIP_COMPILER_API;
	if (begins(name, "nccl"))
		return RTL_KIND_RCCL_API;
	return begins(name, "hip") && !begins(name, "hiprtc") ? RTL_KIND_HIP_RUNTIME_API : RTL_KINDS_MAX;
}

/* Two names of one slot: the first one that is found, and wanted, has it. */
static bool is_taken(const struct hook_table *t, const struct hook *by, const _Atomic(uintptr_t) *slot)
{
	for (const struct hook *h = t->hooks; h < t->hooks + t->count; h++)
		if (h != by && h->slot == slot && h->state != HOOK_ABSENT)
			return true;
	return false;
}

static void find_slot(struct finder *f, uint32_t function, uintptr_t stub)
{
	struct hook *h = &call_hooks[function];
	_Atomic(uintptr_t) *slot = h->state == HOOK_ABSENT && !h->slot ? stub_slot(f->module, stub, f->table_function) : h->slot;

	if (!slot || is_taken(&call_apis[f->kind].hooks, h, slot))
		return;
	f->decoded++;
	if (!h->slot) {
		h->slot = slot;
		atomic_store(&h->next, atomic_load(slot));
	}
	if (h->state == HOOK_ABSENT)
		h->state = HOOK_READY;
}

/* Which functions the stubs of a kind call first. */
#define VOTES 4
#define VOTES_LEAST 5 /* the smallest table has 9 functions */
struct vote {
	const struct finder *finder;
	uintptr_t functions[VOTES];
	uint32_t counts[VOTES];
};

static void vote_for(const char *name, uintptr_t address, void *data)
{
	struct vote *v = data;
	uint32_t len;
	struct stub s;

	if (kind_of(plain_name(name, &len)) != v->finder->kind || !stub_decode(v->finder->module, (const void *)address, &s) || !s.table_function)
		return;
	for (uint32_t i = 0; i < VOTES; i++) {
		if (v->functions[i] && v->functions[i] != s.table_function)
			continue;
		v->functions[i] = s.table_function;
		v->counts[i]++;
		return;
	}
}

/* The function that returns the table is called by all stubs. Another function, which only looks like
 * a stub, may call anything. */
static uintptr_t find_table_function(const struct finder *f)
{
	struct vote v = {.finder = f};
	uint32_t best = 0;

	module_each_function(f->module, vote_for, &v);
	for (uint32_t i = 1; i < VOTES; i++)
		if (v.counts[i] > v.counts[best])
			best = i;
	return v.counts[best] >= VOTES_LEAST ? v.functions[best] : 0;
}

static bool ends(const char *name, const char *suffix)
{
	size_t len = strlen(name), most = strlen(suffix);

	return len >= most && strcmp(name + len - most, suffix) == 0;
}

/* HSA's names of functions before 1.1, which are other stubs of the slots of …_scacquire and so on. */
static bool is_old_name(const char *name)
{
	return begins(name, "hsa_") && (ends(name, "_acquire") || ends(name, "_release") || ends(name, "_acq_rel"));
}

/* Whether the library has a table shows at any of its functions. */
static void omit(struct finder *f, uint32_t function, uintptr_t stub)
{
	struct call_api *api = &call_apis[f->kind];

	if (operation_is_omitted(function))
		api->omitted++;
	else
		api->excluded++;
	if (!f->decoded && stub_slot(f->module, stub, f->table_function))
		f->decoded++;
}

static void meet(const char *name, uintptr_t address, void *data)
{
	struct finder *f = data;
	uint32_t len;
	const char *plain = plain_name(name, &len);

	if (kind_of(plain) != f->kind)
		return;
	struct call_api *api = &call_apis[f->kind];
	int function = function_named(f->kind, plain, len);
	if (function < 0 && is_old_name(plain))
		return;
	api->functions++;
	if (function < 0)
		api->unknown++;
	else if (operation_is_wanted((uint32_t)function))
		find_slot(f, (uint32_t)function, address);
	else
		omit(f, (uint32_t)function, address);
}

/* Another library's function of that name comes first: its calls are none of HIP's. */
static bool is_shadowed(const char *name, uintptr_t address)
{
	uintptr_t first = (uintptr_t)dlsym(RTLD_DEFAULT, name);
	struct module m;

	return first && first != address && !(module_of(first, &m) && module_stands_in(&m, name, first));
}

static void meet_without_table(const char *name, uintptr_t address, void *data)
{
	struct finder *f = data;
	uint32_t len;
	const char *plain = plain_name(name, &len);
	int function = kind_of(plain) == f->kind ? function_named(f->kind, plain, len) : -1;

	if (function < 0 || !operation_is_wanted((uint32_t)function) || is_shadowed(name, address))
		return;
	if (plain != name && by_got[function] && !cxx_names[function])
		return; /* its C name is another function */
	atomic_store(&call_hooks[function].next, address);
	cxx_names[function] = plain != name ? name : NULL;
	by_got[function] = true;
}

static void name_hooks(uint32_t kind)
{
	uint32_t count, first = functions_of(kind, &count);

	call_apis[kind].hooks = (struct hook_table){&call_hooks[first], count};
	for (uint32_t i = first; i < first + count; i++) {
		call_hooks[i].name = function_name(i);
		call_hooks[i].wrapper = call_trampoline(i);
		call_hooks[i].need = HOOK_IF_EXPORTED;
	}
}

/* Functions that were recorded in an earlier session, and are not in this one. A hook below another
 * tool's stays in its chain; its calls are not recorded (leave.c). */
static void drop_unwanted(uint32_t kind)
{
	uint32_t count, first = functions_of(kind, &count);

	for (uint32_t i = first; i < first + count; i++) {
		by_got[i] = false;
		if (call_hooks[i].state == HOOK_READY && !operation_is_wanted(i))
			call_hooks[i].state = HOOK_ABSENT;
	}
}

static int note_library(struct dl_phdr_info *info, size_t size, void *data)
{
	struct library *l = data;
	const char *base = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;

	(void)size;
	if (!base || !begins(base + 1, l->name) || !module_read(info, &l->module))
		return 0;
	snprintf(l->path, sizeof l->path, "%s", info->dlpi_name);
	return 1;
}

static const struct module *find_library(struct library *l)
{
	if (!l->handle && dl_iterate_phdr(note_library, l))
		l->handle = dlopen(l->path, RTLD_NOLOAD | RTLD_LAZY);
	return l->handle ? &l->module : NULL;
}

/* NULL: the HSA runtime. */
static struct library *library_of(uint32_t kind)
{
	switch (kind) {
	case RTL_KIND_HIP_RUNTIME_API:
	case RTL_KIND_HIP_COMPILER_API:
		return &hip;
	case RTL_KIND_RCCL_API:
		return &rccl;
	default:
		return NULL;
	}
}

static const struct module *find_module(uint32_t kind)
{
	struct library *l = library_of(kind);

	if (l)
		return find_library(l);
	return module_of((uintptr_t)rt.init, &hsa) ? &hsa : NULL;
}

uintptr_t call_library_base(uint32_t function)
{
	const struct library *l = library_of(functions[function].kind);

	return l ? l->module.base : hsa.base;
}

bool calls_library_is_loaded(uint32_t kind)
{
	const struct library *l = library_of(kind);
	struct library now = {.name = l ? l->name : ""};

	return !l || dl_iterate_phdr(note_library, &now);
}

void calls_find(uint32_t kind)
{
	struct call_api *api = &call_apis[kind];
	const struct module *m = find_module(kind);
	struct finder f = {.module = m, .kind = kind};

	if (!api->hooks.count)
		name_hooks(kind);
	api->functions = api->excluded = api->omitted = api->unknown = 0;
	api->way = RTL_CALL_WAY_NONE;
	drop_unwanted(kind);
	if (!m)
		return;
	if (library_of(kind))
		f.table_function = find_table_function(&f);
	module_each_function(m, meet, &f);
	api->way = RTL_CALL_WAY_TABLE;
	if (f.decoded || !library_of(kind))
		return;
	module_each_function(m, meet_without_table, &f);
	api->way = RTL_CALL_WAY_GOT;
}

bool call_is_by_got(uint32_t function)
{
	return by_got[function];
}

int call_imported(const char *name)
{
	uint32_t len;

	if (name[0] != 'h' && name[0] != 'n' && name[0] != '_')
		return -1;
	const char *plain = plain_name(name, &len);
	uint32_t kind = kind_of(plain);
	int function = kind < RTL_KINDS_MAX && is_recorded(kind) && call_apis[kind].way == RTL_CALL_WAY_GOT ? function_named(kind, plain, len) : -1;

	if (function < 0 || !by_got[function])
		return -1;
	/* Other C++ names are overloads of the program's own. */
	const char *exported = cxx_names[function] ? cxx_names[function] : function_name((uint32_t)function);
	return strcmp(name, exported) == 0 ? function : -1;
}
