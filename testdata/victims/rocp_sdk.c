/*
 * rocp_sdk.c: a test double of librocprofiler-sdk.so. It appends to the file $ROCPROF_TEST_LOG what it is
 * called for, with the tool and all ROCP* variables. $ROCPROF_TEST_MODE: "fail" has its calls return an
 * error, "hang" has them wait until the file $ROCPROF_TEST_HOLD is gone.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rocp.h"

extern char **environ;

static int note(const char *what)
{
	const char *path = getenv("ROCPROF_TEST_LOG"), *mode = getenv("ROCPROF_TEST_MODE"), *hold;
	FILE *log = path ? fopen(path, "a") : NULL;
	char **e;

	if (log) {
		fprintf(log, "%s", what);
		for (e = environ; *e; e++)
			if (!strncmp(*e, "ROCP", 4))
				fprintf(log, " %s", *e);
		fprintf(log, "\n");
		fclose(log);
	}
	if (mode && !strcmp(mode, "hang") && (hold = getenv("ROCPROF_TEST_HOLD")))
		while (!access(hold, F_OK))
			usleep(1000);
	return mode && !strcmp(mode, "fail");
}

int rocprofiler_set_api_table(const char *name, uint64_t version, uint64_t instance, void **tables, uint64_t tables_n)
{
	(void)name;
	(void)version;
	(void)instance;
	(void)tables;
	(void)tables_n;
	return 0;
}

int rocprofiler_attach(void) { return note("attach"); }

int rocprofiler_detach(void) { return note("detach"); }
