/* dispatch_abi.h: the records of dispatches. Their windows, queues and launches are definitions (abi.h). */
#ifndef RTL_DISPATCH_ABI_H
#define RTL_DISPATCH_ABI_H

#include "abi.h"

enum {
	RTL_TYPE_DISPATCH = RTL_KIND_TYPE(RTL_KIND_DISPATCH, 0),
	RTL_TYPE_UNTIMED = RTL_KIND_TYPE(RTL_KIND_DISPATCH, 1),
};

/* flags of a dispatch */
#define RTL_FLAG_APP_SIGNAL 1u /* times from the application's own signal */
#define RTL_FLAG_BARRIER 2u    /* the packet's barrier bit */
#define RTL_FLAG_SUBMIT_UNKNOWN 4u /* no stamp: submit_ns and tid are 0 */

struct rtl_dispatch {
	struct rtl_header header;
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t submit_ns; /* when the slot was claimed */
	uint64_t index;     /* packet index in its queue */
	uint32_t queue;     /* id of a queue record */
	uint32_t launch;    /* id of a launch record */
	uint32_t tid;       /* claiming thread, in the target's pid namespace */
	uint32_t flags;
	uint64_t signal;    /* the application's completion signal, 0: none */
};

/* count consecutive packets from index on, all untimed for one reason. */
struct rtl_untimed {
	struct rtl_header header;
	uint64_t index;
	uint64_t count;
	uint64_t submit_ns; /* of the first, 0: unknown */
	uint32_t queue;
	uint32_t reason; /* enum rtl_reason */
	uint32_t launch; /* 0: unknown */
	uint32_t tid;
	uint64_t reserved[2];
};

RTL_ONE_LINE(struct rtl_dispatch);
RTL_ONE_LINE(struct rtl_untimed);

#endif
