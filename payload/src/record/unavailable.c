/* unavailable.c: see unavailable.h. */
#include "record/unavailable.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/session_flags.h"
#include "record/emit.h"
#include "record/ring.h"

static struct {
	uint32_t error;
	char reason[RTL_TEXT_MAX];
	_Atomic bool is_due; /* its record is not written. seq_cst: arming stores it after error and reason, and the worker, which reads them then, loads it */
} unavailable[RTL_KINDS_MAX];

void kinds_all_available(void)
{
	atomic_store(&session_flags.unavailable, 0);
	for (uint32_t kind = 0; kind < RTL_KINDS_MAX; kind++)
		atomic_store(&unavailable[kind].is_due, false);
}

int kind_unavailable(uint32_t kind, int r, const char *reason)
{
	uint32_t all = atomic_load(&session_flags.unavailable) | 1u << kind;

	if (kind == RTL_KIND_DISPATCH || !(config.trace & ~all))
		return r;
	unavailable[kind].error = (uint32_t)-r;
	snprintf(unavailable[kind].reason, sizeof unavailable[kind].reason, "%s", reason);
	atomic_store(&session_flags.unavailable, all);
	atomic_store(&unavailable[kind].is_due, true);
	return 0;
}

static bool emit(uint32_t kind)
{
	const char *reason = unavailable[kind].reason;
	struct rtl_kind_unavailable r = {
		.header = {.type = RTL_TYPE_KIND_UNAVAILABLE, .lines = 1},
		.kind = kind,
		.reason = string_id(reason, (uint32_t)strlen(reason)),
		.error = unavailable[kind].error,
	};

	return ring_put_definition(&r.header);
}

bool emit_unavailable(void)
{
	for (uint32_t kind = 0; kind < RTL_KINDS_MAX; kind++) {
		if (!atomic_load(&unavailable[kind].is_due))
			continue;
		if (!emit(kind))
			return false;
		atomic_store(&unavailable[kind].is_due, false);
	}
	return true;
}
