/* emit.c: the agents' records, and the last records of a session. */
#include "record/emit.h"

#include <string.h>

#include "core/session_flags.h"
#include "record/agents.h"
#include "record/ring.h"

#define COUNTERS (sizeof(struct rtl_counters) / sizeof(uint64_t))

static uint32_t next_string; /* id */

void emit_reset(void)
{
	next_string = 1;
}

uint32_t string_id(const char *text, uint32_t len)
{
	static _Alignas(8) char buf[16 + RTL_STRING_MAX + RTL_LINE]; /* too large for our stack */
	struct rtl_string *r = (struct rtl_string *)buf;

	if (len > RTL_STRING_MAX)
		len = RTL_STRING_MAX;
	memset(buf, 0, 16);
	r->header.type = RTL_TYPE_STRING;
	r->header.lines = (uint16_t)((16 + len + RTL_LINE - 1) / RTL_LINE);
	r->id = next_string;
	r->len_bytes = len;
	memset(buf + 16, 0, (size_t)r->header.lines * RTL_LINE - 16);
	memcpy(buf + 16, text, len);
	return ring_put_definition(&r->header) ? next_string++ : 0;
}

bool emit_agent(uint32_t number)
{
	struct agent *a = &agents[number - 1];
	struct rtl_agent r = {
		.header = {.type = RTL_TYPE_AGENT, .lines = 1},
		.id = number,
		.gpu = number - 1,
		.handle = a->handle.handle,
		.driver_node = a->driver_node,
		.bdf = a->bdf,
		.pci_domain = a->pci_domain,
		.compute_units = a->compute_units,
	};

	if (a->emitted)
		return true;
	r.name = string_id(a->name, (uint32_t)strlen(a->name));
	r.product = string_id(a->product, (uint32_t)strlen(a->product));
	a->emitted = ring_put_definition(&r.header);
	return a->emitted;
}

bool emit_account(uint32_t kind)
{
	const struct rtl_kind_counters *c = &counters->kind[kind];
	struct rtl_kind_account r = {
		.header = {.type = RTL_TYPE_KIND_ACCOUNT, .lines = 1},
		.kind = kind,
		.begun = c->begun,
		.timed = c->timed,
		.lost = c->lost,
	};

	for (uint32_t reason = 0; reason < RTL_REASONS_MAX; reason++)
		r.untimed += reason == RTL_REASON_AFTER_DETACH ? 0 : c->untimed[reason];
	return ring_put_definition(&r.header);
}

bool emit_counters(uint32_t *at)
{
	const uint64_t *all = (const uint64_t *)counters;

	for (; *at < COUNTERS; *at += RTL_COUNTERS_OF_RECORD) {
		struct rtl_counters_record r = {.header = {.type = RTL_TYPE_COUNTERS, .lines = 1}, .first = *at};
		uint64_t any = 0;

		for (; r.count < RTL_COUNTERS_OF_RECORD && *at + r.count < COUNTERS; r.count++)
			any |= r.values[r.count] = __atomic_load_n(&all[*at + r.count], __ATOMIC_RELAXED);
		if (any && !ring_put_definition(&r.header))
			return false;
	}
	return true;
}

bool emit_end(uint32_t why, uint64_t armed_ns, uint64_t detached_ns)
{
	struct rtl_end_record r = {
		.header = {.type = RTL_TYPE_END, .lines = 1},
		.end = why,
		.armed_ns = armed_ns,
		.detached_ns = detached_ns,
		.records_lost = counters->records_lost,
	};

	return ring_put_last(&r.header);
}
