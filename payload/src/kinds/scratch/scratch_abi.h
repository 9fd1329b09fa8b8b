/* scratch_abi.h: the records of scratch memory, which the runtime allocates for kernels that need more
 * private memory than their queue has. */
#ifndef RTL_SCRATCH_ABI_H
#define RTL_SCRATCH_ABI_H

#include "abi.h"

enum {
	RTL_TYPE_SCRATCH = RTL_KIND_TYPE(RTL_KIND_SCRATCH_MEMORY, 0),
	RTL_TYPE_SCRATCH_COVERAGE = RTL_KIND_TYPE(RTL_KIND_SCRATCH_MEMORY, 1),
};

/* In the order of the runtime's tools table. */
enum rtl_scratch_event {
	RTL_SCRATCH_ALLOC_START = 0,
	RTL_SCRATCH_ALLOC_END = 1,
	RTL_SCRATCH_FREE_START = 2,
	RTL_SCRATCH_FREE_END = 3,
	RTL_SCRATCH_RECLAIM_START = 4, /* taken back from a queue that does not use it */
	RTL_SCRATCH_RECLAIM_END = 5,
	RTL_SCRATCH_EVENTS = 6,
};

struct rtl_scratch {
	struct rtl_header header;
	uint64_t time_ns;
	uint64_t queue_address;/* hsa_queue_t* in the target */
	uint64_t dispatch;     /* ALLOC: index of the packet that needs it */
	uint64_t size_bytes;   /* ALLOC_END */
	uint64_t slots;        /* ALLOC_END: waves that have scratch at a time */
	uint32_t tid;          /* the thread that does it; 0: not known */
	uint32_t flags;        /* hsa_amd_event_scratch_alloc_flag_t */
	uint32_t losses;       /* if it differs from the thread's last record, records of the thread may be missing between */
	uint16_t event;        /* enum rtl_scratch_event */
	uint16_t reserved;
};

/* When a session begins. */
struct rtl_scratch_coverage {
	struct rtl_header header;
	uint32_t events; /* that are recorded; 0: the runtime (before 6.0) says nothing of scratch memory */
	uint32_t buried; /* of them: another tool's function is above ours, and may not call it */
	uint32_t reserved[12];
};

RTL_ONE_LINE(struct rtl_scratch);
RTL_ONE_LINE(struct rtl_scratch_coverage);

#endif
