/* edge_gpus.c: a session that records some GPUs only. */
#include "edge.h"

#include <string.h>

#include "core/session_flags.h"
#include "kinds/dispatch/gpus.h"
#include "kinds/dispatch/hooks.h"
#include "record/agents.h"
#include "session/control_block.h"
#include "session/entry.h"
#include "wrappers.h"

static uint32_t asked;

static hsa_status_t two_agents(hsa_status_t (*note)(hsa_agent_t, void *), void *data)
{
	hsa_status_t s = note((hsa_agent_t){1}, data);

	return s ? s : note((hsa_agent_t){2}, data);
}

/* The queue with id n is of the agent with handle n. */
static hsa_status_t agent_of_queue(hsa_queue_t *q, int what, void *out)
{
	CHECK(!what);
	asked++;
	*(hsa_agent_t *)out = (hsa_agent_t){q->id};
	return HSA_STATUS_SUCCESS;
}

static hsa_status_t unprofiled(hsa_queue_t *q, int on)
{
	CHECK(q->id == 2 && on);
	return HSA_STATUS_SUCCESS;
}

static bool is_raw(hsa_queue_t *q)
{
	struct queue *s = queue_find(q);

	return s && atomic_load(&s->word) == WORD_RAW;
}

/* A queue of another GPU gets no signal, no profiling and no virtual index, and is in no other counter. The next
 * session records it. */
static void queues_of_other_gpus(void)
{
	static struct toy_queue t, u;
	hsa_queue_t *q = make_queue(&t, 1), *r = make_queue(&u, 2);

	rt.iterate_agents = two_agents;
	rt.queue_get_info = agent_of_queue;
	rt.set_profiling = unprofiled;
	t.amd.queue_properties = u.amd.queue_properties = 0;
	begin("RTL_GPUS", "1-7");
	wrap_store_screlease(q->doorbell_signal, 0);
	for (int i = 0; i < 3; i++) {
		submit(q, 0x1000);
		CHECK(!take_packet(q)); /* it has no signal */
		submit(r, 0x1000);
		fire(take_packet(r));
	}
	CHECK(is_raw(q) && !is_raw(r));
	CHECK(t.amd.write_dispatch_id == 3);
	CHECK(comes(&counters->timed_pool, 3));
	CHECK(counters->queues_excluded == 1 && counters->queues_seen == 1 && !counters->raw_claims);
	CHECK(asked == 3); /* also at the doorbell without an index */
	CHECK(rtl_detach() == 0);
	t.amd.queue_properties = AMD_QUEUE_PROPERTIES_ENABLE_PROFILING;
	begin(NULL, NULL);
	submit(q, 0x1000);
	fire(take_packet(q));
	CHECK(!is_raw(q) && asked == 3);
	CHECK(!counters->queues_excluded && counters->queues_seen == 1);
	CHECK(rtl_detach() == 0);
}

/* A runtime that does not say which GPU a queue belongs to. */
static void gpus_not_known(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	rt.iterate_agents = two_agents;
	begin("RTL_GPUS", "1-1");
	submit(q, 0x1000);
	fire(take_packet(q));
	CHECK(!is_raw(q) && !counters->queues_excluded && counters->queues_seen == 1);
	CHECK(rtl_detach() == 0);
}

static bool excludes(const char *list, uint64_t agent)
{
	static struct toy_queue t;

	gpus_select(list);
	return gpus_exclude(make_queue(&t, agent));
}

static void lists_of_gpus(void)
{
	rt.iterate_agents = two_agents;
	rt.queue_get_info = agent_of_queue;
	CHECK(!agents_find());
	agents[0].pci_domain = 1;
	agents[0].bdf = 0x8300;
	CHECK(!excludes("", 1) && !excludes("", 2));
	CHECK(!excludes("0-0", 1) && excludes("0-0", 2));
	CHECK(excludes("1-18446744073709551615", 1) && !excludes("5-6,1-1", 2));
	CHECK(!excludes("@4295000832", 1) && excludes("@4295000832", 2) && excludes("@33536", 1));
	CHECK(excludes("7-9", 1) && excludes("7-9", 2) && !excludes("7-9", 3)); /* not an agent of the runtime's */
	for (const char *bad = "x\0" "0-0,\0" "0\0" "0-\0" "@\0" "0-0 1-1\0" "0-0,,1-1\0" "99999999999999999999-1\0"; *bad; bad += strlen(bad) + 1)
		CHECK(!excludes(bad, 1) && !excludes(bad, 2));
}

const struct edge_case gpu_cases[] = {
	{"queues of other GPUs", queues_of_other_gpus},
	{"GPUs not known", gpus_not_known},
	{"lists of GPUs", lists_of_gpus},
	{0},
};
