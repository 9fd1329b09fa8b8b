/*
 * hostile_stage.c OWNED CLOSED OPEN: another user's process, root in namespaces of
 * its own, that would have a tool write where it may not write itself. OWNED, which
 * is root's, lies over its /tmp and /run; its /dev/shm is a link to CLOSED, which
 * anybody could write to, if they got there; OPEN lies over its /var/tmp. Its /proc
 * is a procfs without processes: nothing is loaded through that. It prints "ready"
 * and ends with its standard input.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>

#include "rocm.h"

#define USER 4242

static void check(int result, const char *what)
{
	if (result) {
		perror(what);
		exit(1);
	}
}

static void write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	check(fd < 0 || write(fd, text, strlen(text)) < 0, path);
	close(fd);
}

static void bind_over(const char *from, const char *to)
{
	check(mount(from, to, NULL, MS_BIND, NULL), to);
}

static void *idle(void *arg)
{
	pause();
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t id;
	char c;

	if (argc < 4)
		return 2;
	look_like_rocm();
	check(setresgid(USER, USER, USER) || setresuid(USER, USER, USER), "user");
	check(prctl(PR_SET_DUMPABLE, 1), "dumpable"); /* its files in /proc are its own again */
	check(unshare(CLONE_NEWUSER | CLONE_NEWNS), "namespaces");
	write_to("/proc/self/uid_map", "0 4242 1");
	write_to("/proc/self/setgroups", "deny");
	write_to("/proc/self/gid_map", "0 4242 1");
	bind_over(argv[1], "/tmp");
	bind_over(argv[1], "/run");
	bind_over(argv[3], "/var/tmp");
	check(mount("none", "/dev", "tmpfs", 0, "size=64k") || symlink(argv[2], "/dev/shm"), "/dev/shm");
	bind_over("/proc/driver", "/proc");
	check(pthread_create(&id, NULL, idle, NULL), "thread");
	puts("ready");
	fflush(stdout);
	while (read(0, &c, 1) == 1)
		;
	return 0;
}
