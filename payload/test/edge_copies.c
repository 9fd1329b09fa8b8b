/* edge_copies.c: copies, on signals that the application reuses before the worker looks. */
#include "edge.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "kinds/copy/hooks.h"
#include "core/shared_hooks.h"
#include "core/session_flags.h"
#include "core/sys.h"
#include "kinds/copy/copy.h"
#include "record/event.h"
#include "record/worker.h"
#include "session/control_block.h"
#include "session/entry.h"
#include "signals/signals.h"
#include "signals/times.h"
#include "toy.h"
#include "wrappers.h"

static const hsa_agent_t host = {0}, gpu = {1};
static hsa_status_t answer; /* of the runtime */
static bool profiled;

static hsa_status_t raw_copy(void *to, hsa_agent_t to_agent, const void *from, hsa_agent_t from_agent, size_t size, uint32_t depends,
			     const hsa_signal_t *on, hsa_signal_t signal)
{
	(void)to, (void)to_agent, (void)from, (void)from_agent, (void)size, (void)depends, (void)on;
	if (answer == HSA_STATUS_SUCCESS)
		toy_copy_begins((struct toy_signal *)signal.handle);
	return answer;
}

static hsa_status_t raw_enable(bool enable) { return profiled = enable, HSA_STATUS_SUCCESS; }
static void raw_set(hsa_signal_t s, hsa_signal_value_t v) { ((amd_signal_t *)s.handle)->value = v; }

static struct toy_signal *begin_copies(void)
{
	hsa_signal_t s;

	copy_hooks[COPY_LINEAR].next = (uintptr_t)raw_copy;
	copy_hooks[COPY_PROFILING].next = (uintptr_t)raw_enable;
	shared_hooks[STORE_RELAXED].next = (uintptr_t)raw_set;
	answer = HSA_STATUS_SUCCESS;
	begin("RTL_TRACE", "memory-copy");
	rt.signal_create(1, 0, NULL, 0, &s);
	return (struct toy_signal *)s.handle;
}

static hsa_signal_t handle(struct toy_signal *s) { return (hsa_signal_t){(uint64_t)s}; }

static hsa_status_t copy_up(struct toy_signal *s, size_t bytes)
{
	static char buffer[64];

	return wrap_copy_linear(buffer, gpu, buffer, host, bytes, 0, NULL, handle(s));
}

static uint64_t untimed(void)
{
	uint64_t n = 0;

	for (int r = 0; r < RTL_REASON_COUNT; r++)
		n += counters->kind[RTL_KIND_MEMORY_COPY].untimed[r];
	return n;
}

static void end_with(uint64_t copies, uint64_t timed)
{
	CHECK(rtl_detach() == 0);
	CHECK(counters->kind[RTL_KIND_MEMORY_COPY].begun == copies && counters->kind[RTL_KIND_MEMORY_COPY].timed == timed && untimed() == copies - timed);
	CHECK(counters->records_lost == 0);
}

/* Its signal is set again, or destroyed, before a thread of ours has seen it fire. */
static void set_again_at_once(void)
{
	enum { COPIES = 3000 };
	struct toy_signal *s = begin_copies();

	for (int i = 0; i < COPIES; i++) {
		CHECK(copy_up(s, 64) == HSA_STATUS_SUCCESS);
		toy_copy_ends(s);
		wrap_store_relaxed(handle(s), 1);
	}
	copy_up(s, 64);
	toy_copy_ends(s);
	wrap_signal_destroy(handle(s));
	end_with(COPIES + 1, COPIES + 1);
}

static hsa_status_t raw_engine_copy(void *to, hsa_agent_t to_agent, const void *from, hsa_agent_t from_agent, size_t size,
				    uint32_t depends, const hsa_signal_t *on, hsa_signal_t signal, int engine, bool force)
{
	CHECK(engine == 4 && force);
	return raw_copy(to, to_agent, from, from_agent, size, depends, on, signal);
}

static hsa_status_t raw_rect(const hsa_pitched_ptr_t *to, const hsa_dim3_t *to_offset, const hsa_pitched_ptr_t *from,
			     const hsa_dim3_t *from_offset, const hsa_dim3_t *range, hsa_agent_t by, hsa_amd_copy_direction_t way,
			     uint32_t depends, const hsa_signal_t *on, hsa_signal_t signal)
{
	(void)to_offset, (void)from_offset, (void)way;
	CHECK(by.handle == gpu.handle);
	return raw_copy(to->base, gpu, from->base, host, range->x, depends, on, signal);
}

/* Only the worker looks; each form of the function. */
static void left_alone(void)
{
	static char buffer[64];
	hsa_pitched_ptr_t place = {buffer, 8, 64};
	hsa_dim3_t origin = {0}, range = {8, 8, 1}, nothing = {8, 0, 1};
	struct toy_signal *s = begin_copies();

	copy_hooks[COPY_ON_ENGINE].next = (uintptr_t)raw_engine_copy;
	copy_hooks[COPY_RECT].next = (uintptr_t)raw_rect;
	copy_up(s, 64);
	toy_copy_ends(s);
	wrap_store_relaxed(handle(s), 1);
	wrap_copy_on_engine(buffer, gpu, buffer, host, 64, 0, NULL, handle(s), 4, true);
	toy_copy_ends(s);
	wrap_store_relaxed(handle(s), 1);
	wrap_copy_rect(&place, &origin, &place, &origin, &nothing, gpu, hsaHostToDevice, 0, NULL, handle(s));
	wrap_copy_rect(&place, &origin, &place, &origin, &range, gpu, hsaHostToDevice, 0, NULL, handle(s));
	toy_copy_ends(s);
	end_with(3, 3);
}

/* No record for a call that copies nothing, is refused, or comes after the detach. */
static void not_copied(void)
{
	struct toy_signal *s = begin_copies();

	copy_up(s, 0);
	answer = HSA_STATUS_ERROR_INVALID_ARGUMENT;
	CHECK(copy_up(s, 64) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
	answer = HSA_STATUS_SUCCESS;
	copy_up(s, 64);
	toy_copy_ends(s);
	end_with(1, 1);
	wrap_store_relaxed(handle(s), 1);
	copy_up(s, 64);
	toy_copy_ends(s);
	CHECK(counters->kind[RTL_KIND_MEMORY_COPY].begun == 1);
}

/* The signal fires, and still has the times of the copy before. */
static void without_times(void)
{
	struct toy_signal *s = begin_copies();

	copy_up(s, 64);
	toy_copy_ends(s);
	wrap_store_relaxed(handle(s), 1);
	uint64_t start = s->sdma_start, end = s->sdma_end;
	copy_up(s, 64);
	s->sdma_start = start;
	s->sdma_end = end;
	s->public.value = 0;
	while (!counters->kind[RTL_KIND_MEMORY_COPY].untimed[RTL_REASON_NO_TIMES]) /* a detach is not held up by it */
		CHECK(worker_round(ROUND_MOST_NS));
	end_with(2, 1);
}

static hsa_status_t (*marked)(hsa_signal_value_t, uint32_t, const hsa_agent_t *, uint64_t, hsa_signal_t *);

static hsa_status_t create_unmarked(hsa_signal_value_t v, uint32_t n, const hsa_agent_t *a, uint64_t f, hsa_signal_t *out)
{
	hsa_status_t status = marked(v, n, a, f, out);

	((struct toy_signal *)out->handle)->mark = 0;
	return status;
}

/* The layout of the runtime's signals is not known: the worker asks the runtime. */
static void unknown_layout(void)
{
	marked = rt.signal_create;
	rt.signal_create = create_unmarked;
	struct toy_signal *s = begin_copies();
	CHECK(!signal_times_known());
	copy_up(s, 64);
	toy_copy_ends(s);
	while (!counters->kind[RTL_KIND_MEMORY_COPY].timed)
		CHECK(worker_round(ROUND_MOST_NS));
	wrap_store_relaxed(handle(s), 1);
	copy_up(s, 64);
	toy_copy_ends(s);
	wrap_store_relaxed(handle(s), 1); /* too early for the worker */
	CHECK(rtl_detach() == 0);
	CHECK(counters->kind[RTL_KIND_MEMORY_COPY].begun == 2 && counters->kind[RTL_KIND_MEMORY_COPY].timed + counters->kind[RTL_KIND_MEMORY_COPY].untimed[RTL_REASON_NO_TIMES] == 2);
}

static void never_ends(void)
{
	struct toy_signal *s = begin_copies();

	copy_up(s, 64);
	CHECK(rtl_detach() == 0);
	CHECK(counters->kind[RTL_KIND_MEMORY_COPY].begun == 1 && counters->kind[RTL_KIND_MEMORY_COPY].untimed[RTL_REASON_NOT_COMPLETED] == 1);
}

static struct event *asleep_with; /* the event that a thread is pushing */
static _Atomic uint32_t sleeps, goes_on;

static void sleep_there(int signal)
{
	(void)signal;
	atomic_store(&sleeps, 1);
	while (!atomic_load(&goes_on))
		sys_yield();
	mprotect(asleep_with, RTL_PAGE, PROT_READ);
}

static void *hand_over(void *unused)
{
	event_push(asleep_with);
	return unused;
}

static pthread_t sleeper(void)
{
	const struct sigaction a = {.sa_handler = sleep_there};
	pthread_t t;

	asleep_with = mmap(NULL, RTL_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(asleep_with != MAP_FAILED && !sigaction(SIGSEGV, &a, NULL) && !pthread_create(&t, NULL, hand_over, NULL));
	while (!atomic_load(&sleeps))
		sys_yield();
	return t;
}

/* The worker gets none of these events, and counts the copies as lost. */
static void behind_a_sleeper(void)
{
	struct toy_signal *s = begin_copies();
	pthread_t t = sleeper();

	copy_up(s, 64);
	wrap_store_relaxed(handle(s), 2);
	copy_up(s, 64);
	toy_copy_ends(s);
	wrap_store_relaxed(handle(s), 1);
	CHECK(rtl_detach() == 0);
	CHECK(counters->kind[RTL_KIND_MEMORY_COPY].begun == 2 && untimed() == 2 && counters->records_lost >= 2);
	atomic_store(&goes_on, 1);
	pthread_join(t, NULL);
}

/* Several copies on one signal: which one writes the times last is not known. */
static void on_one_signal(void)
{
	struct toy_signal *s = begin_copies();

	wrap_store_relaxed(handle(s), 2);
	copy_up(s, 64);
	copy_up(s, 64);
	toy_copy_ends(s);
	toy_copy_ends(s);
	CHECK(rtl_detach() == 0);
	CHECK(counters->kind[RTL_KIND_MEMORY_COPY].begun == 2 && counters->kind[RTL_KIND_MEMORY_COPY].untimed[RTL_REASON_SHARED_SIGNAL] == 2);
}

/* The hooks are in place; no worker, and no copy is noted yet. */
static void arm_without_worker(void)
{
	char err[RTL_TEXT_MAX];

	copy_hooks[COPY_LINEAR].next = (uintptr_t)raw_copy;
	shared_hooks[STORE_RELAXED].next = (uintptr_t)raw_set;
	CHECK(OnLoad(NULL, 0, 0, NULL) && !signals_init() && !events_init(false));
	config.trace |= 1u << RTL_KIND_MEMORY_COPY;
	CHECK(!copy_kind.prepare(err, sizeof err));
	atomic_store(&session_flags.track, 1);
}

/* Two copies on one signal, which is set while the hooks are in place: the first is submitted
 * before copies are noted, and ends first. The second must not get its times. */
static void one_was_asked_for_before(void)
{
	struct event o;
	hsa_signal_t s;

	arm_without_worker();
	rt.signal_create(1, 0, NULL, 0, &s);
	struct toy_signal *toy = (struct toy_signal *)s.handle;
	wrap_store_relaxed(s, 2);
	copy_up(toy, 64);
	copy_kind.open();
	copy_up(toy, 64);
	toy_copy_ends(toy);
	wrap_store_relaxed(s, 1);
	CHECK(copy_kind.close(NULL, UINT64_MAX) == 0);
	CHECK(event_pop(&o) && o.what == COPY_BEGUN);
	CHECK(event_pop(&o) && o.what == EVENT_UNTIMED && o.reason == RTL_REASON_SHARED_SIGNAL);
	CHECK(!event_pop(&o));
}

/* The queue of events is full. */
static void nobody_listens(void)
{
	enum { COPIES = 20000 };
	hsa_signal_t s;

	arm_without_worker();
	copy_kind.open();
	for (int i = 0; i < COPIES; i++) {
		rt.signal_create(1, 0, NULL, 0, &s);
		copy_up((struct toy_signal *)s.handle, 64);
		toy_copy_ends((struct toy_signal *)s.handle);
		CHECK(wrap_signal_destroy(s) == HSA_STATUS_SUCCESS);
	}
	CHECK(copy_kind.close(NULL, UINT64_MAX) == 0);
	struct event o;
	uint64_t noted = 0, timed = 0;
	while (event_pop(&o)) {
		noted += o.what == COPY_BEGUN;
		timed += o.what == EVENT_TIMED;
	}
	CHECK(noted < COPIES && noted + counters->kind[RTL_KIND_MEMORY_COPY].begun == COPIES);
	CHECK(timed + counters->records_lost == COPIES);
	CHECK(counters->records_lost == counters->kind[RTL_KIND_MEMORY_COPY].untimed[RTL_REASON_BACKLOG]);
}

/* After the session profiling is as the application has set it during the session. What it
 * was before cannot be found out: if the application does not set it, it stays on. */
static void profiling_as_wanted(void)
{
	begin_copies();
	CHECK(profiled);
	CHECK(rtl_detach() == 0);
	CHECK(profiled && control->copies_profiled);
	begin_copies();
	wrap_copy_profiling(false);
	CHECK(profiled);
	CHECK(rtl_detach() == 0);
	CHECK(!profiled && !control->copies_profiled);
	begin_copies();
	wrap_copy_profiling(false);
	wrap_copy_profiling(true);
	CHECK(rtl_detach() == 0);
	CHECK(profiled);
	profiled = false;
	begin(NULL, NULL); /* without copies */
	CHECK(rtl_detach() == 0 && !profiled);
}

static hsa_status_t end_meanwhile(bool enable)
{
	profiled = enable;
	copy_hooks[COPY_PROFILING].next = (uintptr_t)raw_enable;
	copy_kind.undo();
	return profiled = enable, HSA_STATUS_SUCCESS;
}

/* The application turns profiling off while the session ends. */
static void profiling_while_it_ends(void)
{
	begin_copies();
	copy_hooks[COPY_PROFILING].next = (uintptr_t)end_meanwhile;
	wrap_copy_profiling(false);
	CHECK(!profiled);
	CHECK(rtl_detach() == 0 && !profiled);
}

const struct edge_case copy_cases[] = {
	{"profiling while it ends", profiling_while_it_ends},
	{"a copy's signal is set again at once", set_again_at_once},
	{"a copy's signal is left alone", left_alone},
	{"no copy", not_copied},
	{"a copy without times", without_times},
	{"copies on signals of unknown layout", unknown_layout},
	{"a copy never ends", never_ends},
	{"copies behind a thread that sleeps", behind_a_sleeper},
	{"copies on one signal", on_one_signal},
	{"a copy was asked for before the attach", one_was_asked_for_before},
	{"nobody listens to copies", nobody_listens},
	{"profiling of copies as wanted", profiling_as_wanted},
	{0},
};
