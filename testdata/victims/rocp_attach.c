/*
 * rocp_attach.c: a test double of librocprofiler-sdk-attach.so, after rocprofiler-register's published
 * interface: it registers itself and has the thread by which a process is known to be prepared.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>

#include "rocp.h"

static void *wait_here(void *arg)
{
	for (;;)
		pause();
	return arg;
}

int rocprofiler_attach_set_api_table(const char *name, uint64_t version, uint64_t instance, void **tables,
				     uint64_t tables_n, rocp_register_fn registered)
{
	static void *table;
	void *own_tables[] = {&table};
	struct rocp_id id = {0};
	pthread_t thread;

	(void)name;
	(void)version;
	(void)instance;
	(void)tables;
	(void)tables_n;
	if (pthread_create(&thread, NULL, wait_here, NULL))
		return 1;
	pthread_setname_np(thread, "rocp-bg-attach");
	pthread_detach(thread);
	return registered("rocattach", NULL, 10000, own_tables, 1, &id);
}
