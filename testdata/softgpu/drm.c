/* The few libdrm and libdrm_amdgpu entry points that the thunk calls, by symbol. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <libdrm/amdgpu.h>

#include "softgpu.h"

struct amdgpu_device {
	unsigned gpu;
	int fd; /* its own, not the caller's */
};

EXPORT int amdgpu_device_initialize(int fd, uint32_t *major, uint32_t *minor, amdgpu_device_handle *handle)
{
	struct device dev = device_of_fd(fd);
	struct amdgpu_device *d;

	if (dev.kind != DEVICE_RENDER)
		return -EINVAL;
	d = calloc(1, sizeof *d);
	if (!d)
		return -ENOMEM;
	d->gpu = dev.gpu;
	d->fd = device_open(dev, O_CLOEXEC);
	if (d->fd < 0) {
		int err = d->fd;

		free(d);
		return err;
	}
	*major = 3;
	*minor = 61;
	*handle = d;
	return 0;
}

EXPORT int amdgpu_device_deinitialize(amdgpu_device_handle d)
{
	close(d->fd);
	free(d);
	return 0;
}

EXPORT int amdgpu_device_get_fd(amdgpu_device_handle d)
{
	return d->fd;
}

EXPORT const char *amdgpu_get_marketing_name(amdgpu_device_handle d)
{
	(void)d;
	return "SoftGPU (simulated)";
}

EXPORT int amdgpu_query_gpu_info(amdgpu_device_handle d, struct amdgpu_gpu_info *info)
{
	(void)d;
	*info = (struct amdgpu_gpu_info){
		.asic_id = topology_asic(),
		.family_id = 141,
		.max_engine_clk = 1700000,
		.max_memory_clk = 1600000,
		.num_shader_engines = 8,
		.num_shader_arrays_per_engine = 1,
		.gpu_counter_freq = 100000,
	};
	return 0;
}

EXPORT int drmOpenRender(int minor);
EXPORT int drmClose(int fd);

EXPORT int drmOpenRender(int minor)
{
	char path[64];

	snprintf(path, sizeof path, "/dev/dri/renderD%d", minor);
	return open(path, O_RDWR | O_CLOEXEC);
}

EXPORT int drmClose(int fd)
{
	return close(fd);
}
