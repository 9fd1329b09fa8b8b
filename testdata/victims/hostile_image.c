/*
 * hostile_image.c HOW [NUMBER]: a process without a payload, whose memory, names
 * and files are not what a tool that attaches to it expects. It prints "ready"
 * and ends with its standard input.
 *
 *   plain     nothing wrong, but no ROCm runtime behind the name
 *   maps      NUMBER mappings, and a path of 4,000 newlines in them
 *   loop      a link map that loops; long: one of NUMBER entries
 *   wild      r_debug points anywhere, in turn
 *   stall     r_debug points to a page that never comes (userfaultfd)
 *   threads   NUMBER threads at a time come and go
 *   groups    65,536 groups: the longest status there can be; NUMBER threads sleep
 *   fifo      its libc's path leads to a FIFO, its own to a device
 *   boot      the bootstrap's file numbers are a FIFO's, a device's, a short
 *             memfd's, as soon as they are there
 *   names     a process and a thread with escapes in their names
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <link.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "boot.h"
#include "loader.h"
#include "rocm.h"

static unsigned number;
static struct r_debug *debug; /* the loader's own, not the program's copy of it */

static void *idle(void *arg)
{
	pause();
	return arg;
}

static void launch(void *(*work)(void *), void *arg)
{
	pthread_t id;

	if (pthread_create(&id, NULL, work, arg) == 0)
		pthread_detach(id);
}

static void maps(void)
{
	char name[256];
	char *at;

	/* A deep folder of names that are newlines: each is four characters in maps. */
	memset(name, '\n', 250);
	name[250] = 0;
	if (chdir("/tmp") || mkdir("hostile-maps", 0700) || chdir("hostile-maps"))
		die("/tmp/hostile-maps");
	for (int i = 0; i < 16; i++)
		if (mkdir(name, 0700) || chdir(name))
			die("newlines");
	int fd = open("libhsa-runtime64.so.1 (deleted)", O_RDWR | O_CREAT, 0600);

	if (fd < 0 || ftruncate(fd, 4096) || mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		die("map");
	unlink("libhsa-runtime64.so.1 (deleted)");
	for (int i = 0; i < 16; i++)
		if (chdir("..") || rmdir(name))
			die("back");
	if (chdir("/tmp") || rmdir("hostile-maps"))
		die("/tmp");
	at = mmap(NULL, (size_t)number * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	for (unsigned i = 0; at != MAP_FAILED && i < number; i += 2)
		if (mprotect(at + (size_t)i * 4096, 4096, PROT_READ | PROT_WRITE))
			break; /* vm.max_map_count */
}

static void link_map(bool loop)
{
	struct link_map *last = _r_debug.r_map, *more = calloc(number + 1, sizeof *more);

	while (last->l_next)
		last = last->l_next;
	for (unsigned i = 0; i < number; i++) {
		more[i] = *_r_debug.r_map->l_next;
		more[i].l_addr += 16; /* at no header: every one is looked for */
		more[i].l_name = (char *)(i % 2 ? "/lib/x86_64-linux-gnu/libc.so.6" : "/x");
		more[i].l_next = more + i + 1;
	}
	more[number].l_name = (char *)"";
	more[number].l_next = loop ? _r_debug.r_map : NULL;
	last->l_next = more;
}

static void *wild(void *arg)
{
	struct link_map fake = {.l_name = (char *)1, .l_next = &fake};
	uintptr_t to[] = {1, ~(uintptr_t)0, 1ul << 63, 0xffffffffff600000, (uintptr_t)&fake, (uintptr_t)debug, 0};

	for (unsigned i = 0;; i++) {
		point_to(debug, (void *)to[i % 7]);
		nanosleep(&(struct timespec){0, 1000000}, NULL);
	}
	return arg;
}

static void stall(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register area = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	long fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	area.range.start = (uintptr_t)page;
	area.range.len = 4096;
	if (fd < 0 || ioctl((int)fd, UFFDIO_API, &api) || ioctl((int)fd, UFFDIO_REGISTER, &area)) {
		puts("no userfaultfd");
		exit(0);
	}
	point_to(debug, page);
}

static void *shortlived(void *arg)
{
	return arg;
}

static void *thread_maker(void *arg)
{
	for (;;) {
		pthread_t ids[64];
		unsigned made = 0;

		while (made < 64 && made < number && pthread_create(ids + made, NULL, shortlived, NULL) == 0)
			made++;
		while (made)
			pthread_join(ids[--made], NULL);
	}
	return arg;
}

static void *doze(void *arg)
{
	for (;;)
		sleep(1000);
	return arg;
}

/* Threads have their groups from who makes them. */
static void groups(void)
{
	gid_t *list = calloc(65536, sizeof *list);

	for (unsigned i = 0; i < 65536; i++)
		list[i] = 4000000000u + i;
	if (setgroups(65536, list))
		die("setgroups");
	free(list);
	for (unsigned i = 0; i < number; i++)
		launch(doze, NULL);
}

static void fifo(void)
{
	static const char *const libc = "/lib/x86_64-linux-gnu/libc.so.6";
	char own[256] = "";

	if (readlink("/proc/self/exe", own, sizeof own - 1) < 0)
		die("exe");
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		die("unshare");
	if (mount("none", "/mnt", "tmpfs", 0, "size=64k") || mkfifo("/mnt/fifo", 0600))
		die("fifo");
	if (mount("/mnt/fifo", libc, NULL, MS_BIND, NULL) || mount("/dev/full", own, NULL, MS_BIND, NULL))
		die("bind");
}

/* bootstrap finds the memory of an injection: an executable page without a file
 * at a marked address, and struct rtl_boot above it. */
static struct rtl_boot *bootstrap(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned long lo, hi, last = 0;
	struct rtl_boot *found = NULL;

	while (f && fgets(line, sizeof line, f)) {
		if (sscanf(line, "%lx-%lx", &lo, &hi) != 2)
			continue;
		if (lo == last && strstr(line, " rw-p "))
			found = (struct rtl_boot *)lo;
		last = (lo & 0xfffffff) == 0x5254000 && strstr(line, " r-xp ") ? hi : 0;
	}
	if (f)
		fclose(f);
	return found;
}

static void *boot(void *arg)
{
	int pipes[2], stub = memfd_create("rtl-boot", MFD_ALLOW_SEALING);
	int fds[4];

	if (pipe(pipes) || ftruncate(stub, 64) || fcntl(stub, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		die("files");
	mkfifo("/tmp/hostile-fifo", 0600);
	fds[0] = open("/tmp/hostile-fifo", O_RDONLY | O_NONBLOCK);
	unlink("/tmp/hostile-fifo");
	fds[1] = open("/dev/ptmx", O_RDWR | O_NOCTTY); /* to open it makes a terminal */
	fds[2] = stub;
	fds[3] = open("/proc/self/exe", O_RDONLY);
	for (unsigned i = 0;; i++) {
		struct rtl_boot *b = bootstrap();

		for (int n = 0; b && n < 20000; n++) {
			__atomic_store_n(number == 0 ? &b->shared_fd : &b->payload_fd, fds[(number ? 0 : i) % 4], __ATOMIC_RELAXED);
			b = n % 1000 ? b : bootstrap();
		}
	}
	return arg;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	char c;

	number = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	debug = loaders_debug();
	if (strcmp(how, "maps") != 0)
		look_like_rocm();
	launch(idle, NULL);
	if (!strcmp(how, "maps"))
		maps();
	else if (!strcmp(how, "loop") || !strcmp(how, "long"))
		link_map(!strcmp(how, "loop"));
	else if (!strcmp(how, "wild"))
		launch(wild, NULL);
	else if (!strcmp(how, "threads"))
		launch(thread_maker, NULL);
	else if (!strcmp(how, "groups"))
		groups();
	else if (!strcmp(how, "fifo"))
		fifo();
	else if (!strcmp(how, "boot"))
		launch(boot, NULL);
	else if (!strcmp(how, "names"))
		prctl(PR_SET_NAME, "\033[31m)\n S 1\r\xff");
	else if (!strcmp(how, "stall")) /* from here on nobody could load a library */
		stall();
	puts("ready");
	fflush(stdout);
	while (read(0, &c, 1) == 1)
		;
	return 0;
}
