/* copy_abi.h: the record of a memory copy. */
#ifndef RTL_COPY_ABI_H
#define RTL_COPY_ABI_H

#include "abi.h"

enum {
	RTL_TYPE_COPY = RTL_KIND_TYPE(RTL_KIND_MEMORY_COPY, 0),
};

/* As hsa_amd_copy_direction_t. */
enum rtl_direction {
	RTL_HOST_TO_HOST = 0,
	RTL_HOST_TO_DEVICE = 1,
	RTL_DEVICE_TO_HOST = 2,
	RTL_DEVICE_TO_DEVICE = 3,
	RTL_DIRECTION_COUNT = 4,
};

/* One call of hsa_amd_memory_async_copy, …_rect or …_on_engine. */
struct rtl_copy {
	struct rtl_header header;
	uint64_t start_ns; /* 0 with a reason */
	uint64_t end_ns;
	uint64_t submit_ns; /* when it was called */
	uint64_t bytes;
	uint64_t signal;    /* the application's completion signal */
	uint32_t from, to;  /* ids of agent records, 0: host memory */
	uint32_t tid;       /* calling thread, in the target's pid namespace */
	uint16_t direction; /* enum rtl_direction */
	uint16_t reason;    /* enum rtl_reason: why it has no times; 0: it has */
};

RTL_ONE_LINE(struct rtl_copy);

#endif
