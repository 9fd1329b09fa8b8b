/*
 * hostile_mount.c HOW taken|deaf: a process with a filesystem of its own making
 * (hostile_fuse.h) where a tool that attaches to it looks. Once everything is as
 * it needs it, the filesystem answers no more, and it prints "ready". Asked "?", it
 * says "asked N": requests since then; at "e" the filesystem ends. It ends with its
 * standard input.
 *
 *   none    nothing: it ends with 0 if there can be such a filesystem
 *   page    the loader's list begins on a page of a file there
 *   proc    it lies over /proc
 *   root    it is the root directory
 *   shm     it lies over /dev/shm, and /proc is no procfs
 *   file    a file of it is mapped
 *   stack   it holds the stack of a thread
 *   reads   a thread holds the lock on the memory map, for reading, while a page is
 *           written there. Asked "t", it says "touched" when a page fault was served
 *   maps    another thread wants it for writing, too: nobody gets it any more
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "hostile_fuse.h"
#include "loader.h"
#include "rocm.h"

#define STACK_BYTES (1 << 18)

static const char *how;

static bool is(const char *what)
{
	return strcmp(how, what) == 0;
}

static _Atomic bool is_idle;

/* Waits with its stack pointer on the verge of a page that it has not touched. */
static void *idle(void *arg)
{
	size_t above = (uintptr_t)__builtin_frame_address(0) % 4096;
	volatile char *room = alloca(above > 512 ? above - 256 : above + 4096 - 256);

	room[0] = 0;
	is_idle = true;
	__asm__ volatile("syscall" : : "a"(SYS_pause) : "rcx", "r11", "memory"); /* the loader would touch it */
	return arg;
}

static void launch(void *(*work)(void *), void *arg, void *stack)
{
	pthread_attr_t attr;
	pthread_t id;

	pthread_attr_init(&attr);
	if (stack)
		pthread_attr_setstack(&attr, stack, STACK_BYTES);
	if (pthread_create(&id, &attr, work, arg))
		die("thread");
	pthread_attr_destroy(&attr);
}

static void *map_file(const char *path, int flags)
{
	int fd = open(path, O_RDWR);
	void *at = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (fd < 0 || at == MAP_FAILED)
		die(path);
	close(fd);
	madvise(at, STACK_BYTES, MADV_RANDOM); /* page by page */
	return at;
}

static char *untouched;

/* What we need ourselves is there: a page fault may want the lock, as well. */
static void need_no_pages(void)
{
	static char output[BUFSIZ];

	setvbuf(stdout, output, _IOFBF, sizeof output);
	if (mlockall(MCL_CURRENT))
		die("mlockall");
	untouched = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (untouched == MAP_FAILED)
		die("mmap");
}

static _Atomic pid_t holds, wants;

/* munmap() writes back what is dirty, with the lock held (fuse_vma_close). */
static void *unmap(void *dirty)
{
	holds = gettid();
	munmap(dirty, STACK_BYTES);
	return dirty;
}

/* Returns when a thread waits where no signal ends it. */
static void await_stuck(const _Atomic pid_t *tid)
{
	char path[64], stat[128] = "";
	int fd;

	while (!*tid)
		sched_yield();
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", *tid);
	fd = open(path, O_RDONLY);
	while (!strstr(stat, ") D ")) {
		sched_yield();
		if (pread(fd, stat, sizeof stat - 1, 0) <= 0)
			die(path);
	}
	close(fd);
}

static void *map(void *arg)
{
	await_stuck(&holds);
	wants = gettid();
	mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return arg;
}

static void hold_the_map(void *dirty)
{
	if (is("maps"))
		launch(map, NULL, NULL);
	launch(unmap, dirty, NULL);
	await_stuck(is("maps") ? &wants : &holds);
}

static const char *place(void)
{
	return is("proc") ? "/proc" : is("shm") ? "/dev/shm" : "/mnt";
}

/* What must be done while it answers; the result is for afterwards(). */
static void *prepare(struct r_debug *debug)
{
	void *at = NULL;

	if (is("page"))
		point_to(debug, map_file("/mnt/page", MAP_PRIVATE));
	else if (is("file"))
		map_file("/mnt/libpthread-2.31.so", MAP_PRIVATE);
	else if (is("stack"))
		launch(idle, NULL, map_file("/mnt/stack", MAP_PRIVATE));
	else if (is("maps") || is("reads"))
		memset(at = map_file("/mnt/dirty", MAP_SHARED), 1, 4096);
	else if (is("root") && (chroot("/mnt") || chdir("/")))
		die("root");
	else if (is("shm") && mount("none", "/proc", "tmpfs", 0, "size=64k"))
		die("/proc");
	return at;
}

static void serve(void)
{
	for (char c; read(0, &c, 1) == 1;) {
		if (c == 'e')
			fuse_end();
		if (c == 't' && (*untouched = 1))
			puts("touched");
		else
			printf("asked %u\n", fuse_asked());
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	struct r_debug *debug = loaders_debug();

	if (argc < 3)
		return 2;
	how = argv[1];
	look_like_rocm();
	if (!fuse_cover(place()))
		die("FUSE");
	if (is("none"))
		return 0;
	if (!is("stack")) /* after the mount namespace: that is a thread's */
		launch(idle, NULL, NULL);
	void *at = prepare(debug);
	while (!is_idle)
		sched_yield();
	if (at)
		need_no_pages();
	fuse_fall_silent(!strcmp(argv[2], "taken"));
	if (at)
		hold_the_map(at);
	puts("ready");
	fflush(stdout);
	serve();
	_exit(0); /* the loader would look at its list */
}
