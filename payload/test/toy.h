/* toy.h: the runtime's functions that need no runtime, for the unit tests. */
#ifndef RTL_TEST_TOY_H
#define RTL_TEST_TOY_H

#include <stdlib.h>
#include <string.h>

#include "queues.h"
#include "runtime.h"

static hsa_status_t create_signal(hsa_signal_value_t v, uint32_t n, const hsa_agent_t *a, uint64_t f, hsa_signal_t *out)
{
	amd_signal_t *s = aligned_alloc(64, sizeof *s);

	(void)n, (void)a, (void)f;
	memset(s, 0, sizeof *s);
	s->kind = AMD_SIGNAL_KIND_USER;
	s->value = v;
	out->handle = (uint64_t)s;
	return HSA_STATUS_SUCCESS;
}

static hsa_status_t destroy_signal(hsa_signal_t s)
{
	free((void *)s.handle);
	return HSA_STATUS_SUCCESS;
}

static hsa_status_t convert(hsa_agent_t a, uint64_t ticks, uint64_t *ns)
{
	(void)a;
	*ns = ticks;
	return HSA_STATUS_SUCCESS;
}

static hsa_status_t no_pointer(const void *p, hsa_amd_pointer_info_t *i, void *(*f)(size_t), uint32_t *n, hsa_agent_t **a)
{
	(void)p, (void)f, (void)n, (void)a;
	i->type = HSA_EXT_POINTER_TYPE_HSA;
	i->agentOwner.handle = 1;
	return HSA_STATUS_SUCCESS;
}

static hsa_status_t no_executable(const void *p, hsa_executable_t *e)
{
	(void)p, (void)e;
	return HSA_STATUS_ERROR;
}

/* One agent, with handle 1, whose ticks are ns; no executables. */
static inline void toy_runtime(void)
{
	rt.signal_create = create_signal;
	rt.convert_tick = convert;
	rt.pointer_info = no_pointer;
	rt.loader.hsa_ven_amd_loader_query_executable = no_executable;
}

#endif
