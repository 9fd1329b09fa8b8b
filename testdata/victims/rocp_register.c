/*
 * rocp_register.c: a test double of librocprofiler-register.so.0, after its published interface. With
 * ROCP_TOOL_ATTACH=1 it loads librocprofiler-sdk-attach.so from its own folder when HSA registers.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rocp.h"

static int prepared; /* the attach library has registered itself */
static char first_tool[1024];
static int (*attach_tool)(void), (*detach_tool)(void);

static void *open_beside(const char *name)
{
	char path[1024];
	Dl_info here;
	char *slash;

	if (!dladdr((void *)open_beside, &here))
		return NULL;
	snprintf(path, sizeof(path), "%s", here.dli_fname);
	slash = strrchr(path, '/');
	snprintf(slash + 1, sizeof(path) - (size_t)(slash + 1 - path), "%s", name);
	return dlopen(path, RTLD_GLOBAL | RTLD_LAZY);
}

static int register_attachment(const char *name, uint32_t (*import)(void), uint32_t version, void **tables,
			       uint64_t tables_n, struct rocp_id *id)
{
	(void)import;
	(void)version;
	(void)tables;
	(void)id;
	prepared |= tables_n > 0 && !strcmp(name, "rocattach");
	return ROCP_REG_SUCCESS;
}

int rocprofiler_register_library_api_table(const char *name, uint32_t (*import)(void), uint32_t version,
					   void **tables, uint64_t tables_n, struct rocp_id *id)
{
	const char *wanted = getenv("ROCP_TOOL_ATTACH");
	__typeof__(&rocprofiler_attach_set_api_table) set_api_table = NULL;
	void *library;

	(void)import;
	if (tables_n < 1)
		return ROCP_REG_BAD_API_TABLE_LENGTH;
	id->handle = 1;
	if (!strcmp(name, "hsa") && wanted && !strcmp(wanted, "1") && (library = open_beside("librocprofiler-sdk-attach.so")))
		set_api_table = (__typeof__(set_api_table))dlsym(library, "rocprofiler_attach_set_api_table");
	if (set_api_table)
		set_api_table(name, version, 0, tables, tables_n, register_attachment);
	return ROCP_REG_NO_TOOLS;
}

static void load_environment(const char *buffer)
{
	uint32_t count, i;
	const char *at = buffer + sizeof(count), *value;

	memcpy(&count, buffer, sizeof(count));
	for (i = 0; i < count; i++) {
		value = at + strlen(at) + 1;
		setenv(at, value, 1);
		at = value + strlen(value) + 1;
	}
}

int rocprofiler_register_attach(const char *environment, const char *tool)
{
	void *sdk;

	if (!prepared)
		return ROCP_REG_ATTACHMENT_NOT_AVAILABLE;
	if (first_tool[0] && strcmp(first_tool, tool))
		return ROCP_REG_INVALID_ARGUMENT;
	setenv("ROCPROFILER_REGISTER_TOOL_ATTACHED", "1", 1);
	setenv("ROCP_TOOL_LIBRARIES", tool, 1);
	load_environment(environment);
	if (!first_tool[0]) {
		sdk = open_beside("librocprofiler-sdk.so");
		if (!sdk)
			abort(); /* as the original does */
		attach_tool = (int (*)(void))dlsym(sdk, "rocprofiler_attach");
		detach_tool = (int (*)(void))dlsym(sdk, "rocprofiler_detach");
		snprintf(first_tool, sizeof(first_tool), "%s", tool);
	}
	if (!attach_tool)
		return ROCP_REG_NO_TOOLS;
	return attach_tool() ? ROCP_REG_ROCPROFILER_ERROR : ROCP_REG_SUCCESS;
}

int rocprofiler_register_detach(void)
{
	if (!prepared)
		return ROCP_REG_ATTACHMENT_NOT_AVAILABLE;
	if (!detach_tool)
		return ROCP_REG_NO_TOOLS;
	return detach_tool() ? ROCP_REG_ROCPROFILER_ERROR : ROCP_REG_SUCCESS;
}
