/* launches.h: launch configurations, each written once per session. */
#ifndef RTL_LAUNCHES_H
#define RTL_LAUNCHES_H

#include <hsa/hsa.h>
#include <stdbool.h>
#include <stdint.h>

/* One launch of a kernel. may_alias: the worker reads it in the item of an event, in
 * place. */
struct __attribute__((may_alias)) kernel_call {
	uint64_t kernel_object;
	uint32_t grid[3];
	uint16_t workgroup[3];
	uint16_t flags; /* the kind's */
	uint32_t tid;
	uint32_t group_segment_bytes;
	uint32_t private_segment_bytes;
};

/* Makes the tables, those of names.h included. 0 or -ENOMEM. */
int launches_init(void);
/* A session begins: launches are numbered from 1 again. */
void launches_reset(void);
/* The worker has ended: gives the memory back, unless a thread is between the two
 * functions below. */
void launches_release(void);

/* The worker only. The id of a call's configuration: kernel, geometry and segments; it is
 * in the ring then. 0: the ring has no room for its definition, or names_stop_waiting().
 * agent: set to the kernel's, if it is 0. */
uint32_t launch_id(const struct kernel_call *call, uint32_t *agent);

/* As names_destroy_begin(); launches of the executable's kernels are forgotten, too. */
bool launches_destroy_begin(hsa_executable_t executable);
void launches_destroy_end(bool held);

#endif
