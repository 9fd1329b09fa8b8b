/*
 * wrap.c: the wrappers of the functions that allocate and release memory. Each calls the next
 * function first; the record is made when that has returned.
 */
#include "core/session_flags.h"
#include "kinds/allocation/allocation.h"
#include "kinds/allocation/allocation_abi.h"
#include "kinds/allocation/hooks.h"
#include "record/lanes.h"

/* A call that is going on. */
struct operation {
	uint32_t gate;
	uint64_t start;
};

static inline struct operation begin(void)
{
	return (struct operation){atomic_load(lanes_gate), stamp_time()};
}

static void end(const struct operation *o, uint16_t what, hsa_status_t status, uint64_t address, uint64_t bytes, uint64_t pool)
{
	const uint32_t kind = RTL_KIND_MEMORY_ALLOCATION;
	uint64_t now = stamp_time();

	if (!lane_is_open(kind, o->gate))
		return;
	struct lane_claim claim = lane_claim(kind, 1);
	if (!claim.lane)
		return;
	struct lane_cell *c = lane_cell(&claim, 0);
	c->kind = lane_is_open(kind, o->gate) ? kind : LANE_VOID;
	c->start = o->start;
	c->end = now;
	c->result = status;
	c->tid = current_tid();
	c->what = what;
	c->words[ALLOCATION_ADDRESS] = address;
	c->words[ALLOCATION_BYTES] = bytes;
	c->words[ALLOCATION_POOL] = pool;
	lane_publish(&claim, 1);
}

#define NEXT_OF(HOOK, wrapper) NEXT(allocation_hooks[HOOK], __typeof__(&(wrapper)))

hsa_status_t wrap_pool_allocate(hsa_amd_memory_pool_t pool, size_t bytes, uint32_t flags, void **out)
{
	struct operation o = begin();
	hsa_status_t r = NEXT_OF(POOL_ALLOCATE, wrap_pool_allocate)(pool, bytes, flags, out);

	end(&o, RTL_ALLOCATION_POOL, r, r ? 0 : (uint64_t)*out, bytes, pool.handle);
	return r;
}

hsa_status_t wrap_region_allocate(hsa_region_t region, size_t bytes, void **out)
{
	struct operation o = begin();
	hsa_status_t r = NEXT_OF(REGION_ALLOCATE, wrap_region_allocate)(region, bytes, out);

	end(&o, RTL_ALLOCATION_REGION, r, r ? 0 : (uint64_t)*out, bytes, region.handle);
	return r;
}

hsa_status_t wrap_virtual_create(hsa_amd_memory_pool_t pool, size_t bytes, int type, uint64_t flags, struct virtual_handle *out)
{
	struct operation o = begin();
	hsa_status_t r = NEXT_OF(VIRTUAL_CREATE, wrap_virtual_create)(pool, bytes, type, flags, out);

	end(&o, RTL_ALLOCATION_VIRTUAL, r, r ? 0 : out->handle, bytes, pool.handle);
	return r;
}

hsa_status_t wrap_pool_free(void *address)
{
	struct operation o = begin();
	hsa_status_t r = NEXT_OF(POOL_FREE, wrap_pool_free)(address);

	end(&o, RTL_ALLOCATION_POOL_FREE, r, (uint64_t)address, 0, 0);
	return r;
}

hsa_status_t wrap_region_free(void *address)
{
	struct operation o = begin();
	hsa_status_t r = NEXT_OF(REGION_FREE, wrap_region_free)(address);

	end(&o, RTL_ALLOCATION_REGION_FREE, r, (uint64_t)address, 0, 0);
	return r;
}

hsa_status_t wrap_virtual_release(struct virtual_handle handle)
{
	struct operation o = begin();
	hsa_status_t r = NEXT_OF(VIRTUAL_RELEASE, wrap_virtual_release)(handle);

	end(&o, RTL_ALLOCATION_VIRTUAL_FREE, r, handle.handle, 0, 0);
	return r;
}
