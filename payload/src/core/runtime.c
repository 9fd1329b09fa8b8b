#define _GNU_SOURCE
#include "core/runtime.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "core/glibc217.h"
#include "core/sys.h"

#define RUNTIME_SONAME "libhsa-runtime64.so"
#define HIP_SONAME "libamdhip64.so"

struct runtime rt;

struct candidates {
	int runtimes, hips;
	char runtime[512], hip[512];
};

static bool named(const char *path, const char *soname)
{
	const char *base = strrchr(path, '/');

	base = base ? base + 1 : path;
	return strncmp(base, soname, strlen(soname)) == 0;
}

static int note_candidate(struct dl_phdr_info *info, size_t size, void *data)
{
	struct candidates *c = data;

	(void)size;
	if (!info->dlpi_name)
		return 0;
	if (named(info->dlpi_name, RUNTIME_SONAME) && c->runtimes++ == 0)
		snprintf(c->runtime, sizeof c->runtime, "%s", info->dlpi_name);
	if (named(info->dlpi_name, HIP_SONAME) && c->hips++ == 0)
		snprintf(c->hip, sizeof c->hip, "%s", info->dlpi_name);
	return 0;
}

/* If several copies are mapped, HIP's link map says which one is in use. */
static void *open_used_copy(const char *path, char *err, size_t errlen)
{
	struct candidates c = {0};

	if (path && *path)
		return dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
	dl_iterate_phdr(note_candidate, &c);
	if (c.runtimes == 0) {
		snprintf(err, errlen, "no libhsa-runtime64 is loaded");
		return NULL;
	}
	if (c.runtimes > 1 && c.hips == 1)
		return dlopen(c.hip, RTLD_NOLOAD | RTLD_LAZY);
	if (c.runtimes > 1) {
		snprintf(err, errlen, "%d copies of libhsa-runtime64 are loaded: name one with RTL_HSA_LIBRARY", c.runtimes);
		return NULL;
	}
	return dlopen(c.runtime, RTLD_NOLOAD | RTLD_LAZY);
}

#define FIND(field, symbol) {symbol, offsetof(struct runtime, field)}
static const struct {
	const char *name;
	size_t offset;
} needed[] = {
	FIND(init, "hsa_init"),
	FIND(system_get_info, "hsa_system_get_info"),
	FIND(get_extension, "hsa_system_get_major_extension_table"),
	FIND(iterate_agents, "hsa_iterate_agents"),
	FIND(iterate_pools, "hsa_amd_agent_iterate_memory_pools"),
	FIND(iterate_regions, "hsa_agent_iterate_regions"),
	FIND(agent_get_info, "hsa_agent_get_info"),
	FIND(signal_create, "hsa_amd_signal_create"),
	FIND(set_profiling, "hsa_amd_profiling_set_profiler_enabled"),
	FIND(convert_tick, "hsa_amd_profiling_convert_tick_to_system_domain"),
	FIND(pointer_info, "hsa_amd_pointer_info"),
	FIND(iterate_symbols, "hsa_executable_iterate_agent_symbols"),
	FIND(symbol_get_info, "hsa_executable_symbol_get_info"),
};

/* A payload stays bound to the runtime that it found first: threads in our wrappers may use
 * its slots at any time. */
static int compare(void *library, char *err, size_t errlen)
{
	bool same = dlsym(library, "hsa_init") == (void *)rt.init;

	dlclose(library);
	if (same)
		return 0;
	snprintf(err, errlen, "the resident payload is bound to %s, and this process uses another HSA runtime by now", rt.path);
	return -ENOTSUP;
}

static int bind(void *library, char *err, size_t errlen)
{
	Dl_info where;

	for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
		void *f = dlsym(library, needed[i].name);

		if (!f) {
			snprintf(err, errlen, "the HSA runtime has no %s", needed[i].name);
			dlclose(library);
			return -ENOSYS;
		}
		memcpy((char *)&rt + needed[i].offset, &f, sizeof f);
	}
	rt.queue_get_info = (__typeof__(rt.queue_get_info))dlsym(library, "hsa_amd_queue_get_info");
	rt.copy_time = (__typeof__(rt.copy_time))dlsym(library, "hsa_amd_profiling_get_async_copy_time");
	if (dladdr(*(void **)&rt.system_get_info, &where) && where.dli_fname)
		snprintf(rt.path, sizeof rt.path, "%s", where.dli_fname);
	rt.library = library;
	return 0;
}

int runtime_find(const char *path, char *err, size_t errlen)
{
	err[0] = 0;
	void *library = open_used_copy(path, err, errlen);
	if (!library) {
		if (!err[0])
			snprintf(err, errlen, "cannot open the loaded HSA runtime: %s", dlerror());
		return -ENOENT;
	}
	return rt.library ? compare(library, err, errlen) : bind(library, err, errlen);
}

bool runtime_open(void)
{
	uint64_t ticks;

	return rt.library && rt.system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &ticks) == HSA_STATUS_SUCCESS;
}

int runtime_load_extension(char *err, size_t errlen)
{
	memset(&rt.loader, 0, sizeof rt.loader);
	if (rt.get_extension(HSA_EXTENSION_AMD_LOADER, 1, sizeof rt.loader, &rt.loader) != HSA_STATUS_SUCCESS ||
	    !rt.loader.hsa_ven_amd_loader_query_executable) {
		snprintf(err, errlen, "the HSA runtime has no loader extension: kernel names cannot be resolved");
		return -ENOSYS;
	}
	return 0;
}
