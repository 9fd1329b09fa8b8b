/* toy.h: the runtime's functions that need no runtime, for the unit tests. */
#ifndef RTL_TEST_TOY_H
#define RTL_TEST_TOY_H

#include <stdlib.h>
#include <string.h>

#include "core/runtime.h"
#include "kinds/dispatch/queues.h"

/* The layout of the runtime's signals. */
struct toy_signal {
	amd_signal_t public;
	uint64_t sdma_start, core_signal, mark, reserved, sdma_end, rest[3];
};
_Static_assert(sizeof(struct toy_signal) == 128, "two cache lines");

static inline hsa_status_t create_signal(hsa_signal_value_t v, uint32_t n, const hsa_agent_t *a, uint64_t f, hsa_signal_t *out)
{
	struct toy_signal *s = aligned_alloc(64, sizeof *s);

	(void)n, (void)a, (void)f;
	memset(s, 0, sizeof *s);
	s->public.kind = AMD_SIGNAL_KIND_USER;
	s->public.value = v;
	s->mark = 0x71FCCA6A3D5D5276ull;
	out->handle = (uint64_t)s;
	return HSA_STATUS_SUCCESS;
}

static inline hsa_status_t destroy_signal(hsa_signal_t s)
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

static inline hsa_status_t copy_time(hsa_signal_t signal, hsa_amd_profiling_async_copy_time_t *out)
{
	struct toy_signal *s = (struct toy_signal *)signal.handle;

	out->start = __atomic_load_n(&s->sdma_start, __ATOMIC_RELAXED);
	out->end = __atomic_load_n(&s->sdma_end, __ATOMIC_ACQUIRE);
	return out->end ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR;
}

/* A copy begins; and the engine has ended it. */
static inline void toy_copy_begins(struct toy_signal *s)
{
	__atomic_store_n(&s->sdma_start, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&s->sdma_end, 0, __ATOMIC_RELAXED);
}

static inline void toy_copy_ends(struct toy_signal *s)
{
	uint64_t now = now_boottime();

	__atomic_store_n(&s->sdma_start, now, __ATOMIC_RELAXED);
	__atomic_store_n(&s->sdma_end, now + 10, __ATOMIC_RELEASE);
	__atomic_fetch_sub(&s->public.value, 1, __ATOMIC_SEQ_CST);
}

/* One agent, with handle 1, whose ticks are ns; no executables. */
static inline void toy_runtime(void)
{
	rt.signal_create = create_signal;
	rt.convert_tick = convert;
	rt.pointer_info = no_pointer;
	rt.copy_time = copy_time;
	rt.loader.hsa_ven_amd_loader_query_executable = no_executable;
}

#endif
