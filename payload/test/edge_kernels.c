/* edge_kernels.c: kernels, and the executables that they belong to. */
#include "edge.h"

#include <string.h>

#include "core/shared_hooks.h"
#include "core/session_flags.h"
#include "record/worker.h"
#include "session/control_block.h"
#include "session/entry.h"
#include "wrappers.h"

static hsa_status_t some_executable(const void *p, hsa_executable_t *e)
{
	(void)p;
	e->handle = 1;
	return HSA_STATUS_SUCCESS;
}

static hsa_status_t three_symbols(hsa_executable_t e, hsa_agent_t a,
				  hsa_status_t (*note)(hsa_executable_t, hsa_agent_t, hsa_executable_symbol_t, void *), void *data)
{
	for (uint64_t i = 1; i <= 3; i++)
		note(e, a, (hsa_executable_symbol_t){i * 0x1000}, data);
	return HSA_STATUS_SUCCESS;
}

/* Kernel 0x1000 has a name too long for a record, 0x2000 none, 0x3000 one. */
static hsa_status_t odd_names(hsa_executable_symbol_t s, hsa_executable_symbol_info_t what, void *out)
{
	uint32_t len = s.handle == 0x1000 ? 40000 : s.handle == 0x2000 ? 0 : 4;

	if (what == HSA_EXECUTABLE_SYMBOL_INFO_TYPE)
		*(hsa_symbol_kind_t *)out = HSA_SYMBOL_KIND_KERNEL;
	if (what == HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT)
		*(uint64_t *)out = s.handle;
	if (what == HSA_EXECUTABLE_SYMBOL_INFO_NAME_LENGTH)
		*(uint32_t *)out = len;
	if (what == HSA_EXECUTABLE_SYMBOL_INFO_NAME)
		memset(out, 'n', len);
	return HSA_STATUS_SUCCESS;
}

static void loader_has(__typeof__(some_executable) *query, __typeof__(three_symbols) *iterate)
{
	rt.loader.hsa_ven_amd_loader_query_executable = query;
	rt.iterate_symbols = iterate;
	rt.symbol_get_info = odd_names;
}

/* A kernel without a name delays no other. */
static void odd_kernel_names(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	loader_has(some_executable, three_symbols);
	begin(NULL, NULL);
	for (uint64_t kernel = 0x1000; kernel <= 0x3000; kernel += 0x1000) {
		submit(q, kernel);
		fire(take_packet(q));
	}
	CHECK(rtl_detach() == 0);
	CHECK(counters->timed_pool == 3);
	CHECK(counters->names_resolved == 2);
}

static _Atomic uint32_t queries, loader_busy;

static hsa_status_t slow_query(const void *p, hsa_executable_t *e)
{
	atomic_fetch_add(&queries, 1);
	while (atomic_load(&loader_busy))
		sys_sleep_ns(NS_PER_MS); /* like a thread that waits for a lock */
	return some_executable(p, e);
}

static hsa_status_t destroy_code(hsa_executable_t e) { return (void)e, HSA_STATUS_SUCCESS; }

/* The worker waits in the loader while an executable is destroyed: it asks for the names of
 * its kernels again afterwards. */
static void destroyed_while_the_loader_is_busy(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	loader_has(slow_query, three_symbols);
	shared_hooks[EXECUTABLE_DESTROY].next = (uintptr_t)destroy_code;
	begin(NULL, NULL);
	submit(q, 0x3000);
	fire(take_packet(q));
	CHECK(comes(&counters->timed_pool, 1) && atomic_load(&queries) == 1);
	atomic_store(&loader_busy, 1);
	submit(q, 0x9000);
	fire(take_packet(q));
	while (atomic_load(&queries) != 2)
		sys_yield();
	CHECK(wrap_executable_destroy((hsa_executable_t){1}) == HSA_STATUS_SUCCESS);
	atomic_store(&loader_busy, 0);
	CHECK(comes(&counters->timed_pool, 2) && atomic_load(&queries) == 2);
	submit(q, 0x3000);
	fire(take_packet(q));
	CHECK(comes(&counters->timed_pool, 3) && atomic_load(&queries) == 3);
	CHECK(rtl_detach() == 0);
}

static _Atomic uint32_t iterating;

static bool has_cpu_for(uint64_t ns)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID) < ns;
}

static hsa_status_t slow_symbols(hsa_executable_t e, hsa_agent_t a,
				 hsa_status_t (*note)(hsa_executable_t, hsa_agent_t, hsa_executable_symbol_t, void *), void *data)
{
	static _Atomic uint32_t again;
	uint64_t from = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	atomic_store(&iterating, 1);
	while (!atomic_load(&again) && has_cpu_for(from + 4 * NS_PER_S))
		;
	atomic_store(&again, 1);
	hsa_status_t status = three_symbols(e, a, note, data);
	atomic_store(&iterating, 0);
	return status;
}

static hsa_status_t free_code(hsa_executable_t e)
{
	(void)e;
	CHECK(!atomic_load(&iterating));
	return HSA_STATUS_SUCCESS;
}

/* The worker is in the loader, and gets little CPU time. */
static void destroyed_while_the_worker_is_slow(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	loader_has(some_executable, slow_symbols);
	shared_hooks[EXECUTABLE_DESTROY].next = (uintptr_t)free_code;
	begin("RTL_DRAIN_TIMEOUT_MS", "30000");
	submit(q, 0x3000);
	fire(take_packet(q));
	while (!atomic_load(&iterating))
		sys_yield();
	CHECK(wrap_executable_destroy((hsa_executable_t){1}) == HSA_STATUS_SUCCESS);
	CHECK(comes(&counters->timed_pool, 1));
	CHECK(rtl_detach() == 0);
}

const struct edge_case kernel_cases[] = {
	{"odd kernel names", odd_kernel_names},
	{"destroyed while the loader is busy", destroyed_while_the_loader_is_busy},
	{"destroyed while the worker is slow", destroyed_while_the_worker_is_slow},
	{0},
};
