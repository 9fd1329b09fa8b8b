/* packets.h: packets of AMD's that older headers of the runtime do not have. */
#ifndef RTL_PACKETS_H
#define RTL_PACKETS_H

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <stddef.h>
#include <stdint.h>

/*
 * HSA_AMD_PACKET_TYPE_EXT_KERNEL_DISPATCH: a kernel on GPUs that run workgroups in clusters,
 * gfx1250 first. The kernel, its segments and its completion signal are where an ordinary
 * dispatch has them. dep_signal, for which the GPU waits, is the application's alone.
 */
enum { FORMAT_EXTENDED_DISPATCH = 3 };

struct __attribute__((may_alias)) extended_dispatch {
	uint16_t header; /* HSA_PACKET_TYPE_VENDOR_SPECIFIC */
	uint8_t format;  /* in one 32-bit store with the header */
	uint8_t setup;
	uint16_t workgroup[3];
	uint16_t reserved;
	uint32_t clusters_x;
	uint16_t clusters_y, clusters_z;
	uint8_t cluster_size[3]; /* workgroups */
	uint8_t hint;
	uint32_t private_segment_size;
	uint32_t group_segment_size;
	uint64_t kernel_object;
	void *kernarg_address;
	hsa_signal_t dep_signal;
	hsa_signal_t completion_signal;
};
#define SAME_PLACE(ours, theirs) \
	_Static_assert(offsetof(struct extended_dispatch, ours) == offsetof(hsa_kernel_dispatch_packet_t, theirs), #ours)
SAME_PLACE(workgroup, workgroup_size_x);
SAME_PLACE(private_segment_size, private_segment_size);
SAME_PLACE(group_segment_size, group_segment_size);
SAME_PLACE(kernel_object, kernel_object);
SAME_PLACE(completion_signal, completion_signal);
#undef SAME_PLACE
_Static_assert(sizeof(struct extended_dispatch) == sizeof(hsa_kernel_dispatch_packet_t), "a packet");

/* Of a packet of type HSA_PACKET_TYPE_VENDOR_SPECIFIC. */
static inline uint8_t vendor_format(const hsa_kernel_dispatch_packet_t *p)
{
	return ((const struct extended_dispatch *)p)->format;
}

/* Work-items: 0 counts as 1, and what has no room as the most. */
static inline uint32_t work_items(uint32_t clusters, uint32_t cluster_size, uint32_t workgroup)
{
	uint64_t n = (uint64_t)(clusters ? clusters : 1) * (cluster_size ? cluster_size : 1);

	n *= workgroup ? workgroup : 1; /* 32 + 8 + 16 bits */
	return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static inline void extended_grid(const struct extended_dispatch *p, uint32_t grid[3])
{
	grid[0] = work_items(p->clusters_x, p->cluster_size[0], p->workgroup[0]);
	grid[1] = work_items(p->clusters_y, p->cluster_size[1], p->workgroup[1]);
	grid[2] = work_items(p->clusters_z, p->cluster_size[2], p->workgroup[2]);
}

#endif
