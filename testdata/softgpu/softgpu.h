/*
 * A simulated AMD GPU below unmodified ROCm runtimes: shared declarations.
 *
 * Two sides share one address space. Threads of the target enter through the
 * interposed libc and libdrm calls (interpose.c, drm.c) and end in kfd.c. The
 * engine (engine.c) plays the hardware: it reads queues and writes signals.
 */
#ifndef SOFTGPU_H
#define SOFTGPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "raw.h"

enum {
	MAX_GPUS = 8,
	MAX_QUEUES = 128,          /* per GPU: one doorbell per cache line of 8 KiB */
	MAX_EVENTS = 4096,         /* as the kernel driver allows a process */
	DOORBELL_STRIDE = 64,
	DOORBELL_BYTES = MAX_QUEUES * DOORBELL_STRIDE,
	GPU_ID_BASE = 0x5f01,      /* KFD's gpu_id of the first GPU */
	TICK_NS = 10,              /* the GPU counts at 100 MHz */
};

/* The driver's minor versions from which on it has ... */
enum { KFD_DEBUGGER_MINOR = 13, KFD_EVENT_AGES_MINOR = 14 };

#define EXPORT __attribute__((visibility("default")))

/* ---- config.c: the SOFTGPU_* environment, read once ---- */

struct config {
	unsigned gpus;
	unsigned gfx_major, gfx_minor, gfx_stepping;
	int64_t kernel_ns;         /* every kernel's duration; -1: base_ns + work-items/256 */
	uint64_t base_ns;
	uint64_t copy_ns;          /* an SDMA copy's duration, to which its bytes add */
	unsigned jitter_percent;
	bool exclusive;            /* one kernel at a time per GPU */
	bool engine_thread;        /* the engine is a thread of the target, not a process */
	uint64_t spin_ns, idle_ns; /* busy polling after activity; longest nap */
	const char *log_path;      /* NULL: no truth log */
	bool stats, debug;
	unsigned kfd_minor;
	unsigned heap_type;        /* 1: VRAM is host visible (large BAR), 2: private */
	unsigned event_limit;
	uint32_t wake_ms;          /* a longer event wait ends after this, as if woken */
	uint64_t vram_bytes;
	bool hive;                 /* GPUs linked by xGMI */
	bool domains;              /* each GPU at the same bus address of a PCI domain of its own */

	/* adversarial modes */
	bool eager, late, prefetch, ts_late, stale_index, device_ring, no_locks;
	uint64_t late_ns, stale_ns;
	unsigned prefetch_depth;
};

extern struct config config;

#define DEBUG(...)                                              \
	do {                                                    \
		if (config.debug)                               \
			fprintf(stderr, "softgpu: " __VA_ARGS__); \
	} while (0)

/* ---- interpose.c ---- */

void *next_symbol(const char *name);                /* of the libraries behind this one */

/* ---- device.c: device nodes are memfds, so that mmap() of them is the kernel's ---- */

enum device_kind { DEVICE_NONE, DEVICE_KFD, DEVICE_RENDER };

struct device {
	enum device_kind kind;
	unsigned gpu;              /* DEVICE_RENDER */
};

bool device_parse(const char *path, struct device *dev);
int device_open(struct device dev, int flags);      /* fd, or -errno */
struct device device_of_fd(int fd);                 /* by inode: dup() and close() need no bookkeeping */
int device_kfd_memory(void);                        /* the backing memfds */
int device_vram(unsigned gpu);
uint64_t device_vram_reserve(unsigned gpu, uint64_t bytes); /* offset in the VRAM memfd */
void device_forget_after_fork(void);
/*
 * Offsets in the kfd memfd. As in the real driver, the GPU must be told apart
 * by the upper half: libhsakmt 5.2 splits the first queue's doorbell offset
 * before it has learnt the size of a doorbell page, at bit 32.
 */
static inline uint64_t device_doorbell_offset(unsigned gpu) { return (gpu + 1ull) << 32; }
static inline uint64_t device_mmio_offset(unsigned gpu) { return (1u << 20) + gpu * 4096ull; }

/* ---- topology.c: the files below the kfd topology, generated when opened ---- */

#define TOPOLOGY_ROOT "/sys/devices/virtual/kfd"
bool topology_covers(const char *path);
int topology_read(const char *path, char *text, size_t size);   /* length, or -1: no such file */
int topology_entries(const char *path);                         /* numbered subdirectories, or -1: no such directory */
unsigned topology_asic(void);

/* ---- memory.c: what the target allocated for its GPUs ---- */

struct kfd_ioctl_alloc_memory_of_gpu_args;
struct kfd_ioctl_map_memory_to_gpu_args;
struct memory_range { uint64_t base, bytes, generation; };
enum memory_answer { MEMORY_FOUND, MEMORY_UNKNOWN, MEMORY_BUSY };

int memory_alloc(struct kfd_ioctl_alloc_memory_of_gpu_args *args);
int memory_free(uint64_t handle);
int memory_map(struct kfd_ioctl_map_memory_to_gpu_args *args);
uint64_t memory_available(unsigned gpu);
void memory_forget_after_fork(void);
/* engine side: never waits */
enum memory_answer memory_find(uint64_t addr, struct memory_range *range);
uint64_t memory_generation(void);                   /* changes when anything is freed */
void *memory_host(uint64_t gpu_addr);               /* a userptr's GPU address differs from its host address */

/* ---- events.c: KFD events; event_set is safe from the engine ---- */

struct kfd_ioctl_create_event_args;
struct kfd_ioctl_wait_events_args;
int event_create(struct kfd_ioctl_create_event_args *args);
int event_destroy(uint32_t id);
void event_set(uint32_t id);
int event_reset(uint32_t id);
int event_wait(struct kfd_ioctl_wait_events_args *args);
void event_forget_after_fork(void);

/* ---- queues.c ---- */

struct kfd_ioctl_create_queue_args;
struct kfd_ioctl_update_queue_args;
int queue_create(struct kfd_ioctl_create_queue_args *args);
int queue_update(struct kfd_ioctl_update_queue_args *args);
int queue_destroy(uint32_t id);
void queue_forget_after_fork(void);

/* ---- guard.c ---- */

void guard_forget_after_fork(void);

/* ---- engine.c ---- */

int engine_start(void);
void engine_kick(void);                             /* end the engine's nap */
void engine_quiesce(void);                          /* returns after a whole round that began after the call */
void engine_stop(void);
void engine_forget_after_fork(void);

/* ---- kfd.c ---- */

int kfd_ioctl(unsigned long request, void *args);   /* 0 or errno */
void kfd_forget_after_fork(void);

static inline int gpu_index(uint32_t gpu_id)
{
	unsigned i = gpu_id - GPU_ID_BASE;

	return i < config.gpus ? (int)i : -1;
}

/* The counter of each GPU starts elsewhere, so that a translation is really needed. */
static inline uint64_t gpu_ticks(unsigned gpu, uint64_t ns)
{
	return ns / TICK_NS + (gpu + 1) * 12345678901ull;
}

#endif
