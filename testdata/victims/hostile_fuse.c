/*
 * hostile_fuse.c: a FUSE server that speaks to /dev/fuse itself, with the least
 * that a mount, a lookup and a mapping need: its root holds any name that is asked
 * for, a folder if that is "dev", "shm" or "proc", else a file of zeros.
 */
#define _GNU_SOURCE
#include "hostile_fuse.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FOLDER = 2, FILE_OF_ZEROS = 3, FILE_BYTES = 1 << 20, REQUEST_MAX = 1 << 17 };
enum { ANSWERING, TAKING, DEAF };

static struct {
	_Atomic unsigned manner; /* one of the above */
	_Atomic unsigned deaf;   /* the server has seen that */
	_Atomic unsigned asked;
} *shared;
static pid_t server;

static void answer(int fd, const struct fuse_in_header *to, int error, const void *body, size_t bytes)
{
	struct fuse_out_header out = {.len = (uint32_t)(sizeof out + bytes), .error = error, .unique = to->unique};
	struct iovec parts[] = {{&out, sizeof out}, {(void *)body, bytes}};

	if (writev(fd, parts, 2) < 0 && errno != ENOENT) /* ENOENT: who asked has gone */
		_exit(1);
}

static struct fuse_attr attributes(uint64_t node)
{
	bool folder = node == FUSE_ROOT_ID || node == FOLDER;

	return (struct fuse_attr){
		.ino = node,
		.size = folder ? 0 : FILE_BYTES,
		.mode = folder ? S_IFDIR | 0755 : S_IFREG | 0755,
		.nlink = 1,
		.blksize = 4096,
	};
}

static void look_up(int fd, const struct fuse_in_header *in, const char *name)
{
	bool folder = !strcmp(name, "dev") || !strcmp(name, "shm") || !strcmp(name, "proc");
	struct fuse_entry_out out = {.nodeid = folder ? FOLDER : FILE_OF_ZEROS, .attr_valid = 3600};

	out.attr = attributes(out.nodeid);
	answer(fd, in, 0, &out, sizeof out);
}

static void begin(int fd, const struct fuse_in_header *in, const struct fuse_init_in *init)
{
	struct fuse_init_out out = {
		.major = FUSE_KERNEL_VERSION,
		.minor = init->minor < FUSE_KERNEL_MINOR_VERSION ? init->minor : FUSE_KERNEL_MINOR_VERSION,
		.max_readahead = 4096,
		.max_write = 4096, /* and no flags: every request waits for its answer */
	};

	answer(fd, in, 0, &out, sizeof out);
}

static void serve(int fd, const struct fuse_in_header *in)
{
	static const char zeros[REQUEST_MAX];
	const void *body = in + 1;
	struct fuse_attr_out attr = {.attr_valid = 3600, .attr = attributes(in->nodeid)};
	struct fuse_open_out open = {0};
	struct fuse_statfs_out statfs = {.st = {.bsize = 4096, .namelen = 255}};

	switch (in->opcode) {
	case FUSE_INIT:
		begin(fd, in, body);
		break;
	case FUSE_LOOKUP:
		look_up(fd, in, body);
		break;
	case FUSE_GETATTR:
	case FUSE_SETATTR:
		answer(fd, in, 0, &attr, sizeof attr);
		break;
	case FUSE_OPEN:
	case FUSE_OPENDIR:
		answer(fd, in, 0, &open, sizeof open);
		break;
	case FUSE_READ:
		answer(fd, in, 0, zeros, ((const struct fuse_read_in *)body)->size);
		break;
	case FUSE_STATFS:
		answer(fd, in, 0, &statfs, sizeof statfs);
		break;
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
	case FUSE_FLUSH:
		answer(fd, in, 0, NULL, 0);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break; /* no answer is expected */
	default:
		answer(fd, in, -ENOSYS, NULL, 0);
	}
}

static bool is_question(const struct fuse_in_header *in)
{
	return in->opcode != FUSE_FORGET && in->opcode != FUSE_BATCH_FORGET && in->opcode != FUSE_INTERRUPT;
}

static void run(int fd)
{
	static _Alignas(struct fuse_in_header) char request[REQUEST_MAX];
	const struct fuse_in_header *in = (const void *)request;

	for (;;) {
		while (shared->manner == DEAF) {
			shared->deaf = 1;
			pause();
		}
		if (read(fd, request, sizeof request) < (ssize_t)sizeof *in) {
			if (errno == EINTR || errno == ENOENT) /* told to be deaf; who asked has gone */
				continue;
			_exit(0); /* ENODEV: unmounted */
		}
		if (shared->manner == ANSWERING)
			serve(fd, in);
		else
			shared->asked += is_question(in);
	}
}

static void wake(int signal)
{
	(void)signal;
}

static void become_server(int fd, pid_t parent)
{
	struct sigaction a = {.sa_handler = wake}; /* without SA_RESTART */

	sigaction(SIGUSR1, &a, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "hostile_fuse");
	if (getppid() == parent)
		run(fd);
	_exit(1);
}

bool fuse_cover(const char *dir)
{
	char options[128];
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	pid_t self = getpid();

	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (fd < 0 || shared == MAP_FAILED || unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return false;
	snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd);
	if (mount("hostile", dir, "fuse", MS_NOSUID | MS_NODEV, options))
		return false;
	server = fork();
	if (!server)
		become_server(fd, self);
	close(fd); /* the filesystem ends with its server */
	struct statfs first; /* answered when the server and the kernel know each other */
	return server > 0 && !statfs(dir, &first);
}

void fuse_fall_silent(bool taken)
{
	shared->manner = taken ? TAKING : DEAF;
	while (!taken && !shared->deaf) {
		kill(server, SIGUSR1);
		sched_yield();
	}
}

unsigned fuse_asked(void)
{
	return shared->asked;
}

void fuse_end(void)
{
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
}
