/*
 * /dev/kfd and the render nodes. Each is a memfd: the runtime's mmap() of
 * VRAM, doorbells and registers is then the kernel's own and needs no help.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "softgpu.h"

enum { FIRST_RENDER_MINOR = 128, HIGH_FD = 700 };

static const uint64_t kfd_bytes = 1ull << 40;       /* sparse: see device_doorbell_offset */
static const uint64_t vram_file_bytes = 1ull << 50; /* sparse; offsets are never reused */
static const uint64_t huge_page = 2u << 20;

struct backing {
	int fd; /* 0: not created yet */
	ino_t inode;
	dev_t device;
	uint64_t top; /* first free offset */
};

static struct lock lock;
static struct backing kfd, vram[MAX_GPUS];

/* Our descriptors stay out of the low numbers that applications count. */
static int move_high(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);

	if (high < 0)
		return fd; /* a small RLIMIT_NOFILE */
	close(fd);
	return high;
}

static int backing_fd(struct backing *b, const char *name, uint64_t bytes)
{
	struct stat st;

	lock_take(&lock);
	if (!b->fd) {
		int fd = memfd_create(name, MFD_CLOEXEC);

		if (fd < 0 || ftruncate(fd, (off_t)bytes) || fstat(fd, &st)) {
			perror("softgpu: device memory");
			abort();
		}
		b->inode = st.st_ino;
		b->device = st.st_dev;
		b->top = huge_page;
		b->fd = move_high(fd);
	}
	lock_drop(&lock);
	return b->fd;
}

int device_kfd_memory(void)
{
	return backing_fd(&kfd, "softgpu:kfd", kfd_bytes);
}

int device_vram(unsigned gpu)
{
	return backing_fd(&vram[gpu], "softgpu:render", vram_file_bytes);
}

uint64_t device_vram_reserve(unsigned gpu, uint64_t bytes)
{
	uint64_t align = bytes >= huge_page ? huge_page : 4096;
	uint64_t offset;

	device_vram(gpu);
	lock_take(&lock);
	offset = (vram[gpu].top + align - 1) & ~(align - 1);
	vram[gpu].top = offset + bytes;
	lock_drop(&lock);
	return offset;
}

bool device_parse(const char *path, struct device *dev)
{
	static const char render[] = "/dev/dri/renderD";
	unsigned long minor;
	char *end;

	if (!path)
		return false; /* the real call says EFAULT */
	if (!strcmp(path, "/dev/kfd")) {
		*dev = (struct device){ .kind = DEVICE_KFD };
		return true;
	}
	if (strncmp(path, render, sizeof render - 1))
		return false;
	minor = strtoul(path + sizeof render - 1, &end, 10);
	if (*end || minor < FIRST_RENDER_MINOR || minor >= FIRST_RENDER_MINOR + config.gpus)
		return false;
	*dev = (struct device){ .kind = DEVICE_RENDER, .gpu = (unsigned)minor - FIRST_RENDER_MINOR };
	return true;
}

int device_open(struct device dev, int flags)
{
	int from = dev.kind == DEVICE_KFD ? device_kfd_memory() : device_vram(dev.gpu);
	int fd = fcntl(from, flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, 0);

	return fd < 0 ? -errno : fd;
}

static bool same_file(const struct backing *b, const struct stat *st)
{
	return b->fd && b->inode == st->st_ino && b->device == st->st_dev;
}

struct device device_of_fd(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return (struct device){ .kind = DEVICE_NONE };
	if (same_file(&kfd, &st))
		return (struct device){ .kind = DEVICE_KFD };
	for (unsigned g = 0; g < config.gpus; g++)
		if (same_file(&vram[g], &st))
			return (struct device){ .kind = DEVICE_RENDER, .gpu = g };
	return (struct device){ .kind = DEVICE_NONE };
}

static void forget(struct backing *b)
{
	if (b->fd)
		close(b->fd);
	*b = (struct backing){ 0 };
}

/* The child's inherited descriptors become plain memfds; it may open devices of its own. */
void device_forget_after_fork(void)
{
	lock = (struct lock){ 0 };
	forget(&kfd);
	for (unsigned g = 0; g < MAX_GPUS; g++)
		forget(&vram[g]);
}
