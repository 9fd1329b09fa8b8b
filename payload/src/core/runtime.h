/*
 * runtime.h: the target's HSA runtime, found in the target.
 *
 * Nothing is linked: every function is looked up in the copy of
 * libhsa-runtime64 that the process already uses.
 */
#ifndef RTL_RUNTIME_H
#define RTL_RUNTIME_H

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <hsa/hsa_ven_amd_loader.h>
#include <stdbool.h>
#include <stddef.h>

/* Functions that the payload calls; none of them is hooked (hsa_shut_down and
 * hsa_signal_destroy are, and called through NEXT). */
struct runtime {
	void *library; /* dlopen handle, NULL: not found yet */
	char path[512];
	hsa_status_t (*init)(void);
	hsa_status_t (*system_get_info)(hsa_system_info_t, void *);
	hsa_status_t (*get_extension)(uint16_t, uint16_t, size_t, void *);
	hsa_status_t (*iterate_agents)(hsa_status_t (*)(hsa_agent_t, void *), void *);
	hsa_status_t (*iterate_pools)(hsa_agent_t, hsa_status_t (*)(hsa_amd_memory_pool_t, void *), void *);
	hsa_status_t (*iterate_regions)(hsa_agent_t, hsa_status_t (*)(hsa_region_t, void *), void *);
	hsa_status_t (*agent_get_info)(hsa_agent_t, hsa_agent_info_t, void *);
	hsa_status_t (*signal_create)(hsa_signal_value_t, uint32_t, const hsa_agent_t *, uint64_t, hsa_signal_t *);
	hsa_status_t (*set_profiling)(hsa_queue_t *, int);
	hsa_status_t (*convert_tick)(hsa_agent_t, uint64_t, uint64_t *);
	hsa_status_t (*pointer_info)(const void *, hsa_amd_pointer_info_t *, void *(*)(size_t), uint32_t *, hsa_agent_t **);
	hsa_status_t (*iterate_symbols)(hsa_executable_t, hsa_agent_t,
					hsa_status_t (*)(hsa_executable_t, hsa_agent_t, hsa_executable_symbol_t, void *), void *);
	hsa_status_t (*symbol_get_info)(hsa_executable_symbol_t, hsa_executable_symbol_info_t, void *);
	/* optional: NULL where the runtime has none */
	hsa_status_t (*queue_get_info)(hsa_queue_t *, int, void *);
	hsa_status_t (*copy_time)(hsa_signal_t, hsa_amd_profiling_async_copy_time_t *);
	hsa_ven_amd_loader_1_03_pfn_t loader;
};

extern struct runtime rt;

/*
 * Finds the runtime: the library of that path, or, if path is empty, the one
 * that libamdhip64 uses, or the only one. 0, or -errno with a reason in err.
 * A payload serves one runtime: -ENOTSUP if this is another one than before.
 */
int runtime_find(const char *path, char *err, size_t errlen);

/* Whether hsa_init has been called more often than hsa_shut_down. */
bool runtime_open(void);

/* After runtime_open(): the loader extension's functions. */
int runtime_load_extension(char *err, size_t errlen);

#endif
