/*
 * hostile.c HOW [NUMBER]: a process that looks as if a payload were resident in
 * it, and plays that payload (payload/src/abi.h) against the recorder; its ring is
 * hostile_ring.c's. It prints "ready", ends with its standard input, and before that
 * does what HOW says:
 *
 *   honest    nothing wrong: the tool must believe it
 *   names     names full of escapes, control characters, broken UTF-8
 *   megabyte  a name of 1 MB
 *   strings   strings without end, and symbols that demangle to much more
 *   ids       definitions without end
 *   records   records of random contents
 *   scribble  random words anywhere in control block and ring, all the time
 *   head      a ring whose head jumps about
 *   huge      a ring of 8 GiB; short, unsealed: one that ends, or could
 *   bare      a control block that could be truncated; stub: one that ends early
 *   swap      other files in the place of the control block's mapping, in turn
 *   swapring  the same with the ring's, and with the number by which the block names it
 *   asks      a grace that names thread NUMBER, of somebody else
 *   stall     a grace that names a thread whose stack ends in pages that never come
 *   text      a refusal with an escape sequence in its words
 *   mute      no answers
 *   restarts  a runtime that is shut down as soon as it is recorded, again and again
 *   stacks    threads whose stacks and unwind tables lie (hostile_stacks.c)
 *   holders   recorders that live for a moment, one after the other
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hostile.h"
#include "rocm.h"

static const char *how;
static unsigned number;
struct rtl_control *control;
atomic_bool recording;

bool is(const char *what) { return strcmp(how, what) == 0; }

static void futex(void *word, int op, uint32_t value)
{
	struct timespec limit = {0, 20000000};

	syscall(SYS_futex, word, op, value, &limit, NULL, 0);
}

uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void *shared(const char *name, uint64_t bytes, int seals, uint64_t *inode)
{
	int fd = memfd_create(name, MFD_ALLOW_SEALING);
	struct stat st;
	void *at;

	if (fd < 0 || ftruncate(fd, (off_t)bytes) || fcntl(fd, F_ADD_SEALS, seals) || fstat(fd, &st))
		exit(1);
	if (inode)
		*inode = st.st_ino;
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		exit(1);
	return at;
}

/* --- what it does to the recorder, but for the ring ------------------------ */

/* grace asks for somebody else's thread and tells the verdict. */
static void grace(void)
{
	struct rtl_grace *g = (struct rtl_grace *)((char *)control + RTL_GRACE_OFFSET);

	g->count = g->range_count = 1;
	g->tids[0] = number;
	g->ranges[0] = (struct rtl_range){1, UINT64_MAX};
	__atomic_store_n(&g->ask_seq, g->ask_seq + 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&g->answer_seq, __ATOMIC_ACQUIRE) != g->ask_seq)
		futex(&g->answer_seq, FUTEX_WAIT, g->answer_seq);
	printf("verdict %u\n", g->verdicts[0]);
	fflush(stdout);
}

static void *deep(void *arg)
{
	number = (unsigned)gettid();
	pause();
	return arg;
}

/* A thread on a stack of our own; what lies above it is answered for by nobody. */
static void stack_without_top(void)
{
	const size_t stack = 1 << 18, top = 1 << 16;
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register area = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	char *at = mmap(NULL, stack + top, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attr;
	pthread_t id;

	area.range.start = (uintptr_t)at + stack;
	area.range.len = top;
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &area)) {
		perror("userfaultfd");
		exit(1);
	}
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, at, stack);
	pthread_create(&id, &attr, deep, NULL);
	while (!*(volatile unsigned *)&number)
		usleep(1000);
}

/* Files that are not the one of this name and size, though they may have both. */
static void open_others(const char *name, uint64_t bytes, int fd[4])
{
	fd[0] = memfd_create(name, MFD_ALLOW_SEALING);
	fd[1] = open("/dev/zero", O_RDWR);
	fd[2] = open("/proc/self/exe", O_RDONLY);
	fd[3] = memfd_create(name, MFD_ALLOW_SEALING);
	if (ftruncate(fd[0], 4096) || ftruncate(fd[3], (off_t)bytes))
		exit(1);
	fcntl(fd[0], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
}

/* The mapping of the control block is another file's from moment to moment. */
static void *swap(void *arg)
{
	char *at = (char *)control;
	int other[4];

	open_others(RTL_CONTROL_NAME, RTL_CONTROL_SIZE, other);
	for (unsigned i = 0;; i++)
		mmap(at, RTL_CONTROL_SIZE, PROT_READ, MAP_SHARED | MAP_FIXED, other[i % 4], 0);
	return arg;
}

/* The block names the file that is mapped as the ring, and the one that was. */
static void *swap_ring(void *arg)
{
	int other[4];
	struct stat st;

	open_others(RTL_RING_NAME, RTL_PAGE + ring_bytes, other);
	for (unsigned i = 0; recording; i++) {
		mmap(ring, RTL_PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, other[i % 4], 0);
		if (!fstat(other[(i + i / 4 % 2) % 4], &st))
			control->ring_inode = st.st_ino;
	}
	return arg;
}

/* --- the control thread --------------------------------------------------- */

static void launch(void *(*work)(void *))
{
	pthread_t id;

	pthread_create(&id, NULL, work, NULL);
	pthread_detach(id);
}

static void shut_down(void)
{
	put_end(RTL_END_SHUT_DOWN);
	recording = false;
	control->last_end = RTL_END_SHUT_DOWN;
	control->state = RTL_STATE_DORMANT;
}

static int32_t reattach(void)
{
	if (is("text")) {
		strcpy(control->error_text, "\033[2Jgone\nrtl-attach: all is well\xff");
		return -ENODEV;
	}
	if (is("stall"))
		stack_without_top();
	if (is("asks") || is("stall"))
		grace();
	make_ring();
	control->armed_ns = now();
	control->state = RTL_STATE_ACTIVE;
	recording = true;
	if (is("names"))
		names();
	else if (is("megabyte"))
		launch(megabyte);
	else if (is("strings"))
		launch(strings);
	else if (is("ids"))
		launch(ids);
	else if (is("records"))
		launch(records);
	else if (is("scribble"))
		launch(scribble);
	else if (is("head"))
		launch(jump);
	else if (!is("short") && !is("huge"))
		honest();
	if (is("restarts"))
		shut_down();
	if (is("stacks"))
		stacks();
	if (is("swapring"))
		launch(swap_ring);
	return 0;
}

static int32_t answer(uint32_t command)
{
	switch (command) {
	case RTL_COMMAND_REATTACH:
		return reattach();
	case RTL_COMMAND_DETACH:
		if ((is("honest") || is("names") || is("asks") || is("stall") || is("stacks")) && recording)
			put_end(RTL_END_DETACH);
		recording = false;
		control->state = RTL_STATE_DORMANT;
		control->detached_ns = now();
		control->hooks_patched = 0;
		return 0;
	}
	return 0;
}

static void *serve(void *arg)
{
	uint32_t done = 0;

	for (;;) {
		uint32_t asked = __atomic_load_n(&control->command_seq, __ATOMIC_ACQUIRE);

		if (is("mute") || asked == done) {
			futex(&control->command_seq, FUTEX_WAIT, asked);
			continue;
		}
		control->result = answer(control->command);
		done = asked;
		__atomic_store_n(&control->answer_seq, asked, __ATOMIC_RELEASE);
		futex(&control->answer_seq, FUTEX_WAKE, 1);
	}
	return arg;
}

/* Children that live for a moment are the recorder, one after the other. */
static void *holders(void *arg)
{
	control->state = RTL_STATE_ACTIVE;
	for (;;) {
		pid_t child = fork();

		if (!child) {
			usleep(20000);
			_exit(0);
		}
		__atomic_store_n(&control->recorder.owner, (uint64_t)child << 32 | 1, __ATOMIC_RELEASE);
		waitpid(child, NULL, 0);
	}
	return arg;
}

int main(int argc, char **argv)
{
	char c;

	if (argc < 2)
		return 2;
	how = argv[1];
	number = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	look_like_rocm();
	control = shared(RTL_CONTROL_NAME, is("stub") ? 4096 : RTL_CONTROL_SIZE,
			 is("bare") ? F_SEAL_GROW : F_SEAL_SHRINK | F_SEAL_GROW, NULL);
	control->abi_version = RTL_ABI_VERSION;
	control->size_bytes = RTL_CONTROL_SIZE;
	control->pid = (uint32_t)getpid();
	control->build_id_len = 0xffffffff;
	control->state = RTL_STATE_DORMANT;
	control->magic = RTL_CONTROL_MAGIC;
	if (is("holders"))
		launch(holders);
	else if (is("swap"))
		launch(swap);
	else
		launch(serve);
	puts("ready");
	fflush(stdout);
	while (read(0, &c, 1) == 1)
		;
	return 0;
}
