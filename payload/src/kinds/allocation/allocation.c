/* allocation.c: the kind "memory-allocation": whose memory a pool is, and the records. */
#include <errno.h>
#include <stdio.h>

#include "core/clocks.h"
#include "core/runtime.h"
#include "core/session_flags.h"
#include "kinds/allocation/allocation.h"
#include "kinds/allocation/allocation_abi.h"
#include "kinds/allocation/hooks.h"
#include "kinds/kind.h"
#include "record/agents.h"
#include "record/emit.h"
#include "record/event.h"
#include "record/lanes.h"
#include "record/ring.h"

#define POOLS_MOST 512 /* a GPU has some four, a host some four for each node */

/* The pools and regions of all agents. Arming, then the worker. */
static struct pool {
	uint64_t handle;
	uint32_t agent; /* index into agents + 1; 0: the host's */
} pools[POOLS_MOST];
static uint32_t pool_count;

static void add_pool(uint64_t handle, uint32_t agent)
{
	if (pool_count < POOLS_MOST)
		pools[pool_count++] = (struct pool){handle, agent};
}

static hsa_status_t note_pool(hsa_amd_memory_pool_t pool, void *agent)
{
	add_pool(pool.handle, *(const uint32_t *)agent);
	return HSA_STATUS_SUCCESS;
}

static hsa_status_t note_region(hsa_region_t region, void *agent)
{
	add_pool(region.handle, *(const uint32_t *)agent);
	return HSA_STATUS_SUCCESS;
}

static hsa_status_t note_agent(hsa_agent_t handle, void *unused)
{
	uint32_t agent = agent_of_handle(handle);

	(void)unused;
	rt.iterate_pools(handle, note_pool, &agent);
	rt.iterate_regions(handle, note_region, &agent);
	return HSA_STATUS_SUCCESS;
}

static int prepare(char *err, size_t errlen)
{
	if (lanes_prepare()) {
		snprintf(err, errlen, "no memory for the records of allocations");
		return -ENOMEM;
	}
	pool_count = 0;
	rt.iterate_agents(note_agent, NULL);
	return 0;
}

static void open(void)
{
	lanes_open(RTL_KIND_MEMORY_ALLOCATION);
}

static uint32_t close(const struct ending *end, uint64_t until_ns)
{
	(void)end;
	lanes_close(RTL_KIND_MEMORY_ALLOCATION, until_ns);
	return 0;
}

static void set_agent(struct rtl_allocation *r)
{
	for (uint32_t i = 0; r->pool && i < pool_count; i++) {
		if (pools[i].handle != r->pool)
			continue;
		r->agent = pools[i].agent;
		r->flags |= RTL_ALLOCATION_AGENT_KNOWN;
		if (r->agent)
			emit_agent(r->agent);
		return;
	}
}

static void take_cell(const struct lane_cell *c)
{
	struct rtl_allocation r = {
		.header = {.type = RTL_TYPE_ALLOCATION, .lines = 1},
		.start_ns = stamp_to_ns(c->start),
		.end_ns = stamp_to_ns(c->end),
		.address = c->words[ALLOCATION_ADDRESS],
		.size_bytes = c->words[ALLOCATION_BYTES],
		.pool = c->words[ALLOCATION_POOL],
		.tid = c->tid,
		.operation = c->what,
		.status = (uint32_t)c->result,
	};

	if (r.end_ns < r.start_ns) /* the thread has moved to a core whose clock is behind */
		r.end_ns = r.start_ns;
	set_agent(&r);
	TALLY(kind[RTL_KIND_MEMORY_ALLOCATION].begun);
	TALLY(kind[RTL_KIND_MEMORY_ALLOCATION].timed);
	ring_put(&r.header);
}

void allocation_take(const struct event *e, bool abandon)
{
	(void)e, (void)abandon; /* it has no events */
}

struct hook allocation_hooks[ALLOCATION_HOOKS] = {
	[POOL_ALLOCATE] = HOOK("hsa_amd_memory_pool_allocate", wrap_pool_allocate, HOOK_REQUIRED),
	[REGION_ALLOCATE] = HOOK("hsa_memory_allocate", wrap_region_allocate, HOOK_REQUIRED),
	[VIRTUAL_CREATE] = HOOK("hsa_amd_vmem_handle_create", wrap_virtual_create, HOOK_IF_EXPORTED),
	[POOL_FREE] = HOOK("hsa_amd_memory_pool_free", wrap_pool_free, HOOK_REQUIRED),
	[REGION_FREE] = HOOK("hsa_memory_free", wrap_region_free, HOOK_REQUIRED),
	[VIRTUAL_RELEASE] = HOOK("hsa_amd_vmem_handle_release", wrap_virtual_release, HOOK_IF_EXPORTED),
};

const struct kind allocation_kind = {
	.hooks = HOOK_TABLE(allocation_hooks),
	.prepare = prepare,
	.open = open,
	.close = close,
	.release = lanes_release,
	.take_cell = take_cell,
};
