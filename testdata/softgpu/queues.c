/*
 * Queues come and go through ioctls of the target; the engine reads the table
 * without a lock. A slot belongs to the target while SETUP, to the engine from
 * LIVE until it answers CLOSING with FREE.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/kfd_ioctl.h>

#include "engine.h"

struct gpu *gpus[MAX_GPUS];
static struct lock lock; /* among threads of the target */
static uint8_t *doorbells[MAX_GPUS];

static void *anonymous(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Caller holds the lock. */
static struct gpu *gpu_get(unsigned index)
{
	struct gpu *g = gpus[index];
	void *page;

	if (g)
		return g;
	g = anonymous(sizeof *g);
	page = mmap(NULL, DOORBELL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, device_kfd_memory(),
		    (off_t)device_doorbell_offset(index));
	if (!g || page == MAP_FAILED)
		return NULL;
	madvise(page, DOORBELL_BYTES, MADV_DONTFORK);
	doorbells[index] = page;
	g->random = index * 7919 + 1;
	__atomic_store_n(&gpus[index], g, __ATOMIC_RELEASE);
	return g;
}

static struct queue *claim_slot(struct gpu *g, uint32_t *slot)
{
	for (uint32_t i = 0; i < MAX_QUEUES; i++) {
		if (__atomic_load_n(&g->queues[i].state, __ATOMIC_ACQUIRE) != QUEUE_FREE)
			continue;
		*slot = i;
		memset(&g->queues[i], 0, offsetof(struct queue, running));
		g->queues[i].transfer = (struct transfer){ 0 };
		g->queues[i].state = QUEUE_SETUP;
		return &g->queues[i];
	}
	return NULL;
}

/* SOFTGPU_MODE=no-locks: the engine gets a mapping of its own, because it may write. */
static bool guard(struct queue *q, int fd, size_t size)
{
	uint8_t *target_has = q->ring;
	void *own = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (own == MAP_FAILED)
		return false;
	madvise(own, size, MADV_DONTFORK);
	q->ring = own;
	return guard_ring(q, target_has, size);
}

/*
 * SOFTGPU_MODE=device-ring. Memory that process_vm_readv, /proc/PID/mem and system calls which pin
 * pages refuse, as they refuse a device's.
 */
static bool ring_like_a_devices(struct queue *q)
{
	size_t size = (q->ring_bytes + 4095) & ~(size_t)4095;
	uint8_t *ring = q->ring;
	int fd = (int)syscall(SYS_memfd_secret, O_CLOEXEC);
	void *was = anonymous(size);
	bool moved = fd >= 0 && was && !ftruncate(fd, (off_t)size);

	if (moved) {
		memcpy(was, ring, size);
		moved = mmap(ring, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == ring;
	}
	if (moved) {
		memcpy(ring, was, size);
		madvise(ring, size, MADV_DONTFORK);
		moved = !config.no_locks || guard(q, fd, size);
	} else {
		fprintf(stderr, "softgpu: SOFTGPU_MODE=device-ring: no memfd_secret\n");
	}
	munmap(was, size);
	close(fd);
	return moved;
}

static bool setup_aql(struct queue *q)
{
	if (config.device_ring && !ring_like_a_devices(q))
		return false;
	/* The driver is told where ROCr keeps the read index: inside the amd_queue_t. */
	q->amd = (amd_queue_t *)((char *)q->read_ptr - offsetof(amd_queue_t, read_dispatch_id));
	q->last_id = anonymous(q->ring_bytes / sizeof(union packet) * sizeof *q->last_id);
	fetch_reset(q);
	return q->last_id;
}

static void setup_sdma(struct queue *q)
{
	*q->read_ptr = 0;
	*q->write_ptr = 0;
	*q->doorbell = 0;
}

int queue_create(struct kfd_ioctl_create_queue_args *args)
{
	int index = gpu_index(args->gpu_id);
	uint32_t slot = 0;
	struct queue *q;
	struct gpu *g;

	if (index < 0)
		return EINVAL;
	lock_take(&lock);
	g = gpu_get((unsigned)index);
	q = g ? claim_slot(g, &slot) : NULL;
	lock_drop(&lock);
	if (!q)
		return ENOMEM;

	q->gpu = (unsigned)index;
	q->id = (uint32_t)index * MAX_QUEUES + slot + 1;
	q->aql = args->queue_type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
	q->ring = (uint8_t *)args->ring_base_address;
	q->ring_bytes = args->ring_size;
	q->read_ptr = (uint64_t *)args->read_pointer_address;
	q->write_ptr = (uint64_t *)args->write_pointer_address;
	q->doorbell = (uint64_t *)(doorbells[index] + slot * DOORBELL_STRIDE);
	q->active = args->queue_percentage != 0;
	if (!q->aql)
		setup_sdma(q);
	else if (!setup_aql(q)) {
		__atomic_store_n(&q->state, QUEUE_FREE, __ATOMIC_RELEASE);
		return ENOMEM;
	}
	args->queue_id = q->id;
	args->doorbell_offset = device_doorbell_offset(q->gpu) + slot * DOORBELL_STRIDE;

	lock_take(&lock);
	if (slot >= g->queue_top)
		__atomic_store_n(&g->queue_top, slot + 1, __ATOMIC_RELEASE);
	lock_drop(&lock);
	__atomic_store_n(&q->state, QUEUE_LIVE, __ATOMIC_RELEASE);
	DEBUG("queue %u: gpu %d type %u ring %#llx size %#x doorbell %#llx\n", q->id, index, args->queue_type,
	      args->ring_base_address, args->ring_size, args->doorbell_offset);
	return engine_start();
}

static struct queue *find(uint32_t id)
{
	uint32_t index = (id - 1) / MAX_QUEUES;
	struct queue *q;

	if (!id || index >= config.gpus || !gpus[index])
		return NULL;
	q = &gpus[index]->queues[(id - 1) % MAX_QUEUES];
	return __atomic_load_n(&q->state, __ATOMIC_ACQUIRE) == QUEUE_LIVE ? q : NULL;
}

int queue_update(struct kfd_ioctl_update_queue_args *args)
{
	struct queue *q = find(args->queue_id);

	if (!q)
		return EINVAL;
	__atomic_store_n(&q->active, false, __ATOMIC_RELEASE);
	engine_quiesce();
	if (args->ring_base_address && (uint8_t *)args->ring_base_address != q->guarded) {
		q->ring = (uint8_t *)args->ring_base_address;
		q->ring_bytes = args->ring_size;
	}
	__atomic_store_n(&q->active, args->queue_percentage != 0 && q->ring, __ATOMIC_RELEASE);
	return 0;
}

int queue_destroy(uint32_t id)
{
	struct queue *q = find(id);

	if (!q)
		return EINVAL;
	if (config.stats)
		fprintf(stderr, "softgpu: queue %u: %lu packets\n", q->id, (unsigned long)q->packets);
	guard_end(q);
	__atomic_store_n(&q->state, QUEUE_CLOSING, __ATOMIC_RELEASE);
	engine_quiesce();
	return 0;
}

void queue_close(struct queue *q)
{
	if (q->aql) {
		uint64_t bytes = q->ring_bytes / sizeof(union packet) * sizeof *q->last_id;

		aql_abandon(q);
		raw3(SYS_munmap, (long)q->last_id, (long)bytes, 0);
		if (config.no_locks)
			raw3(SYS_munmap, (long)q->ring, (long)q->ring_bytes, 0);
	}
	__atomic_store_n(&q->state, QUEUE_FREE, __ATOMIC_RELEASE);
}

void queue_forget_after_fork(void)
{
	lock = (struct lock){ 0 };
	memset(gpus, 0, sizeof gpus);
	memset(doorbells, 0, sizeof doorbells);
}
