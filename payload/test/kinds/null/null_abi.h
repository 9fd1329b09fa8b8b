/* null_abi.h: the record of one call. */
#ifndef RTL_NULL_ABI_H
#define RTL_NULL_ABI_H

#include "abi.h"

enum { RTL_TYPE_NULL_CALL = RTL_KIND_TYPE(RTL_KIND_NULL, 0) };

struct rtl_null_call {
	struct rtl_header header;
	uint64_t time_ns; /* when it was called */
	uint32_t tid;     /* calling thread, in the target's pid namespace */
	uint32_t attribute_id; /* hsa_system_info_t */
	uint64_t reserved[5];
};

RTL_ONE_LINE(struct rtl_null_call);

#endif
