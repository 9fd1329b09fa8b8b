/*
 * edge_test: what happens once in a blue moon, step by step. Sessions are begun
 * and ended by the payload's own state.c; slots, grace and runtime are played.
 * Each case is a process of its own, and a case that hangs fails.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agents.h"
#include "control.h"
#include "entry.h"
#include "grace.h"
#include "hooks.h"
#include "names.h"
#include "publish.h"
#include "ranges.h"
#include "session.h"
#include "signals.h"
#include "worker.h"
#include "wrappers.h"
#include "toy.h"

#define HANGS_AFTER_S 60
#define RING 64
#define CHECK(x)                                                             \
	do {                                                                 \
		if (!(x)) {                                                  \
			printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #x); \
			exit(1);                                             \
		}                                                            \
	} while (0)

/* --- what hooks.c, runtime.c, ranges.c and grace.c own in the payload -------- */

struct runtime rt;
_Atomic(uintptr_t) hook_next[HOOK_COUNT];

int hooks_find(char *err, size_t len) { return (void)err, (void)len, 0; }
uint32_t hooks_index_ranges(struct rtl_range *out, uint32_t max) { return (void)out, (void)max, 0; }
void hooks_patch(void) {}
void hooks_restore(enum hook_class class) { (void)class; }
struct hooks_tally hooks_tally(void) { return (struct hooks_tally){0}; }
int runtime_find(const char *path, char *err, size_t len) { return (void)path, (void)err, (void)len, 0; }
bool runtime_open(void) { return true; }
int runtime_load_extension(char *err, size_t len) { return (void)err, (void)len, 0; }
bool text_of(const void *address, struct rtl_range *out) { return (void)address, (void)out, false; }
int grace_wait(struct rtl_grace *block, uint64_t timeout_ns, const uint32_t *cancel, uint32_t *left)
{
	return (void)block, (void)timeout_ns, (void)cancel, (void)left, 0;
}

/* --- a queue, and its packet processor by hand -------------------------------- */

struct toy_queue {
	_Alignas(256) amd_queue_t amd;
	amd_signal_t doorbell;
	hsa_kernel_dispatch_packet_t ring[RING];
};

static hsa_queue_t *make_queue(struct toy_queue *t, uint64_t id)
{
	hsa_queue_t *q = &t->amd.hsa_queue;

	*t = (struct toy_queue){0};
	q->base_address = t->ring;
	q->size = RING;
	q->id = id;
	q->doorbell_signal.handle = (uint64_t)&t->doorbell;
	t->amd.queue_properties = AMD_QUEUE_PROPERTIES_ENABLE_PROFILING;
	t->doorbell.kind = AMD_SIGNAL_KIND_DOORBELL;
	t->doorbell.queue_ptr = &t->amd;
	for (int i = 0; i < RING; i++)
		t->ring[i].header = HSA_PACKET_TYPE_INVALID;
	return q;
}

static amd_queue_t *amd_of(const hsa_queue_t *q) { return (amd_queue_t *)q; }

static uint64_t raw_add(const hsa_queue_t *q, uint64_t n)
{
	return __atomic_fetch_add(&amd_of(q)->write_dispatch_id, n, __ATOMIC_SEQ_CST);
}

static uint64_t raw_load(const hsa_queue_t *q)
{
	return __atomic_load_n(&amd_of(q)->write_dispatch_id, __ATOMIC_SEQ_CST);
}

static void raw_store(hsa_signal_t s, hsa_signal_value_t v) { (void)s, (void)v; }
static hsa_status_t nothing(void) { return HSA_STATUS_SUCCESS; }

static hsa_status_t destroy_queue(hsa_queue_t *q) { return (void)q, HSA_STATUS_SUCCESS; }

static hsa_status_t one_agent(hsa_status_t (*note)(hsa_agent_t, void *), void *data)
{
	return note((hsa_agent_t){1}, data);
}

static hsa_status_t agent_info(hsa_agent_t a, hsa_agent_info_t what, void *out)
{
	(void)a;
	if (what == HSA_AGENT_INFO_DEVICE)
		*(hsa_device_type_t *)out = HSA_DEVICE_TYPE_GPU;
	return HSA_STATUS_SUCCESS;
}

static void set_up(void)
{
	toy_runtime();
	rt.init = nothing;
	rt.iterate_agents = one_agent;
	rt.agent_get_info = agent_info;
	hook_next[HOOK_SHUT_DOWN] = (uintptr_t)nothing;
	hook_next[HOOK_QUEUE_DESTROY] = (uintptr_t)destroy_queue;
	hook_next[HOOK_INDEX_ADD_SCRELEASE] = (uintptr_t)raw_add;
	hook_next[HOOK_INDEX_LOAD_RELAXED] = (uintptr_t)raw_load;
	hook_next[HOOK_STORE_SCRELEASE] = (uintptr_t)raw_store;
	hook_next[HOOK_SIGNAL_DESTROY] = (uintptr_t)destroy_signal;
}

static void begin(const char *name, const char *value)
{
	char env[256] = {name ? 1 : 0};
	size_t len = 4;

	if (name)
		len += (size_t)sprintf(env + len, "%s", name) + 1;
	if (name)
		len += (size_t)sprintf(env + len, "%s", value) + 1;
	int r = rtl_attach(env, len);
	if (r)
		printf("attach: %d, %s\n", r, control->error_text);
	CHECK(r == 0);
}

static void submit(hsa_queue_t *q, uint64_t kernel)
{
	uint64_t at = wrap_index_add_screlease(q, 1);
	hsa_kernel_dispatch_packet_t *p = (hsa_kernel_dispatch_packet_t *)q->base_address + at % RING;

	p->kernel_object = kernel;
	p->completion_signal.handle = 0;
	__atomic_store_n(&p->header, HSA_PACKET_TYPE_KERNEL_DISPATCH, __ATOMIC_RELEASE);
	wrap_store_screlease(q->doorbell_signal, (hsa_signal_value_t)at);
}

/* The hardware executes the next packet; its signal is returned before it fires. */
static amd_signal_t *take_packet(hsa_queue_t *q)
{
	uint64_t at = amd_of(q)->read_dispatch_id;
	hsa_kernel_dispatch_packet_t *p = (hsa_kernel_dispatch_packet_t *)q->base_address + at % RING;
	amd_signal_t *s = (amd_signal_t *)p->completion_signal.handle;

	CHECK(at < raw_load(q));
	__atomic_store_n(&p->header, HSA_PACKET_TYPE_INVALID, __ATOMIC_RELEASE);
	__atomic_store_n(&amd_of(q)->read_dispatch_id, at + 1, __ATOMIC_RELEASE);
	return s;
}

static void fire(amd_signal_t *s)
{
	uint64_t now = now_boottime();

	s->start_ts = now;
	s->end_ts = now + 10;
	__atomic_fetch_sub(&s->value, 1, __ATOMIC_SEQ_CST);
}

/* --- cases ---------------------------------------------------------------------- */

/* An application that makes and destroys queues, each at an address of its own,
 * leaves places in the table; a search for a queue that is not there still ends. */
static void queues_come_and_go(void)
{
	enum { QUEUES = 8000 };
	struct toy_queue *t = aligned_alloc(256, sizeof *t);
	char *addresses = map_memory((size_t)QUEUES * 4096);
	bool foreign;

	begin("RTL_SIGNAL_POOL", "16");
	for (int i = 0; i < QUEUES; i++) {
		hsa_queue_t *q = (hsa_queue_t *)(addresses + (size_t)i * 4096);
		uint64_t page = (uint64_t)q & ~4095ull;

		make_queue(t, (uint64_t)i);
		memcpy(q, &t->amd, sizeof t->amd);
		t->doorbell.queue_ptr = (amd_queue_t *)q;
		struct queue *s = queue_get(q, &foreign);
		for (int n = 0; !s && n < 10000; n++, s = queue_get(q, &foreign))
			worker_round(NS_PER_S); /* recycled a round after its end */
		CHECK(s && !foreign);
		CHECK(queue_lock_wait(s, NS_PER_S));
		queue_forget(s);
		queue_unlock(s);
		atomic_store(&s->destroyed, 1);
		forget_memory((void *)page, 4096);
	}
	make_queue(t, 1);
	CHECK(!queue_find(&t->amd.hsa_queue));
	CHECK(rtl_detach() == 0);
}

/* States of more queues than the shelf holds are used again in later sessions. */
static void many_queues_again(void)
{
	enum { QUEUES = 150, SESSIONS = 12 };
	struct toy_queue *t = aligned_alloc(256, QUEUES * sizeof *t);
	bool foreign;

	for (int session = 0; session < SESSIONS; session++) {
		begin("RTL_SIGNAL_POOL", "16");
		for (uint64_t i = 0; i < QUEUES; i++) {
			hsa_queue_t *q = make_queue(&t[i], i);

			while (!queue_get(q, &foreign))
				worker_round(NS_PER_S);
		}
		CHECK(rtl_detach() == 0);
	}
	CHECK(atomic_load(&queue_count) < QUEUES + 64);
}

/* Every session says which queues it does not record. */
static void foreign_queues_in_every_session(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);
	uint64_t n;

	t.doorbell.kind = AMD_SIGNAL_KIND_USER;
	for (int session = 0; session < 2; session++) {
		begin(NULL, NULL);
		wrap_index_add_screlease(q, 1);
		wrap_index_add_screlease(q, 1);
		n = counters->queues_foreign;
		CHECK(rtl_detach() == 0);
		CHECK(n == 1);
	}
}

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

/* A kernel that cannot be named holds up no other. */
static void odd_kernel_names(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	rt.loader.hsa_ven_amd_loader_query_executable = some_executable;
	rt.iterate_symbols = three_symbols;
	rt.symbol_get_info = odd_names;
	begin(NULL, NULL);
	for (uint64_t kernel = 0x1000; kernel <= 0x3000; kernel += 0x1000) {
		submit(q, kernel);
		fire(take_packet(q));
	}
	CHECK(rtl_detach() == 0);
	CHECK(counters->timed_pool == 3);
	CHECK(counters->names_resolved == 2);
}

static amd_signal_t *running;

static hsa_status_t slow_queue_destroy(hsa_queue_t *q)
{
	(void)q;
	sys_sleep_ns(300 * NS_PER_MS);
	fire(running); /* the runtime lets what runs finish */
	return HSA_STATUS_SUCCESS;
}

/* A signal is not used again while the destruction of its queue goes on. */
static void slow_destruction(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	hook_next[HOOK_QUEUE_DESTROY] = (uintptr_t)slow_queue_destroy;
	begin(NULL, NULL);
	submit(q, 0x1000);
	running = take_packet(q);
	wrap_queue_destroy(q);
	CHECK(rtl_detach() == 0);
	CHECK(counters->timed_pool == 1);
}

/* exit() in a signal handler, in the middle of a publication. */
static void exit_inside_doorbell(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	begin(NULL, NULL);
	submit(q, 0x1000);
	fire(take_packet(q));
	CHECK(queue_trylock(queue_find(q)));
	wrap_queue_destroy(q); /* an exit handler */
	OnUnload();
	CHECK(control->last_end == RTL_END_SHUT_DOWN);
	CHECK(counters->timed_pool == 1);
}

/* A thread that stays in a doorbell puts a detach off, not out of reach. */
static void detach_waits_for_doorbell(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);

	begin(NULL, NULL);
	submit(q, 0x1000);
	fire(take_packet(q));
	struct queue *s = queue_find(q);
	CHECK(queue_trylock(s));
	CHECK(rtl_detach() == -EBUSY);
	queue_unlock(s);
	submit(q, 0x1000);
	fire(take_packet(q));
	CHECK(rtl_detach() == 0);
	CHECK(counters->timed_pool == 2);
	begin(NULL, NULL);
	CHECK(rtl_detach() == 0);
}

static void *detach(void *unused)
{
	rtl_detach();
	return unused;
}

/* The runtime does not end under a detach that waits for a slow kernel. */
static void shut_down_during_drain(void)
{
	static struct toy_queue t;
	hsa_queue_t *q = make_queue(&t, 1);
	pthread_t other;

	begin("RTL_DRAIN_TIMEOUT_MS", "60000");
	submit(q, 0x1000);
	take_packet(q); /* and it goes on for ever */
	pthread_create(&other, NULL, detach, NULL);
	while (control->state != RTL_STATE_DRAINING)
		sys_yield();
	sys_sleep_ns(20 * NS_PER_MS); /* into the drain */
	wrap_shut_down();
	CHECK(control->state == RTL_STATE_DORMANT);
	pthread_join(other, NULL);
}

static void *shut_down_cancelled(void *unused)
{
	pthread_cancel(pthread_self()); /* takes effect at the next cancellation point */
	wrap_shut_down();
	return unused;
}

/* A thread that is to be cancelled ends the session, and then itself. */
static void cancelled_in_shut_down(void)
{
	pthread_t other;

	begin(NULL, NULL);
	pthread_create(&other, NULL, shut_down_cancelled, NULL);
	pthread_join(other, NULL);
	CHECK(control->state == RTL_STATE_DORMANT);
	begin(NULL, NULL);
	CHECK(rtl_detach() == 0);
}

/* A child of a process in which HSA_TOOLS_LIB has loaded the payload. */
static void child_of_tools_lib(void)
{
	struct rtl_status s;
	int status;

	CHECK(OnLoad(NULL, 0, 0, NULL));
	pid_t child = fork();
	if (!child) {
		CHECK(!OnLoad(NULL, 0, 0, NULL));
		CHECK(rtl_status(&s) == 0 && s.control_tid == 0);
		CHECK(rtl_detach() == -ENOENT);
		OnUnload();
		_exit(0);
	}
	waitpid(child, &status, 0);
	CHECK(status == 0);
}

#define SHARED_ROUNDS 20000
static struct {
	struct queue s[2];
	hsa_signal_t signal;
	uint64_t ref[2];
	uint32_t reason[2];
	_Atomic uint32_t arrived;
} shared;

static bool is_any(const struct outcome *o) { return o; }

static void *arm_shared(void *number)
{
	uint64_t me = (uint64_t)number;
	struct entry e = {0};

	for (uint32_t round = 1; round <= SHARED_ROUNDS; round++) {
		atomic_fetch_add(&shared.arrived, 1);
		for (int i = 0; atomic_load(&shared.arrived) < 4 * round - 2; i++)
			if (i > 2000) /* at one moment, if there are two processors */
				sys_yield();
		shared.reason[me] = signal_arm(&shared.s[me], shared.signal.handle, &e, &shared.ref[me]);
		atomic_fetch_add(&shared.arrived, 1);
		while (atomic_load(&shared.arrived) < 4 * round)
			sys_yield();
		if (me == 0) {
			amd_signal_t *hw = (amd_signal_t *)shared.signal.handle;
			struct outcome o;

			hw->start_ts++, hw->end_ts++;
			hw->value = 1; /* one of both has ended */
			for (int i = 0; i < 2; i++)
				CHECK(shared.reason[i] || signal_poll(shared.ref[i], is_any, &o) != SIGNAL_FIRED);
			signal_before_set(shared.signal.handle);
			hw->value = 2;
			while (handoff_pop(&o))
				;
		}
	}
	return NULL;
}

/* Two queues publish at one moment on one signal: neither is timed as if alone. */
static void two_queues_one_signal(void)
{
	pthread_t other;

	CHECK(OnLoad(NULL, 0, 0, NULL) && !signals_init() && !handoff_init());
	create_signal(2, 0, NULL, 0, &shared.signal);
	signal_note_count(shared.signal.handle, 2);
	for (int i = 0; i < 2; i++)
		atomic_store(&shared.s[i].word, WORD_VIRT);
	pthread_create(&other, NULL, arm_shared, (void *)1);
	arm_shared(NULL);
	pthread_join(other, NULL);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"queues come and go", queues_come_and_go},
	{"many queues again", many_queues_again},
	{"foreign queues in every session", foreign_queues_in_every_session},
	{"odd kernel names", odd_kernel_names},
	{"slow destruction", slow_destruction},
	{"exit inside a doorbell", exit_inside_doorbell},
	{"detach waits for a doorbell", detach_waits_for_doorbell},
	{"shut down during a drain", shut_down_during_drain},
	{"cancelled in shut down", cancelled_in_shut_down},
	{"child of HSA_TOOLS_LIB", child_of_tools_lib},
	{"two queues, one signal", two_queues_one_signal},
};

int main(int argc, char **argv)
{
	int failed = 0, count = sizeof cases / sizeof *cases;

	for (int i = 0; i < count; i++) {
		int status;

		if (argc > 1 && !strstr(cases[i].name, argv[1]))
			continue;
		fflush(stdout);
		pid_t child = fork();
		if (!child) {
			alarm(HANGS_AFTER_S);
			set_up();
			cases[i].run();
			fflush(stdout);
			_exit(0);
		}
		waitpid(child, &status, 0);
		if (!status)
			continue;
		printf("%s: %s\n", cases[i].name, WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "hangs" : "failed");
		failed++;
	}
	printf("edge_test: %d cases, %d failures\n", count, failed);
	return failed != 0;
}
