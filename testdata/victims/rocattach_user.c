/*
 * rocattach_user.c: a program that is written for AMD's attach library, as AMD documents it:
 *   rocattach_user old PID   librocprofv3-attach.so: attach(pid), detach()
 *   rocattach_user new PID   librocprofiler-sdk-rocattach.so.1: rocattach_attach_tree(pid), …
 *   rocattach_user die PID   the same, and it dies attached
 * It prints the statuses, and what the library has left behind in it.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

int main(int argc, char **argv)
{
	int is_old = argc > 2 && !strcmp(argv[1], "old"), pid = argc > 2 ? atoi(argv[2]) : 0, before, status;
	void *library = dlopen(is_old ? "librocprofv3-attach.so" : "librocprofiler-sdk-rocattach.so.1", RTLD_NOW);
	const char *(*name)(int), *(*text)(void);

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	before = descriptors();
	if (is_old) {
		((void (*)(uint32_t))dlsym(library, "attach"))((uint32_t)pid);
		usleep(300000);
		((void (*)(void))dlsym(library, "detach"))();
	} else {
		name = (const char *(*)(int))dlsym(library, "rocattach_get_status_name");
		text = (const char *(*)(void))dlsym(library, "rtl_rocattach_error");
		status = ((int (*)(int))dlsym(library, "rocattach_attach_tree"))(pid);
		printf("attach %s %s\n", name(status), text());
		if (!status) {
			status = ((int (*)(int))dlsym(library, "rocattach_attach"))(pid);
			printf("again %s\n", name(status));
		}
		fflush(stdout);
		usleep(300000);
		if (!strcmp(argv[1], "die"))
			kill(getpid(), SIGKILL);
		status = ((int (*)(int))dlsym(library, "rocattach_detach_tree"))(pid);
		printf("detach %s\n", name(status));
	}
	printf("left: %d descriptors, %s\n", descriptors() - before,
	       waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD ? "no child" : "a child");
	return 0;
}
