/* wrap.c: the functions that copy memory, and the switch of their profiling. */
#include "kinds/copy/copy.h"
#include "kinds/copy/hooks.h"
#include "record/agents.h"

/* The runtime gives a copy to the source's GPU, else to the destination's. */
static void describe(struct copy_item *e, const void *to, hsa_agent_t to_agent, const void *from, hsa_agent_t from_agent)
{
	e->to = (uint64_t)to;
	e->from = (uint64_t)from;
	e->to_agent = (uint16_t)agent_of_handle(to_agent);
	e->from_agent = (uint16_t)agent_of_handle(from_agent);
	e->clock = e->from_agent ? e->from_agent : e->to_agent;
	e->direction = copy_direction(e->from_agent, e->to_agent);
}

hsa_status_t wrap_copy_linear(void *to, hsa_agent_t to_agent, const void *from, hsa_agent_t from_agent, size_t size,
			      uint32_t depends, const hsa_signal_t *on, hsa_signal_t signal)
{
	struct copy_note n = {.item.bytes = size};

	describe(&n.item, to, to_agent, from, from_agent);
	if (size) /* else the runtime does nothing, and leaves the signal as it is */
		copy_note(&n, signal);
	hsa_status_t status = NEXT(copy_hooks[COPY_LINEAR], __typeof__(&wrap_copy_linear))(to, to_agent, from, from_agent, size, depends, on, signal);
	return copy_submitted(&n, status);
}

hsa_status_t wrap_copy_on_engine(void *to, hsa_agent_t to_agent, const void *from, hsa_agent_t from_agent, size_t size,
				 uint32_t depends, const hsa_signal_t *on, hsa_signal_t signal, int engine, bool force)
{
	struct copy_note n = {.item.bytes = size};

	describe(&n.item, to, to_agent, from, from_agent);
	if (size)
		copy_note(&n, signal);
	hsa_status_t status = NEXT(copy_hooks[COPY_ON_ENGINE], __typeof__(&wrap_copy_on_engine))(to, to_agent, from, from_agent, size, depends,
										     on, signal, engine, force);
	return copy_submitted(&n, status);
}

/* The caller names the GPU that copies, and the direction. */
static void describe_rect(struct copy_item *e, const hsa_pitched_ptr_t *to, const hsa_pitched_ptr_t *from, const hsa_dim3_t *range,
			  hsa_agent_t by, hsa_amd_copy_direction_t way)
{
	uint16_t agent = (uint16_t)agent_of_handle(by);

	e->to = (uint64_t)to->base;
	e->from = (uint64_t)from->base;
	e->bytes = (uint64_t)range->x * range->y * range->z;
	e->clock = agent;
	e->to_agent = way & RTL_HOST_TO_DEVICE ? agent : 0;
	e->from_agent = way & RTL_DEVICE_TO_HOST ? agent : 0;
	e->direction = (uint16_t)way;
}

hsa_status_t wrap_copy_rect(const hsa_pitched_ptr_t *to, const hsa_dim3_t *to_offset, const hsa_pitched_ptr_t *from,
			    const hsa_dim3_t *from_offset, const hsa_dim3_t *range, hsa_agent_t by, hsa_amd_copy_direction_t way,
			    uint32_t depends, const hsa_signal_t *on, hsa_signal_t signal)
{
	struct copy_note n = {0};

	if (to && from && range && (unsigned)way < RTL_DIRECTION_COUNT)
		describe_rect(&n.item, to, from, range, by, way);
	if (n.item.bytes)
		copy_note(&n, signal);
	hsa_status_t status = NEXT(copy_hooks[COPY_RECT], __typeof__(&wrap_copy_rect))(to, to_offset, from, from_offset, range, by, way, depends,
									   on, signal);
	return copy_submitted(&n, status);
}

hsa_status_t wrap_copy_profiling(bool wanted)
{
	return copy_profiling_wanted(wanted, NEXT(copy_hooks[COPY_PROFILING], __typeof__(&wrap_copy_profiling)));
}

struct hook copy_hooks[COPY_HOOKS] = {
	[COPY_LINEAR] = HOOK("hsa_amd_memory_async_copy", wrap_copy_linear, HOOK_REQUIRED),
	[COPY_RECT] = HOOK("hsa_amd_memory_async_copy_rect", wrap_copy_rect, HOOK_IF_EXPORTED),
	[COPY_ON_ENGINE] = HOOK("hsa_amd_memory_async_copy_on_engine", wrap_copy_on_engine, HOOK_IF_EXPORTED),
	[COPY_PROFILING] = HOOK("hsa_amd_profiling_async_copy_enable", wrap_copy_profiling, HOOK_REQUIRED),
};
