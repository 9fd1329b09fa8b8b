/*
 * The libc calls that lead to the driver. Everything else that the runtime
 * does with its descriptors (mmap, dup, close) is the kernel's own business.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "softgpu.h"

#define NEXT(name) ((__typeof__(&name))next_symbol(#name))

void *next_symbol(const char *name)
{
	void *f = dlsym(RTLD_NEXT, name);

	if (!f) {
		fprintf(stderr, "softgpu: libc has no %s\n", name);
		abort();
	}
	return f;
}

static long with_errno(long ret)
{
	if (ret >= 0)
		return ret;
	errno = (int)-ret;
	return -1;
}

/* ---- files ---- */

/* A memfd with the file's text, as sysfs would give it; -ENOENT if there is no such file. */
static int topology_open(const char *path)
{
	char text[4096];
	int len = topology_read(path, text, sizeof text);
	int fd;

	if (len < 0)
		return -ENOENT;
	fd = memfd_create("softgpu:sysfs", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, text, (size_t)len) != len || lseek(fd, 0, SEEK_SET)) {
		close(fd);
		return -EIO;
	}
	return fd;
}

static int open_at(int dir, const char *path, int flags, mode_t mode)
{
	struct device dev;

	if (device_parse(path, &dev))
		return (int)with_errno(device_open(dev, flags));
	if (topology_covers(path))
		return (int)with_errno(topology_open(path));
	return (int)with_errno(raw6(SYS_openat, dir, (long)path, flags, mode, 0, 0));
}

#define MODE_ARGUMENT(flags)                                   \
	mode_t mode = 0;                                       \
	if ((flags) & (O_CREAT | __O_TMPFILE)) {               \
		va_list ap;                                    \
		va_start(ap, flags);                           \
		mode = va_arg(ap, mode_t);                     \
		va_end(ap);                                    \
	}

EXPORT int open(const char *path, int flags, ...)
{
	MODE_ARGUMENT(flags)
	return open_at(AT_FDCWD, path, flags, mode);
}

EXPORT int open64(const char *path, int flags, ...)
{
	MODE_ARGUMENT(flags)
	return open_at(AT_FDCWD, path, flags, mode);
}

EXPORT int openat(int dir, const char *path, int flags, ...)
{
	MODE_ARGUMENT(flags)
	return open_at(dir, path, flags, mode);
}

EXPORT int openat64(int dir, const char *path, int flags, ...)
{
	MODE_ARGUMENT(flags)
	return open_at(dir, path, flags, mode);
}

/* Fortified callers reach these; no header declares them to us. */
EXPORT int __open_2(const char *path, int flags);
EXPORT int __open64_2(const char *path, int flags);

EXPORT int __open_2(const char *path, int flags)
{
	return open_at(AT_FDCWD, path, flags, 0);
}

EXPORT int __open64_2(const char *path, int flags)
{
	return open_at(AT_FDCWD, path, flags, 0);
}

static FILE *topology_fopen(const char *path, const char *mode)
{
	int fd = (int)with_errno(topology_open(path));
	FILE *f = fd < 0 ? NULL : fdopen(fd, mode);

	if (fd >= 0 && !f)
		close(fd);
	return f;
}

EXPORT FILE *fopen(const char *path, const char *mode)
{
	return topology_covers(path) ? topology_fopen(path, mode) : NEXT(fopen)(path, mode);
}

EXPORT FILE *fopen64(const char *path, const char *mode)
{
	return topology_covers(path) ? topology_fopen(path, mode) : NEXT(fopen64)(path, mode);
}

/* ---- stat and access ---- */

/* True when the path is ours; *st then describes it, or errno is set and *found false. */
static bool ours(const char *path, struct stat *st, bool *found)
{
	struct device dev;
	char text[4096];

	*st = (struct stat){ .st_nlink = 1, .st_blksize = 4096 };
	*found = true;
	if (device_parse(path, &dev)) {
		st->st_mode = S_IFCHR | 0666;
		st->st_rdev = dev.kind == DEVICE_KFD ? makedev(511, 0) : makedev(226, 128 + dev.gpu);
		return true;
	}
	if (!topology_covers(path))
		return false;
	if (topology_read(path, text, sizeof text) >= 0)
		st->st_mode = S_IFREG | 0444;
	else if (topology_entries(path) >= 0)
		st->st_mode = S_IFDIR | 0555;
	else {
		*found = false;
		errno = ENOENT;
	}
	return true;
}

EXPORT int stat(const char *path, struct stat *st)
{
	struct stat mine;
	bool found;

	if (!ours(path, &mine, &found))
		return NEXT(stat)(path, st);
	if (found)
		*st = mine;
	return found ? 0 : -1;
}

EXPORT int lstat(const char *path, struct stat *st)
{
	struct stat mine;
	bool found;

	if (!ours(path, &mine, &found))
		return NEXT(lstat)(path, st);
	if (found)
		*st = mine;
	return found ? 0 : -1;
}

EXPORT int access(const char *path, int mode)
{
	struct stat st;
	bool found;

	if (!ours(path, &st, &found))
		return NEXT(access)(path, mode);
	return found ? 0 : -1;
}

/* ---- directories: the numbered ones of the topology ---- */

enum { MAX_OPEN_DIRS = 64 };

static struct numbered_dir {
	bool open;
	int next, count;
	struct dirent entry;
} dirs[MAX_OPEN_DIRS];
static struct lock dirs_lock;

static struct numbered_dir *numbered(DIR *dir)
{
	struct numbered_dir *d = (struct numbered_dir *)dir;

	return d >= dirs && d < dirs + MAX_OPEN_DIRS ? d : NULL;
}

EXPORT DIR *opendir(const char *path)
{
	struct numbered_dir *d = NULL;
	int count;

	if (!topology_covers(path))
		return NEXT(opendir)(path);
	count = topology_entries(path);
	if (count < 0) {
		errno = ENOENT;
		return NULL;
	}
	lock_take(&dirs_lock);
	for (int i = 0; i < MAX_OPEN_DIRS && !d; i++)
		if (!dirs[i].open)
			d = &dirs[i];
	if (d)
		*d = (struct numbered_dir){ .open = true, .count = count };
	lock_drop(&dirs_lock);
	if (!d)
		errno = EMFILE;
	return (DIR *)d;
}

EXPORT struct dirent *readdir(DIR *dir)
{
	struct numbered_dir *d = numbered(dir);

	if (!d)
		return NEXT(readdir)(dir);
	if (d->next == d->count)
		return NULL;
	d->entry = (struct dirent){ .d_ino = (ino_t)d->next + 1, .d_type = DT_DIR };
	snprintf(d->entry.d_name, sizeof d->entry.d_name, "%d", d->next++);
	return &d->entry;
}

_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "readdir64 is readdir on this ABI");

EXPORT struct dirent64 *readdir64(DIR *dir)
{
	return numbered(dir) ? (struct dirent64 *)readdir(dir) : NEXT(readdir64)(dir);
}

EXPORT int closedir(DIR *dir)
{
	struct numbered_dir *d = numbered(dir);

	if (!d)
		return NEXT(closedir)(dir);
	lock_take(&dirs_lock);
	d->open = false;
	lock_drop(&dirs_lock);
	return 0;
}

/* ---- ioctl ---- */

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	enum { KFD_TYPE = 'K', DRM_TYPE = 'd' };
	va_list ap;
	void *args;

	va_start(ap, request);
	args = va_arg(ap, void *);
	va_end(ap);
	if (_IOC_TYPE(request) == KFD_TYPE || _IOC_TYPE(request) == DRM_TYPE) {
		struct device dev = device_of_fd(fd);

		if (dev.kind == DEVICE_KFD)
			return (int)with_errno(-kfd_ioctl(request, args));
		if (dev.kind == DEVICE_RENDER)
			return (int)with_errno(-ENOTTY); /* drm.c answers above this level */
	}
	return (int)with_errno(raw3(SYS_ioctl, fd, (long)request, (long)args));
}

/* ---- fork: the child has no GPU until it opens one ---- */

static void forget_parent(void)
{
	engine_forget_after_fork();
	kfd_forget_after_fork();
	queue_forget_after_fork();
	event_forget_after_fork();
	memory_forget_after_fork();
	guard_forget_after_fork();
	device_forget_after_fork();
	dirs_lock = (struct lock){ 0 };
}

/*
 * Runs after every other exit handler and destructor: a runtime's own still
 * uses the GPU. Handlers run in reverse order, and the dynamic linker registers
 * the one that runs all destructors only after the constructors, this one too.
 */
static void orderly_exit(int status, void *unused)
{
	(void)status;
	(void)unused;
	engine_stop();
}

__attribute__((constructor)) static void register_handlers(void)
{
	pthread_atfork(NULL, NULL, forget_parent);
	on_exit(orderly_exit, NULL);
}
