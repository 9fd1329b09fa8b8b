/* gpus.c: see gpus.h. */
#include "kinds/dispatch/gpus.h"

#include <stdint.h>

#include "core/runtime.h"
#include "record/agents.h"

#define QUEUE_INFO_AGENT 0 /* HSA_AMD_QUEUE_INFO_AGENT */

static bool selects; /* constant while a session is active, as is selected */
static bool selected[AGENTS_MAX];

/* False: there is no number, or one that is too large. */
static bool number(const char **text, uint64_t *n)
{
	const char *from = *text;

	for (*n = 0; **text >= '0' && **text <= '9'; ++*text)
		if (__builtin_mul_overflow(*n, 10, n) || __builtin_add_overflow(*n, (uint64_t)(**text - '0'), n))
			return false;
	return *text != from;
}

static void select_range(uint64_t first, uint64_t last)
{
	for (uint64_t i = first; i <= last && i < agent_count; i++)
		selected[i] = true;
}

static void select_address(uint64_t address)
{
	for (uint32_t i = 0; i < agent_count; i++)
		if (((uint64_t)agents[i].pci_domain << 32 | agents[i].bdf) == address)
			selected[i] = true;
}

/* One part of the list. */
static bool select_part(const char **text)
{
	uint64_t first, last;

	if (**text == '@') {
		++*text;
		if (!number(text, &first))
			return false;
		select_address(first);
		return true;
	}
	if (!number(text, &first) || **text != '-')
		return false;
	++*text;
	if (!number(text, &last))
		return false;
	select_range(first, last);
	return true;
}

void gpus_select(const char *list)
{
	for (uint32_t i = 0; i < AGENTS_MAX; i++)
		selected[i] = false;
	selects = *list;
	while (selects && *list) {
		selects = select_part(&list) && (!*list || (*list == ',' && list[1]));
		list += *list == ',';
	}
}

bool gpus_exclude(const hsa_queue_t *q)
{
	hsa_agent_t agent = {0};

	if (!selects || !rt.queue_get_info || rt.queue_get_info((hsa_queue_t *)q, QUEUE_INFO_AGENT, &agent))
		return false;
	uint32_t number = agent_of_handle(agent);

	return number && !selected[number - 1];
}
