/*
 * The kernel driver's ioctls. SVM, debug trap, IPC and CRIU answer EINVAL; the
 * topology's capability bits for them are off.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <linux/kfd_ioctl.h>

#include "softgpu.h"

static int get_clock_counters(struct kfd_ioctl_get_clock_counters_args *args)
{
	int gpu = gpu_index(args->gpu_id);
	uint64_t now = now_ns();

	args->gpu_clock_counter = gpu < 0 ? 0 : gpu_ticks((unsigned)gpu, now);
	args->cpu_clock_counter = now;
	args->system_clock_counter = now;
	args->system_clock_freq = 1000000000u;
	return 0;
}

static uint32_t fill_apertures(struct kfd_process_device_apertures *a, uint32_t capacity)
{
	uint32_t n = config.gpus < capacity ? config.gpus : capacity;

	for (uint32_t i = 0; i < n; i++)
		a[i] = (struct kfd_process_device_apertures){
			.lds_base = 0x1000000000000ull,
			.lds_limit = 0x10000ffffffffull,
			.scratch_base = 0x2000000000000ull,
			.scratch_limit = 0x20000ffffffffull,
			.gpuvm_base = 0x200000,
			.gpuvm_limit = 0x7fffffffffffull,
			.gpu_id = GPU_ID_BASE + i,
		};
	return n;
}

static int get_apertures(struct kfd_ioctl_get_process_apertures_args *args)
{
	args->num_of_nodes = fill_apertures(args->process_apertures, NUM_OF_SUPPORTED_GPUS);
	return 0;
}

/* Called first with 0 nodes, to ask how many there are. */
static int get_apertures_new(struct kfd_ioctl_get_process_apertures_new_args *args)
{
	void *to = (void *)args->kfd_process_device_apertures_ptr;

	args->num_of_nodes = args->num_of_nodes ? fill_apertures(to, args->num_of_nodes) : config.gpus;
	return 0;
}

static int get_tile_config(struct kfd_ioctl_get_tile_config_args *args)
{
	if (args->tile_config_ptr)
		memset((void *)args->tile_config_ptr, 0, 4 * args->num_tile_configs);
	if (args->macro_tile_config_ptr)
		memset((void *)args->macro_tile_config_ptr, 0, 4 * args->num_macro_tile_configs);
	args->gb_addr_config = 0x2a114042;
	args->num_banks = 4;
	args->num_ranks = 1;
	return 0;
}

static int smi_events(struct kfd_ioctl_smi_events_args *args)
{
	int fd = memfd_create("softgpu:smi", MFD_CLOEXEC);

	if (fd < 0)
		return errno;
	args->anon_fd = (uint32_t)fd;
	return 0;
}

static int set_xnack_mode(struct kfd_ioctl_set_xnack_mode_args *args)
{
	if (args->xnack_enabled > 0)
		return EPERM;
	args->xnack_enabled = 0;
	return 0;
}

static int available_memory(struct kfd_ioctl_get_available_memory_args *args)
{
	int gpu = gpu_index(args->gpu_id);

	if (gpu < 0)
		return EINVAL;
	args->available = memory_available((unsigned)gpu);
	return 0;
}

static int get_version(struct kfd_ioctl_get_version_args *args)
{
	args->major_version = 1;
	args->minor_version = config.kfd_minor;
	return 0;
}

static int unmap_memory(struct kfd_ioctl_unmap_memory_from_gpu_args *args)
{
	args->n_success = args->n_devices;
	return 0;
}

/* Newer than linux-libc-dev 6.1. */
#ifndef AMDKFD_IOC_RUNTIME_ENABLE
struct kfd_ioctl_runtime_enable_args {
	uint64_t r_debug;
	uint32_t mode_mask, capabilities_mask;
};
enum { KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK = 1 };
#define AMDKFD_IOC_RUNTIME_ENABLE AMDKFD_IOWR(0x25, struct kfd_ioctl_runtime_enable_args)
#endif

static bool runtime_enabled;

/* A runtime makes itself known to debuggers: one of each process at a time. */
static int runtime_enable(struct kfd_ioctl_runtime_enable_args *args)
{
	bool enable = args->mode_mask & KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK;

	if (config.kfd_minor < KFD_DEBUGGER_MINOR)
		return EINVAL;
	if (__atomic_exchange_n(&runtime_enabled, enable, __ATOMIC_SEQ_CST) && enable)
		return EBUSY;
	args->capabilities_mask = 0;
	return 0;
}

void kfd_forget_after_fork(void)
{
	runtime_enabled = false;
}

/* By number: the sizes encoded in the requests grow from one kernel to the next. */
#define NUMBER(request) _IOC_NR(AMDKFD_IOC_##request)

int kfd_ioctl(unsigned long request, void *args)
{
	switch (_IOC_NR(request)) {
	case NUMBER(GET_VERSION): return get_version(args);
	case NUMBER(GET_CLOCK_COUNTERS): return get_clock_counters(args);
	case NUMBER(GET_PROCESS_APERTURES): return get_apertures(args);
	case NUMBER(GET_PROCESS_APERTURES_NEW): return get_apertures_new(args);
	case NUMBER(GET_TILE_CONFIG): return get_tile_config(args);
	case NUMBER(ACQUIRE_VM):
		return gpu_index(((struct kfd_ioctl_acquire_vm_args *)args)->gpu_id) < 0 ? EINVAL : 0;

	case NUMBER(CREATE_QUEUE): return queue_create(args);
	case NUMBER(UPDATE_QUEUE): return queue_update(args);
	case NUMBER(DESTROY_QUEUE): return queue_destroy(((struct kfd_ioctl_destroy_queue_args *)args)->queue_id);

	case NUMBER(CREATE_EVENT): return event_create(args);
	case NUMBER(WAIT_EVENTS): return event_wait(args);
	case NUMBER(DESTROY_EVENT): return event_destroy(((struct kfd_ioctl_destroy_event_args *)args)->event_id);
	case NUMBER(RESET_EVENT): return event_reset(((struct kfd_ioctl_reset_event_args *)args)->event_id);
	case NUMBER(SET_EVENT):
		event_set(((struct kfd_ioctl_set_event_args *)args)->event_id);
		return 0;

	case NUMBER(ALLOC_MEMORY_OF_GPU): return memory_alloc(args);
	case NUMBER(FREE_MEMORY_OF_GPU):
		return memory_free(((struct kfd_ioctl_free_memory_of_gpu_args *)args)->handle);
	case NUMBER(MAP_MEMORY_TO_GPU): return memory_map(args);
	case NUMBER(UNMAP_MEMORY_FROM_GPU): return unmap_memory(args);
	case NUMBER(AVAILABLE_MEMORY): return available_memory(args);

	case NUMBER(RUNTIME_ENABLE): return runtime_enable(args);
	case NUMBER(SMI_EVENTS): return smi_events(args);
	case NUMBER(SET_XNACK_MODE): return set_xnack_mode(args);
	case NUMBER(ALLOC_QUEUE_GWS):
		((struct kfd_ioctl_alloc_queue_gws_args *)args)->first_gws = 0;
		return 0;
	case NUMBER(SET_MEMORY_POLICY):
	case NUMBER(SET_SCRATCH_BACKING_VA):
	case NUMBER(SET_TRAP_HANDLER):
	case NUMBER(SET_CU_MASK):
		return 0; /* nothing here depends on them */
	default:
		DEBUG("ioctl number %#x not simulated\n", (unsigned)_IOC_NR(request));
		return EINVAL;
	}
}
