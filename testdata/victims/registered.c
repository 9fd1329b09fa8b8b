/*
 * registered.c: a process that librocprofiler-register.so knows, as it knows one that uses ROCm.
 *   registered FILE   loads that library and registers a table of HSA's with it
 * For each letter that it reads it answers "here". Without the library's environment variable
 * ROCP_TOOL_ATTACH=1 it is not prepared for an attach.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "rocp.h"

static void *idle(void *arg)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&lock);
	pthread_mutex_lock(&lock); /* a futex wait without time-out */
	return arg;
}

int main(int argc, char **argv)
{
	static void *table[64];
	void *tables[] = {table}, *library = argc > 1 ? dlopen(argv[1], RTLD_GLOBAL | RTLD_NOW) : NULL;
	rocp_register_fn registered = library ? (rocp_register_fn)dlsym(library, "rocprofiler_register_library_api_table") : NULL;
	struct rocp_id id;
	pthread_t thread;
	char c;

	table[0] = (void *)sizeof(table);
	if (!registered || registered("hsa", NULL, 10000, tables, 1, &id) > ROCP_REG_NO_TOOLS ||
	    pthread_create(&thread, NULL, idle, NULL)) {
		fprintf(stderr, "registered: %s\n", dlerror());
		return 1;
	}
	puts("ready");
	fflush(stdout);
	while (read(0, &c, 1) == 1) {
		puts("here");
		fflush(stdout);
	}
	return 0;
}
