#include "record/names.h"

#include <errno.h>
#include <string.h>

#include "core/runtime.h"
#include "core/session_flags.h"
#include "record/agents.h"
#include "record/ring.h"
#include "record/worker.h"

#define KERNELS (1u << 17) /* power of two; past three quarters the table starts anew */
#define KERNELS_MAX (KERNELS / 4 * 3)
#define LAUNCHES (1u << 16)
#define LAUNCHES_MAX (LAUNCHES / 4 * 3)
#define EXECUTABLES 4096
#define KERNEL_GONE 1ull
#define FORGET_TIMEOUT_NS (1000 * NS_PER_MS)

struct kernel {
	uint64_t object; /* 0: free, KERNEL_GONE: its executable was destroyed */
	uint64_t symbol; /* 0: the loader does not know this object */
	uint64_t executable;
	uint32_t name;   /* string id, 0: not told yet */
	uint32_t agent;
};

struct launch {
	uint64_t kernel_object;
	uint32_t grid[3];
	uint16_t workgroup[3];
	uint16_t used;
	uint32_t group_segment_bytes, private_segment_bytes;
	uint32_t id;
	uint32_t agent;
};

static struct kernel *kernels;
static struct launch *launches;
static uint64_t executables[EXECUTABLES]; /* whose code objects have been told */
static uint32_t kernel_count, launch_count, executable_count;
static uint32_t next_string, next_launch, next_code_object;
static struct mutex lock; /* the worker in the loader, against hsa_executable_destroy */
static _Atomic uint32_t stop_waiting;

/* Threads that destroy an executable without the lock; and that one has begun to since
 * the tables were last emptied. A thread counts itself, then says so; who reads "no
 * thread" after emptying has emptied late enough. */
static _Atomic uint32_t unguarded, stale;

/* Of executables and addresses: one that is being destroyed is not to be asked about. */
static bool may_ask(void)
{
	return !atomic_load(&unguarded) && !runtime_is_lost();
}

int names_init(void)
{
	if (!kernels)
		kernels = map_memory(KERNELS * sizeof *kernels);
	if (!launches)
		launches = map_memory(LAUNCHES * sizeof *launches);
	return kernels && launches ? 0 : -ENOMEM;
}

static void forget_launches(void)
{
	clear_memory(launches, LAUNCHES * sizeof *launches);
	launch_count = 0;
}

static void forget_kernels(void)
{
	clear_memory(kernels, KERNELS * sizeof *kernels);
	kernel_count = 0;
}

static void forget_all(void)
{
	forget_kernels();
	forget_launches();
	executable_count = 0;
}

void names_reset(void)
{
	forget_all();
	atomic_store(&stale, 0);
	next_string = next_launch = next_code_object = 1;
	atomic_store(&stop_waiting, 0);
}

void names_forget(void)
{
	if (mutex_lock(&lock, 0))
		return; /* a thread that destroys an executable looks into them */
	names_reset();
	mutex_unlock(&lock);
}

void names_stop_waiting(void)
{
	atomic_store(&stop_waiting, 1);
}

uint32_t string_id(const char *text, uint32_t len)
{
	static _Alignas(8) char buf[16 + RTL_STRING_MAX + RTL_LINE]; /* much for our stack */
	struct rtl_string *r = (struct rtl_string *)buf;

	if (len > RTL_STRING_MAX)
		len = RTL_STRING_MAX;
	memset(buf, 0, 16);
	r->header.type = RTL_TYPE_STRING;
	r->header.lines = (uint16_t)((16 + len + RTL_LINE - 1) / RTL_LINE);
	r->id = next_string;
	r->len_bytes = len;
	memset(buf + 16, 0, (size_t)r->header.lines * RTL_LINE - 16);
	memcpy(buf + 16, text, len);
	return ring_put_definition(&r->header) ? next_string++ : 0;
}

static struct kernel *kernel_place(uint64_t object)
{
	for (uint32_t i = (uint32_t)((object >> 6) * 0x9E3779B97F4A7C15ull >> 40);; i++) {
		struct kernel *k = &kernels[i & (KERNELS - 1)];

		if (k->object == object || !k->object)
			return k;
	}
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

static bool is_told(uint64_t executable)
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
	if (is_told(executable.handle) || executable_count == EXECUTABLES || !may_ask())
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

/* With the lock: the loader is asked, and may be about to lose an executable. */
static struct kernel *kernel_of(uint64_t object)
{
	struct kernel *k;

	if (kernel_count >= KERNELS_MAX)
		forget_kernels();
	if (!kernel_place(object)->object)
		learn_executable(object);
	k = kernel_enter(object);
	if (!k->agent)
		k->agent = agent_of((const void *)object);
	/* Without a symbol it stays unnamed; waiting for a name that never comes
	 * would hold up every dispatch behind it. */
	if (k->symbol && !k->name && may_ask() && !emit_name(k))
		k->symbol = 0;
	return k;
}

static bool same(const struct launch *l, const struct entry *e)
{
	/* relaxed: a destroying thread may write KERNEL_GONE, and then the
	 * application dispatches no such kernel */
	return __atomic_load_n(&l->kernel_object, __ATOMIC_RELAXED) == e->kernel_object &&
	       !memcmp(l->grid, e->grid, sizeof l->grid) &&
	       !memcmp(l->workgroup, e->workgroup, sizeof l->workgroup) &&
	       l->group_segment_bytes == e->group_segment_bytes && l->private_segment_bytes == e->private_segment_bytes;
}

static uint32_t hash(const struct entry *e)
{
	uint64_t h = (e->kernel_object >> 6) * 0x9E3779B97F4A7C15ull;

	h = (h ^ e->grid[0] ^ (uint64_t)e->grid[1] << 32) * 0x9E3779B97F4A7C15ull;
	h = (h ^ e->grid[2] ^ (uint64_t)e->workgroup[0] << 32 ^ (uint64_t)e->workgroup[1] << 48) * 0x9E3779B97F4A7C15ull;
	return (uint32_t)(h >> 40);
}

static void emit_launch(struct launch *l, const struct entry *e)
{
	struct kernel *k = kernel_of(e->kernel_object);
	struct rtl_launch r = {
		.header = {.type = RTL_TYPE_LAUNCH, .lines = 1},
		.id = next_launch,
		.name = k->name,
		.grid = {e->grid[0], e->grid[1], e->grid[2]},
		.workgroup = {e->workgroup[0], e->workgroup[1], e->workgroup[2]},
		.group_segment_bytes = e->group_segment_bytes,
		.private_segment_bytes = e->private_segment_bytes,
		.kernel_object = e->kernel_object,
		.agent = k->agent,
	};

	if ((k->symbol && !k->name) || atomic_load(&unguarded) || !ring_put_definition(&r.header))
		return;
	if (!k->symbol)
		TALLY(names_unresolved);
	memcpy(l->grid, e->grid, sizeof l->grid);
	memcpy(l->workgroup, e->workgroup, sizeof l->workgroup);
	l->group_segment_bytes = e->group_segment_bytes;
	l->private_segment_bytes = e->private_segment_bytes;
	l->id = next_launch;
	l->agent = k->agent;
	l->used = 1;
	__atomic_store_n(&l->kernel_object, e->kernel_object, __ATOMIC_RELAXED);
	launch_count++;
	next_launch++;
}

/* The launch of e, or the free place for it. */
static struct launch *launch_place(const struct entry *e)
{
	for (uint32_t i = hash(e);; i++) {
		struct launch *l = &launches[i & (LAUNCHES - 1)];

		if (!l->used || LIKELY(same(l, e)))
			return l;
	}
}

#define HURRY_LOOK_NS (10 * NS_PER_MS)

/* Others hold the lock while an executable dies, or go on without it: for good, if a
 * signal handler calls exit() then. */
static bool lock_loader(void)
{
	while (!may_ask() || mutex_lock(&lock, atomic_load(&stop_waiting) ? 0 : HURRY_LOOK_NS)) {
		if (atomic_load(&stop_waiting))
			return false;
		if (!may_ask())
			sys_sleep_ns(HURRY_LOOK_NS / 10);
	}
	return true;
}

/* What was learned of an executable that was destroyed without the lock, as was what
 * has been loaded at its addresses since. False: such a destruction goes on. */
static bool refresh(void)
{
	if (!lock_loader())
		return false;
	atomic_store(&stale, 0);
	forget_all();
	mutex_unlock(&lock);
	if (!atomic_load(&unguarded))
		return true;
	atomic_store(&stale, 1);
	return false;
}

uint32_t launch_id(struct queue *s, const struct entry *e)
{
	if (UNLIKELY(atomic_load_explicit(&stale, memory_order_acquire)) && !refresh())
		return 0;
	if (UNLIKELY(launch_count >= LAUNCHES_MAX))
		forget_launches();
	struct launch *l = launch_place(e);
	if (UNLIKELY(!l->used)) {
		if (!lock_loader())
			return 0;
		emit_launch(l, e);
		mutex_unlock(&lock);
		if (!l->used)
			return 0;
	}
	if (UNLIKELY(!s->agent))
		s->agent = l->agent;
	return l->id;
}

/* A launch whose kernel is no longer in the table must not be found by a new
 * kernel at the same address. Its place stays: others are probed past it. */
static void forget_launches_of_gone(void)
{
	for (uint32_t i = 0; i < LAUNCHES; i++) {
		struct launch *l = &launches[i];

		if (l->used && kernel_place(l->kernel_object)->object != l->kernel_object)
			__atomic_store_n(&l->kernel_object, KERNEL_GONE, __ATOMIC_RELAXED);
	}
}

/* The worker holds the lock, and has been told to ask no more: it lets go as soon as
 * it gets a processor. */
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
	if (!mutex_lock(&lock, FORGET_TIMEOUT_NS))
		return true;
	atomic_fetch_add(&unguarded, 1);
	atomic_store(&stale, 1);
	if (!lock_of_starved())
		return false;
	atomic_fetch_sub(&unguarded, 1);
	return true;
}

bool names_forget_begin(hsa_executable_t executable)
{
	if (!lock_to_destroy())
		return false;
	for (uint32_t i = 0; i < KERNELS && kernels; i++)
		if (kernels[i].object > KERNEL_GONE && kernels[i].executable == executable.handle)
			kernels[i] = (struct kernel){.object = KERNEL_GONE};
	if (launches)
		forget_launches_of_gone();
	for (uint32_t i = 0; i < executable_count; i++)
		if (executables[i] == executable.handle)
			executables[i] = executables[--executable_count];
	return true;
}

void names_forget_end(bool held)
{
	if (held)
		mutex_unlock(&lock);
	else
		atomic_fetch_sub(&unguarded, 1);
}
