/* command.c: from AMD's environment variables to the command line of rtl-attach. */
#define _GNU_SOURCE
#include "command.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static const struct {
	const char *variable, *flag;
} kinds[] = {
	{"ROCPROF_MEMORY_COPY_TRACE", "--memory-copy-trace"},
	{"ROCPROF_HIP_RUNTIME_API_TRACE", "--hip-runtime-trace"},
	{"ROCPROF_HIP_COMPILER_API_TRACE", "--hip-compiler-trace"},
	{"ROCPROF_HSA_CORE_API_TRACE", "--hsa-core-trace"},
	{"ROCPROF_HSA_AMD_EXT_API_TRACE", "--hsa-amd-trace"},
	{"ROCPROF_RCCL_API_TRACE", "--rccl-trace"},
	{"ROCPROF_MEMORY_ALLOCATION_TRACE", "--memory-allocation-trace"},
	{"ROCPROF_SCRATCH_MEMORY_TRACE", "--scratch-memory-trace"},
	{"ROCPROF_MARKER_API_TRACE", "--marker-trace"},
};

static void add(struct command *c, const char *argument)
{
	if (c->argc == ARGUMENTS_MAX) {
		c->overflow = 1;
		return;
	}
	c->argv[c->argc++] = argument;
	c->argv[c->argc] = NULL;
}

__attribute__((format(printf, 2, 3))) static void addf(struct command *c, const char *format, ...)
{
	int room = TEXT_MAX - c->used, n;
	va_list args;

	va_start(args, format);
	n = vsnprintf(c->text + c->used, (size_t)room, format, args);
	va_end(args);
	if (n < 0 || n >= room) {
		c->overflow = 1;
		return;
	}
	add(c, c->text + c->used);
	c->used += n + 1;
}

static const char *set_to(const char *variable)
{
	const char *value = secure_getenv(variable);

	return value && *value ? value : NULL;
}

static int is_on(const char *variable)
{
	const char *value = set_to(variable);

	return value && strcmp(value, "0") && strcasecmp(value, "false") && strcasecmp(value, "off") && strcasecmp(value, "no");
}

/* The formats that rtl-attach writes; the others are AMD's own. */
static void add_formats(struct command *c)
{
	static const char *const known[] = {"csv", "json", "pftrace"};
	const char *formats = set_to("ROCPROF_OUTPUT_FORMAT");

	for (unsigned i = 0; formats && i < sizeof(known) / sizeof(known[0]); i++)
		if (strcasestr(formats, known[i]))
			addf(c, "--output-format=%s", known[i]);
}

static const struct {
	const char *variable, *flag;
} filters[] = {
	{"ROCPROF_KERNEL_FILTER_INCLUDE_REGEX", "--kernel-include-regex"},
	{"ROCPROF_KERNEL_FILTER_EXCLUDE_REGEX", "--kernel-exclude-regex"},
	{"ROCPROF_KERNEL_FILTER_RANGE", "--kernel-iteration-range"},
};
#define FILTERS (sizeof(filters) / sizeof(filters[0]))

static void add_filters(struct command *c)
{
	for (unsigned i = 0; i < FILTERS; i++) {
		const char *value = set_to(filters[i].variable);

		if (value)
			addf(c, "%s=%s", filters[i].flag, value);
	}
}

static int is_filter(const char *setting)
{
	for (unsigned i = 0; i < FILTERS; i++) {
		size_t length = strlen(filters[i].variable);

		if (!strncmp(setting, filters[i].variable, length) && setting[length] == '=')
			return 1;
	}
	return 0;
}

/* START:ON:REPEAT in nanoseconds, several with semicolons between them. */
static void add_periods(struct command *c)
{
	const char *periods = set_to("ROCPROF_COLLECTION_PERIOD");

	if (!periods)
		return;
	add(c, "--collection-period-unit=nsec");
	addf(c, "--collection-period=%s", periods);
	for (char *at = c->overflow ? NULL : strchr(c->argv[c->argc - 1], ';'); at; at = strchr(at, ';'))
		*at = ',';
}

/* The command checks filters: rocprofiler-sdk's tool ends the process if it cannot read one. */
static void add_tool(struct command *c, const char *tool)
{
	add(c, "--via=rocprofiler-register");
	addf(c, "--tool-library=%s", tool);
	for (char **e = environ; *e; e++)
		if (!strncmp(*e, "ROCP", 4) && strncmp(*e, "ROCPROFILER_REGISTER_LIBRARY=", 29) &&
		    strncmp(*e, "ROCP_TOOL_LIBRARIES=", 20) && !is_filter(*e))
			addf(c, "--set=%s", *e);
}

void command_make(struct command *c, int pid, int tree, int notify)
{
	const char *folder = set_to("ROCPROF_OUTPUT_PATH"), *file = set_to("ROCPROF_OUTPUT_FILE_NAME");
	const char *tool = set_to("ROCPROF_ATTACH_TOOL_LIBRARY");

	memset(c, 0, sizeof(*c));
	add(c, "rtl-attach");
	add(c, "record");
	add(c, "-q");
	addf(c, "--notify-fd=%d", notify);
	addf(c, "--pid=%d", pid);
	if (!tree)
		add(c, "--no-tree");
	if (folder)
		addf(c, "--output-directory=%s", folder);
	if (file) {
		addf(c, "--output-file=%s", file);
		if (!tool)
			add(c, "--append"); /* the next attach of the same program: another session in the same trace */
	}
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (is_on(kinds[i].variable))
			add(c, kinds[i].flag);
	add_filters(c);
	if (tool) {
		add_tool(c, tool);
		return;
	}
	add_formats(c);
	add_periods(c);
}

void command_path(char *path, int size)
{
	static const char *const places[] = {"../../bin/rtl-attach", "../rtl-attach", "rtl-attach"};
	const char *given = set_to("RTL_ATTACH_COMMAND");
	char folder[4096], *slash;
	Dl_info here;

	snprintf(path, (size_t)size, "%s", given ? given : "rtl-attach");
	if (given || !dladdr((void *)command_path, &here) || !here.dli_fname)
		return;
	snprintf(folder, sizeof(folder), "%s", here.dli_fname);
	slash = strrchr(folder, '/');
	if (!slash)
		return;
	*slash = 0;
	for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, (size_t)size, "%s/%s", folder, places[i]);
		if (!access(path, X_OK))
			return;
	}
	snprintf(path, (size_t)size, "rtl-attach");
}
