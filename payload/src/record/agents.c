/* agents.c: see agents.h. */
#include "record/agents.h"

#include <errno.h>
#include <hsa/hsa_ext_amd.h>
#include <string.h>

#include "core/runtime.h"
#include "core/session_flags.h"

/*
 * How long a fit is used. The runtime derives the rate of the GPU's clock from two readings,
 * the first in hsa_init. Shortly after that, one tick of rounding is a large error in a long
 * extrapolation. So each fit is used for a quarter longer than the one before.
 */
#define FIT_FIRST_NS NS_PER_MS
#define FIT_MOST_NS (100 * NS_PER_MS)
#define FIT_TICKS 100000000ull   /* distance of its two points: 1 s at 100 MHz, in which 1 ns of rounding is little */

struct agent agents[AGENTS_MAX];
uint32_t agent_count;

static hsa_status_t note_agent(hsa_agent_t handle, void *data)
{
	hsa_device_type_t type;

	(void)data;
	if (rt.agent_get_info(handle, HSA_AGENT_INFO_DEVICE, &type) || type != HSA_DEVICE_TYPE_GPU || agent_count == AGENTS_MAX)
		return HSA_STATUS_SUCCESS;
	struct agent *a = &agents[agent_count++];
	*a = (struct agent){.handle = handle};
	rt.agent_get_info(handle, HSA_AGENT_INFO_NAME, a->name);
	rt.agent_get_info(handle, (hsa_agent_info_t)HSA_AMD_AGENT_INFO_PRODUCT_NAME, a->product);
	rt.agent_get_info(handle, (hsa_agent_info_t)HSA_AMD_AGENT_INFO_DRIVER_NODE_ID, &a->driver_node);
	rt.agent_get_info(handle, (hsa_agent_info_t)HSA_AMD_AGENT_INFO_BDFID, &a->bdf);
	rt.agent_get_info(handle, (hsa_agent_info_t)HSA_AMD_AGENT_INFO_DOMAIN, &a->pci_domain);
	rt.agent_get_info(handle, (hsa_agent_info_t)HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT, &a->compute_units);
	a->name[sizeof a->name - 1] = a->product[sizeof a->product - 1] = 0;
	return HSA_STATUS_SUCCESS;
}

int agents_find(void)
{
	agent_count = 0;
	rt.iterate_agents(note_agent, NULL);
	return agent_count ? 0 : -ENODEV;
}

static hsa_status_t count_known(hsa_agent_t handle, void *data)
{
	uint32_t *n = data;

	if (*n < agent_count && agents[*n].handle.handle == handle.handle)
		++*n;
	return HSA_STATUS_SUCCESS;
}

bool agents_remain(void)
{
	uint32_t n = 0;

	rt.iterate_agents(count_known, &n);
	return n == agent_count;
}

uint32_t agent_of_handle(hsa_agent_t handle)
{
	for (uint32_t i = 0; i < agent_count; i++)
		if (agents[i].handle.handle == handle.handle)
			return i + 1;
	return 0;
}

uint32_t agent_of(const void *address)
{
	hsa_amd_pointer_info_t info = {.size = sizeof info};

	if (runtime_is_lost() || rt.pointer_info(address, &info, NULL, NULL, NULL) || info.type == HSA_EXT_POINTER_TYPE_UNKNOWN)
		return 0;
	return agent_of_handle(info.agentOwner);
}

static void fit(struct agent *a, uint64_t ticks)
{
	uint64_t before = ticks > FIT_TICKS ? ticks - FIT_TICKS : 0, ns = 0, ns_before = 0;

	if (runtime_is_lost())
		return; /* keeps the old line; without one the result is 0 */
	rt.convert_tick(a->handle, ticks, &ns);
	rt.convert_tick(a->handle, before, &ns_before);
	a->fit_tick = ticks;
	a->fit_ns = ns;
	a->ns_per_tick = ticks > before ? (double)(ns - ns_before) / (double)(ticks - before) : 1;
	a->fit_for_ns = a->fit_for_ns ? a->fit_for_ns + a->fit_for_ns / 4 : FIT_FIRST_NS;
	if (a->fit_for_ns > FIT_MOST_NS)
		a->fit_for_ns = FIT_MOST_NS;
}

uint64_t agent_ticks_to_ns(struct agent *a, uint64_t ticks)
{
	int64_t away = (int64_t)(ticks - a->fit_tick);

	/* Ticks before the fit are as exact as those after it; only an old line is not. */
	if (UNLIKELY(!a->fit_for_ns || (away > 0 && (double)away * a->ns_per_tick > (double)a->fit_for_ns)))
		fit(a, ticks), away = (int64_t)(ticks - a->fit_tick);
	return a->fit_ns + (uint64_t)(int64_t)((double)away * a->ns_per_tick);
}
