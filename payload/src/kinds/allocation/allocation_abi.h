/* allocation_abi.h: the record of one allocation or release of memory. */
#ifndef RTL_ALLOCATION_ABI_H
#define RTL_ALLOCATION_ABI_H

#include "abi.h"

enum { RTL_TYPE_ALLOCATION = RTL_KIND_TYPE(RTL_KIND_MEMORY_ALLOCATION, 0) };

enum rtl_allocation_operation {
	RTL_ALLOCATION_POOL = 0,        /* hsa_amd_memory_pool_allocate */
	RTL_ALLOCATION_REGION = 1,      /* hsa_memory_allocate */
	RTL_ALLOCATION_VIRTUAL = 2,     /* hsa_amd_vmem_handle_create: physical memory for virtual addresses */
	RTL_ALLOCATION_POOL_FREE = 3,   /* hsa_amd_memory_pool_free */
	RTL_ALLOCATION_REGION_FREE = 4, /* hsa_memory_free */
	RTL_ALLOCATION_VIRTUAL_FREE = 5,/* hsa_amd_vmem_handle_release */
	RTL_ALLOCATION_COUNT = 6,
};

/* bits of rtl_allocation.flags */
#define RTL_ALLOCATION_AGENT_KNOWN 1u /* agent says whose memory it is; else agent is 0 */

/* When the call has returned. */
struct rtl_allocation {
	struct rtl_header header;
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t address;   /* of the memory, or the handle of a VIRTUAL operation; 0: none was returned */
	uint64_t size_bytes;/* that was asked for; 0 for a release */
	uint64_t pool;      /* handle of the pool or region; 0 for a release */
	uint32_t tid;       /* calling thread, in the target's pid namespace; 0: not known */
	uint32_t agent;     /* id of an agent record; 0: the host's */
	uint16_t operation; /* enum rtl_allocation_operation */
	uint16_t flags;     /* RTL_ALLOCATION_... */
	uint32_t status;    /* hsa_status_t */
};

RTL_ONE_LINE(struct rtl_allocation);

#endif
