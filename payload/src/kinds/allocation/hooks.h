/* hooks.h: the functions that allocate and release memory, and their wrappers (wrap.c). */
#ifndef RTL_ALLOCATION_HOOKS_H
#define RTL_ALLOCATION_HOOKS_H

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include "core/hooks.h"
#include "core/sys.h"

enum allocation_hook {
	POOL_ALLOCATE,
	REGION_ALLOCATE,
	VIRTUAL_CREATE,
	POOL_FREE,
	REGION_FREE,
	VIRTUAL_RELEASE,
	ALLOCATION_HOOKS
};
extern HIDDEN struct hook allocation_hooks[ALLOCATION_HOOKS];

/* As hsa_amd_vmem_alloc_handle_t and hsa_amd_memory_type_t of newer runtimes. */
struct virtual_handle {
	uint64_t handle;
};

hsa_status_t wrap_pool_allocate(hsa_amd_memory_pool_t, size_t, uint32_t, void **);
hsa_status_t wrap_region_allocate(hsa_region_t, size_t, void **);
hsa_status_t wrap_virtual_create(hsa_amd_memory_pool_t, size_t, int, uint64_t, struct virtual_handle *);
hsa_status_t wrap_pool_free(void *);
hsa_status_t wrap_region_free(void *);
hsa_status_t wrap_virtual_release(struct virtual_handle);

#endif
