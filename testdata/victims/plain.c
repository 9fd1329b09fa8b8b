/*
 * plain.c [filter]: one thread that reads. Letters make it do things:
 *   ?  answer: harm noticed while it read
 *   f  fork a child that exits; answer its status
 *   d  a thread loads the library $RTL_SLOW; answers when it is on its way
 *   x  exec itself    q  exit
 *   t  a thread that answers its id; at the next letter it execs the program
 *   v  vfork a child that exits 300 ms later; answer its status
 *   u  setuid to its own uid, which signals every thread of libc's
 * With an argument it installs a seccomp filter first: "allow" everything,
 * refuse "memfd" or "clone", or "kill" for memfd_create.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checked.h"

static void filter(const char *how)
{
	unsigned nr = !strcmp(how, "clone") ? SYS_clone : SYS_memfd_create;
	unsigned action = !strcmp(how, "kill")    ? SECCOMP_RET_KILL_PROCESS
			  : !strcmp(how, "allow") ? SECCOMP_RET_ALLOW
						  : SECCOMP_RET_ERRNO | EPERM;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {sizeof(code) / sizeof(code[0]), code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		exit(2);
}

static void *idle(void *arg)
{
	pause();
	return arg;
}

static void *exec_later(void *self)
{
	char c;

	printf("%ld\n", syscall(SYS_gettid));
	fflush(stdout);
	if (read(0, &c, 1) == 1)
		execv("/proc/self/exe", (char *[]){self, NULL});
	_exit(2);
}

static _Atomic int loading;
static void *load(void *name)
{
	loading = 1;
	return dlopen(name, RTLD_NOW);
}

static uint64_t harm;
int main(int argc, char **argv)
{
	pthread_t id;
	char c;

	if (argc > 1)
		filter(argv[1]);
	pthread_create(&id, NULL, idle, NULL);
	puts("ready");
	fflush(stdout);
	while (checked_letter(&c, &harm) == 1) {
		int status = 0;
		pid_t child;

		switch (c) {
		case '?':
			printf("harm %lu\n", harm);
			fflush(stdout);
			continue;
		case 'f':
			child = fork();
			if (!child) {
				free(malloc(1000));
				_exit(7);
			}
			waitpid(child, &status, 0);
			status = WEXITSTATUS(status);
			break;
		case 'v':
			child = vfork();
			if (!child) {
				usleep(300000);
				_exit(3);
			}
			waitpid(child, &status, 0);
			status = WEXITSTATUS(status);
			break;
		case 'd':
			pthread_create(&id, NULL, load, getenv("RTL_SLOW"));
			pthread_detach(id);
			while (!loading)
				;
			usleep(100000); /* into the constructor */
			break;
		case 'x':
			execv("/proc/self/exe", (char *[]){argv[0], NULL});
			return 2;
		case 't':
			pthread_create(&id, NULL, exec_later, argv[0]);
			pthread_join(id, NULL);
			return 2;
		case 'u':
			status = setuid(getuid());
			break;
		case 'q': /* at once: exit handlers may wait for a thread that is stopped */
			_exit(0);
		}
		printf("%d\n", status);
		fflush(stdout);
	}
	return 0;
}
