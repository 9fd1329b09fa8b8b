/* edge_runtime.c: a runtime that ends, and perhaps begins again, while a session begins. */
#include "edge.h"

#include <errno.h>

#include "core/shared_hooks.h"
#include "core/session_flags.h"
#include "session/control_block.h"
#include "session/entry.h"
#include "toy.h"

static _Atomic uint32_t references = 1; /* the application's */
static _Atomic uint32_t arming;
static _Atomic uint32_t begun = 1; /* runtimes; an agent's handle, too */
static bool begins_again;           /* the application calls hsa_init directly after the end */

static hsa_status_t init(void)
{
	if (!atomic_fetch_add(&references, 1)) {
		atomic_fetch_add(&begun, 1);
		atomic_store(&runtime_closed, 0);
	}
	return HSA_STATUS_SUCCESS;
}

static hsa_status_t raw_shut_down(void)
{
	if (atomic_fetch_sub(&references, 1) > 1)
		return HSA_STATUS_SUCCESS;
	atomic_store(&runtime_closed, 1);
	return begins_again ? init() : HSA_STATUS_SUCCESS;
}

static void application_shuts_down(void)
{
	raw_shut_down();
}

static hsa_status_t this_agent(hsa_status_t (*note)(hsa_agent_t, void *), void *data)
{
	return note((hsa_agent_t){atomic_load(&begun)}, data);
}

/* While a session begins, a call lasts until the runtime has ended, if it ends. */
static hsa_status_t create(hsa_signal_value_t v, uint32_t n, const hsa_agent_t *a, uint64_t f, hsa_signal_t *out)
{
	uint64_t until = now_monotonic() + NS_PER_S / 10;

	CHECK(!atomic_load(&runtime_closed));
	while (atomic_load(&arming) && !begins_again && now_monotonic() < until)
		CHECK(!atomic_load(&runtime_closed));
	create_signal(v, n, a, f, out);
	((struct toy_signal *)out->handle)->rest[0] = atomic_load(&begun);
	return HSA_STATUS_SUCCESS;
}

static hsa_status_t destroy(hsa_signal_t s)
{
	CHECK(!atomic_load(&runtime_closed));
	CHECK(((struct toy_signal *)s.handle)->rest[0] == atomic_load(&begun));
	return destroy_signal(s);
}

static void play(void)
{
	rt.init = init;
	rt.signal_create = create;
	rt.iterate_agents = this_agent;
	shared_hooks[SHUT_DOWN].next = (uintptr_t)raw_shut_down;
	shared_hooks[SIGNAL_DESTROY].next = (uintptr_t)destroy;
}

#define ENV "\1\0\0\0RTL_SIGNAL_POOL\0001"

static int attach(void)
{
	atomic_store(&arming, 1);
	int r = rtl_attach(ENV, sizeof ENV);
	atomic_store(&arming, 0);
	return r;
}

/* The application calls hsa_shut_down for the last time; only we have a reference then. */
static void ends_before_patch(void)
{
	play();
	at_patch = application_shuts_down;
	CHECK(attach() == -ECANCELED);
	CHECK(!atomic_load(&references) && control->state == RTL_STATE_IDLE);
}

/* A thread has read the slot before it is patched. */
static void ends_in_grace(void)
{
	play();
	at_grace = application_shuts_down;
	CHECK(attach() == -ECANCELED);
	CHECK(!atomic_load(&references) && control->state == RTL_STATE_IDLE);
}

/* The next runtime does not have the objects of the last one. */
static void begins_again_after_patch(void)
{
	play();
	begins_again = true;
	at_patch = application_shuts_down;
	CHECK(attach() == -ECANCELED);
	CHECK(atomic_load(&references) == 1 && atomic_load(&begun) == 2);
	at_patch = NULL;
	CHECK(attach() == 0 && rtl_detach() == 0);
	CHECK(atomic_load(&references) == 1);
}

static hsa_status_t no_agent(hsa_status_t (*note)(hsa_agent_t, void *), void *data)
{
	return (void)note, (void)data, HSA_STATUS_SUCCESS;
}

/* Before the patching, and after it. */
static void failed_arming_lets_go(void)
{
	play();
	rt.iterate_agents = no_agent;
	CHECK(attach() == -ENODEV && atomic_load(&references) == 1);
	rt.iterate_agents = this_agent;
	grace_result = -ETIMEDOUT;
	CHECK(attach() == -ETIMEDOUT && atomic_load(&references) == 1);
}

const struct edge_case runtime_cases[] = {
	{"runtime ends before the patching", ends_before_patch},
	{"runtime ends in the grace", ends_in_grace},
	{"runtime begins again after the patching", begins_again_after_patch},
	{"failed arming lets the runtime go", failed_arming_lets_go},
	{0},
};
