/*
 * Memory objects. VRAM and GTT objects are ranges of the GPU's memfd; a
 * userptr object is the target's own memory, possibly at another GPU address.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <linux/kfd_ioctl.h>

#include "softgpu.h"

enum { PAGE = 4096, MAX_ALIASES = 4096 };

/* Addresses from here on are not canonical for user space: they cannot be host memory. */
static const uint64_t user_space_end = 0x800000000000ull;

struct object {
	uint64_t base, bytes;
	uint64_t vram_offset; /* in the GPU's memfd, 0: not there */
	uint32_t flags, handle;
	unsigned gpu;
	bool aliased;
};

static struct lock lock;
static struct object **objects; /* sorted by base */
static uint32_t object_count, object_capacity;
static uint32_t last_handle;
static uint64_t vram_used[MAX_GPUS];
static uint64_t generation = 1;

/*
 * Userptrs whose GPU address is not the host address. The engine scans without
 * a lock: base is published last and withdrawn first.
 */
static struct alias {
	uint64_t base, bytes, host;
} aliases[MAX_ALIASES];
static uint32_t alias_top;

/* Index of the first object beyond addr. Caller holds the lock. */
static uint32_t first_above(uint64_t addr)
{
	uint32_t low = 0, high = object_count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (objects[middle]->base <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool insert(struct object *o)
{
	uint32_t at;

	lock_take(&lock);
	if (object_count == object_capacity) {
		uint32_t capacity = object_capacity ? 2 * object_capacity : 256;
		struct object **grown = realloc(objects, capacity * sizeof *grown);

		if (!grown) {
			lock_drop(&lock);
			return false;
		}
		objects = grown;
		object_capacity = capacity;
	}
	at = first_above(o->base);
	memmove(objects + at + 1, objects + at, (object_count - at) * sizeof *objects);
	objects[at] = o;
	object_count++;
	o->handle = ++last_handle;
	lock_drop(&lock);
	return true;
}

/* Linear, as only free and map ask; they are rare beside dispatches. Caller holds the lock. */
static struct object *by_handle(uint64_t handle, uint32_t *at)
{
	for (uint32_t i = 0; i < object_count; i++)
		if (objects[i]->handle == (uint32_t)handle) {
			*at = i;
			return objects[i];
		}
	return NULL;
}

static bool alias_add(uint64_t base, uint64_t bytes, uint64_t host)
{
	bool added = false;

	lock_take(&lock);
	for (uint32_t i = 0; i < MAX_ALIASES && !added; i++) {
		struct alias *a = &aliases[i];

		if (a->base)
			continue;
		a->bytes = bytes;
		a->host = host;
		__atomic_store_n(&a->base, base, __ATOMIC_RELEASE);
		if (i >= alias_top)
			__atomic_store_n(&alias_top, i + 1, __ATOMIC_RELEASE);
		added = true;
	}
	lock_drop(&lock);
	return added;
}

static void alias_remove(uint64_t base)
{
	lock_take(&lock);
	for (uint32_t i = 0; i < alias_top; i++)
		if (aliases[i].base == base) {
			__atomic_store_n(&aliases[i].base, 0, __ATOMIC_RELEASE);
			break;
		}
	lock_drop(&lock);
}

void *memory_host(uint64_t addr)
{
	uint32_t top = __atomic_load_n(&alias_top, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < top; i++) {
		uint64_t base = __atomic_load_n(&aliases[i].base, __ATOMIC_ACQUIRE);

		if (base && addr >= base && addr - base < aliases[i].bytes)
			return (void *)(aliases[i].host + (addr - base));
	}
	return (void *)addr;
}

static bool charge_vram(unsigned gpu, uint64_t bytes)
{
	if (__atomic_add_fetch(&vram_used[gpu], bytes, __ATOMIC_RELAXED) <= config.vram_bytes)
		return true;
	__atomic_sub_fetch(&vram_used[gpu], bytes, __ATOMIC_RELAXED);
	return false;
}

uint64_t memory_available(unsigned gpu)
{
	return config.vram_bytes - __atomic_load_n(&vram_used[gpu], __ATOMIC_RELAXED);
}

/* Gives the object its backing and the caller the offset to mmap. */
static int back(struct object *o, struct kfd_ioctl_alloc_memory_of_gpu_args *args)
{
	if (o->flags & (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT)) {
		o->vram_offset = device_vram_reserve(o->gpu, o->bytes);
		args->mmap_offset = o->vram_offset;
	} else if (o->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) {
		if (args->mmap_offset && args->mmap_offset != o->base) {
			if (!alias_add(o->base, o->bytes, args->mmap_offset))
				return ENOMEM;
			o->aliased = true;
		}
	} else if (o->flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL) {
		args->mmap_offset = device_doorbell_offset(o->gpu);
	} else if (o->flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP) {
		args->mmap_offset = device_mmio_offset(o->gpu);
	}
	return 0;
}

static void unback(struct object *o)
{
	if (o->vram_offset)
		fallocate(device_vram(o->gpu), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)o->vram_offset,
			  (off_t)o->bytes);
	if (o->aliased)
		alias_remove(o->base);
	if (o->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM)
		__atomic_sub_fetch(&vram_used[o->gpu], o->bytes, __ATOMIC_RELAXED);
}

int memory_alloc(struct kfd_ioctl_alloc_memory_of_gpu_args *args)
{
	int gpu = gpu_index(args->gpu_id);
	struct object *o;
	int err;

	if (gpu < 0)
		return EINVAL;
	o = calloc(1, sizeof *o);
	if (!o)
		return ENOMEM;
	o->base = args->va_addr;
	o->bytes = (args->size + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	o->gpu = (unsigned)gpu;
	o->flags = args->flags;
	if (o->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM && !charge_vram(o->gpu, o->bytes)) {
		free(o);
		return ENOMEM;
	}
	err = back(o, args);
	if (!err && !insert(o))
		err = ENOMEM;
	if (err) {
		unback(o);
		free(o);
		return err;
	}
	args->handle = (uint64_t)args->gpu_id << 32 | o->handle;
	DEBUG("alloc: gpu %u at %#llx, %#llx bytes, flags %#x, offset %#llx\n", o->gpu, args->va_addr, args->size,
	      args->flags, args->mmap_offset);
	return 0;
}

int memory_free(uint64_t handle)
{
	struct object *o;
	uint32_t at;

	lock_take(&lock);
	o = by_handle(handle, &at);
	if (o) {
		memmove(objects + at, objects + at + 1, (object_count - at - 1) * sizeof *objects);
		object_count--;
		__atomic_add_fetch(&generation, 1, __ATOMIC_RELEASE);
	}
	lock_drop(&lock);
	if (!o)
		return EINVAL;
	unback(o);
	free(o);
	return 0;
}

/*
 * The GPU is a peer in this address space: what the thunk mapped PROT_NONE,
 * because the host may not touch it, must be opened for the engine.
 */
int memory_map(struct kfd_ioctl_map_memory_to_gpu_args *args)
{
	struct object found = { 0 };
	struct object *o;
	uint32_t at;

	lock_take(&lock);
	o = by_handle(args->handle, &at);
	if (o)
		found = *o;
	lock_drop(&lock);
	if (!o)
		return EINVAL;
	if (found.vram_offset && found.base < user_space_end &&
	    mprotect((void *)found.base, found.bytes, PROT_READ | PROT_WRITE))
		DEBUG("map %#lx: mprotect failed\n", (unsigned long)found.base);
	args->n_success = args->n_devices;
	return 0;
}

uint64_t memory_generation(void)
{
	return __atomic_load_n(&generation, __ATOMIC_ACQUIRE);
}

enum memory_answer memory_find(uint64_t addr, struct memory_range *range)
{
	enum memory_answer answer = MEMORY_UNKNOWN;
	uint32_t at;

	if (!lock_try(&lock))
		return MEMORY_BUSY;
	at = first_above(addr);
	if (at > 0 && addr - objects[at - 1]->base < objects[at - 1]->bytes) {
		*range = (struct memory_range){ objects[at - 1]->base, objects[at - 1]->bytes, generation };
		answer = MEMORY_FOUND;
	}
	lock_drop(&lock);
	return answer;
}

void memory_forget_after_fork(void)
{
	/* What the parent's objects occupied is left: malloc's state is consistent, ours was not. */
	lock = (struct lock){ 0 };
	objects = NULL;
	object_count = object_capacity = 0;
	memset(vram_used, 0, sizeof vram_used);
	memset(aliases, 0, sizeof aliases);
	alias_top = 0;
}
