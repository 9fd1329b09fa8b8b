/* agents.h: the GPU agents, and their clocks. */
#ifndef RTL_AGENTS_H
#define RTL_AGENTS_H

#include <hsa/hsa.h>
#include <stdbool.h>
#include <stdint.h>

#define AGENTS_MAX 64

struct agent {
	hsa_agent_t handle;
	char name[64];
	char product[64];
	uint32_t driver_node, bdf, pci_domain, compute_units;
	uint32_t emitted; /* its record is in the ring */
	/* ticks -> CLOCK_BOOTTIME ns, as the runtime itself converts, by a
	 * line that is fitted again and again */
	uint64_t fit_tick, fit_ns, fit_for_ns;
	double ns_per_tick;
};

extern struct agent agents[AGENTS_MAX];
extern uint32_t agent_count;

/* Arming: asks the runtime for its agents. 0 or -errno. */
int agents_find(void);
/* False: the runtime has ended since agents_find(), and there is another one now. */
bool agents_remain(void);

/* The agent that owns memory at address; index + 1, 0: unknown. */
uint32_t agent_of(const void *address);
uint32_t agent_of_handle(hsa_agent_t handle);

/* Worker only. Within a few ns of the runtime's own conversion. */
uint64_t agent_ticks_to_ns(struct agent *a, uint64_t ticks);

#endif
