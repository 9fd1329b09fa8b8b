/* names.c: kernels and their names, asked from the runtime's loader. */
#include "record/names.h"

#include <errno.h>
#include <string.h>

#include "core/runtime.h"
#include "core/session_flags.h"
#include "core/threads.h"
#include "record/agents.h"
#include "record/emit.h"
#include "record/ring.h"

#define KERNELS (1u << 17) /* power of two; above three quarters the table is emptied */
#define KERNELS_MAX (KERNELS / 4 * 3)
#define EXECUTABLES 4096
#define DESTROY_PATIENCE_NS (1000 * NS_PER_MS)

struct kernel {
	uint64_t object; /* 0: free; KERNEL_GONE: its executable was destroyed */
	uint64_t symbol; /* 0: the loader does not know this object */
	uint64_t executable;
	uint32_t name;   /* string id; 0: not written yet */
	uint32_t agent;
};

static struct kernel *kernels;
static uint64_t executables[EXECUTABLES]; /* whose code objects are in the ring */
static uint32_t kernel_count, executable_count;
static uint32_t next_code_object; /* id */
static struct mutex lock; /* the worker in the loader, against hsa_executable_destroy */
static _Atomic uint32_t stop_waiting;

/*
 * unguarded: threads that destroy an executable without the lock. stale: one of them has
 * begun since the tables were last emptied. seq_cst: such a thread increments unguarded
 * and then sets stale; the worker clears stale, empties the tables, and then reads
 * unguarded. If it reads 0, it has emptied the tables after the thread began.
 */
static _Atomic uint32_t unguarded;
_Atomic uint32_t names_stale;

/* The loader may be asked about executables and addresses: none is being destroyed. */
static bool may_ask(void)
{
	return !atomic_load(&unguarded) && !runtime_is_lost();
}

int names_init(void)
{
	if (!kernels)
		kernels = map_memory(KERNELS * sizeof *kernels);
	return kernels ? 0 : -ENOMEM;
}

static void forget_kernels(void)
{
	clear_memory(kernels, KERNELS * sizeof *kernels);
	kernel_count = 0;
}

void names_forget(void)
{
	atomic_store(&names_stale, 0);
	forget_kernels();
	executable_count = 0;
}

void names_reset(void)
{
	names_forget();
	next_code_object = 1;
	atomic_store(&stop_waiting, 0);
}

void names_stop_waiting(void)
{
	atomic_store(&stop_waiting, 1);
}

static struct kernel *kernel_place(uint64_t object)
{
	for (uint32_t i = (uint32_t)((object >> 6) * 0x9E3779B97F4A7C15ull >> 40);; i++) {
		struct kernel *k = &kernels[i & (KERNELS - 1)];

		if (k->object == object || !k->object)
			return k;
	}
}

bool names_has(uint64_t object)
{
	return kernel_place(object)->object == object;
}

static struct kernel *kernel_enter(uint64_t object)
{
	struct kernel *k = kernel_place(object);

	if (!k->object) {
		k->object = object;
		kernel_count++;
	}
	return k;
}

static hsa_status_t note_symbol(hsa_executable_t executable, hsa_agent_t agent, hsa_executable_symbol_t symbol, void *data)
{
	hsa_symbol_kind_t kind;
	uint64_t object = 0;

	(void)data;
	if (!may_ask())
		return HSA_STATUS_INFO_BREAK;
	if (rt.symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_TYPE, &kind) || kind != HSA_SYMBOL_KIND_KERNEL ||
	    rt.symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &object) || object <= KERNEL_GONE)
		return HSA_STATUS_SUCCESS;
	if (kernel_count >= KERNELS_MAX)
		return HSA_STATUS_INFO_BREAK;
	struct kernel *k = kernel_enter(object);
	k->symbol = symbol.handle;
	k->executable = executable.handle;
	k->agent = agent_of_handle(agent);
	return HSA_STATUS_SUCCESS;
}

static hsa_status_t emit_code_object(hsa_executable_t executable, hsa_loaded_code_object_t object, void *data)
{
	struct rtl_code_object r = {
		.header = {.type = RTL_TYPE_CODE_OBJECT, .lines = 1},
		.id = next_code_object,
		.executable = executable.handle,
	};
	char uri[4096];
	uint32_t len = 0;
	hsa_agent_t agent = {0};
	__typeof__(rt.loader.hsa_ven_amd_loader_loaded_code_object_get_info) get =
		rt.loader.hsa_ven_amd_loader_loaded_code_object_get_info;

	(void)data;
	if (!may_ask())
		return HSA_STATUS_INFO_BREAK;
	get(object, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_BASE, &r.load_base);
	get(object, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_SIZE, &r.load_size);
	if (!get(object, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_AGENT, &agent))
		r.agent = agent_of_handle(agent);
	if (!get(object, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_URI_LENGTH, &len) && len && len <= sizeof uri &&
	    !get(object, HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_URI, uri))
		r.uri = string_id(uri, (uint32_t)strnlen(uri, len));
	if (ring_put_definition(&r.header))
		next_code_object++;
	return HSA_STATUS_SUCCESS;
}

static bool is_written(uint64_t executable)
{
	for (uint32_t i = 0; i < executable_count; i++)
		if (executables[i] == executable)
			return true;
	return false;
}

/* All kernels of the executable that object belongs to, at once. */
static void learn_executable(uint64_t object)
{
	hsa_executable_t executable = {0};

	if (rt.loader.hsa_ven_amd_loader_query_executable((const void *)object, &executable) || !executable.handle)
		return;
	for (uint32_t i = 0; i < agent_count && may_ask(); i++)
		rt.iterate_symbols(executable, agents[i].handle, note_symbol, NULL);
	if (is_written(executable.handle) || executable_count == EXECUTABLES || !may_ask())
		return;
	executables[executable_count++] = executable.handle;
	if (rt.loader.hsa_ven_amd_loader_executable_iterate_loaded_code_objects)
		rt.loader.hsa_ven_amd_loader_executable_iterate_loaded_code_objects(executable, emit_code_object, NULL);
}

#define NAME_MOST (1u << 20) /* bytes: longer ones are nonsense */

/* False: the runtime has no name for it. No id with true: no room now. */
static bool emit_name(struct kernel *k)
{
	hsa_executable_symbol_t symbol = {k->symbol};
	uint32_t len = 0;
	char *name;

	if (rt.symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_NAME_LENGTH, &len) || !len || len > NAME_MOST ||
	    !(name = map_memory(len)))
		return false;
	bool named = !rt.symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_NAME, name);
	if (named && len > RTL_STRING_MAX)
		memcpy(name + RTL_STRING_MAX - 3, "...", 3); /* cut, and says so */
	if (named)
		k->name = string_id(name, len);
	unmap_memory(name, len);
	if (k->name)
		TALLY(names_resolved);
	return named;
}

struct kernel_name names_look_up(uint64_t object)
{
	struct kernel *k;

	if (kernel_count >= KERNELS_MAX)
		forget_kernels();
	if (!kernel_place(object)->object)
		learn_executable(object);
	k = kernel_enter(object);
	if (!k->agent)
		k->agent = agent_of((const void *)object);
	/* A kernel that the runtime has no name for stays unnamed: waiting for a name that
	 * never comes would hold up every dispatch behind it. */
	if (k->symbol && !k->name && may_ask() && !emit_name(k))
		k->symbol = 0;
	return (struct kernel_name){
		.id = k->name,
		.agent = k->agent,
		.not_now = (k->symbol && !k->name) || atomic_load(&unguarded),
	};
}

#define LOCK_LOOK_NS (10 * NS_PER_MS)

/* Application threads hold the lock while they destroy an executable, or go on without
 * it: forever, if a signal handler calls exit() meanwhile. */
bool names_lock(void)
{
	while (!may_ask() || mutex_lock(&lock, atomic_load(&stop_waiting) ? 0 : LOCK_LOOK_NS)) {
		if (atomic_load(&stop_waiting))
			return false;
		if (!may_ask())
			sys_sleep_ns(LOCK_LOOK_NS / 10);
	}
	return true;
}

bool names_try_lock(void)
{
	return !mutex_lock(&lock, 0);
}

void names_unlock(void)
{
	mutex_unlock(&lock);
}

bool names_settle(void)
{
	if (!atomic_load(&unguarded))
		return true;
	atomic_store(&names_stale, 1);
	return false;
}

/* The worker holds the lock, and has been asked to stop: it unlocks as soon as it gets a
 * CPU. */
static bool lock_of_starved(void)
{
	struct starved s = starved_from_now();

	while (worker_is_starved(&s))
		if (!mutex_lock(&lock, STARVED_LOOK_NS))
			return true;
	return false;
}

static bool lock_to_destroy(void)
{
	if (!mutex_lock(&lock, DESTROY_PATIENCE_NS))
		return true;
	atomic_fetch_add(&unguarded, 1);
	atomic_store(&names_stale, 1);
	if (!lock_of_starved())
		return false;
	atomic_fetch_sub(&unguarded, 1);
	return true;
}

bool names_destroy_begin(hsa_executable_t executable)
{
	if (!lock_to_destroy())
		return false;
	for (uint32_t i = 0; i < KERNELS && kernels; i++)
		if (kernels[i].object > KERNEL_GONE && kernels[i].executable == executable.handle)
			kernels[i] = (struct kernel){.object = KERNEL_GONE};
	for (uint32_t i = 0; i < executable_count; i++)
		if (executables[i] == executable.handle)
			executables[i] = executables[--executable_count];
	return true;
}

void names_destroy_end(bool held)
{
	if (held)
		mutex_unlock(&lock);
	else
		atomic_fetch_sub(&unguarded, 1);
}
