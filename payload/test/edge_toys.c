/* edge_toys.c: the parts of the payload and of glibc that the cases replace. */
#define _GNU_SOURCE
#include "edge.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "kinds/dispatch/hooks.h"
#include "core/shared_hooks.h"
#include "core/ranges.h"
#include "record/ring.h"
#include "record/worker.h"
#include "session/control_block.h"
#include "session/entry.h"
#include "session/quiesce.h"
#include "toy.h"
#include "wrappers.h"

/* --- what hooks.c, runtime.c, ranges.c and quiesce.c own in the payload -------- */

struct runtime rt;

int hooks_find(const struct hook_table *t, char *err, size_t len) { return (void)t, (void)err, (void)len, 0; }
uint32_t hooks_grace_ranges(const struct hook_table *t, struct rtl_range *out, uint32_t n, uint32_t max)
{
	return (void)t, (void)out, (void)max, n;
}
void (*at_patch)(void), (*at_grace)(void);
int grace_result;
void hooks_patch(const struct hook_table *t)
{
	if (at_patch && t == &shared_hook_table)
		at_patch();
}
void hooks_restore(const struct hook_table *t) { (void)t; }
void hooks_add_tally(const struct hook_table *t, struct hooks_tally *sum) { (void)t, (void)sum; }
int runtime_find(const char *path, char *err, size_t len) { return (void)path, (void)err, (void)len, 0; }
_Atomic uint32_t runtime_closed;
bool runtime_open(void) { return !atomic_load(&runtime_closed); }
int runtime_load_extension(char *err, size_t len) { return (void)err, (void)len, 0; }
bool text_of(const void *address, struct rtl_range *out) { return (void)address, (void)out, false; }
int grace_wait(const struct rtl_range *of, uint32_t of_count, uint64_t timeout_ns, const uint32_t *cancel, uint32_t *left)
{
	(void)of, (void)of_count, (void)timeout_ns, (void)cancel, (void)left;
	if (at_grace)
		at_grace();
	return grace_result;
}

/* --- what may come in between (the linker puts these before the payload's own) -- */

_Thread_local void (*after_lock)(void);
extern __typeof__(mutex_lock) __real_mutex_lock, __wrap_mutex_lock;

int __wrap_mutex_lock(struct mutex *m, uint64_t timeout_ns)
{
	void (*then)(void) = after_lock;
	int r = __real_mutex_lock(m, timeout_ns);

	after_lock = NULL;
	if (then && !r)
		then();
	return r;
}

bool no_read_memory;
extern __typeof__(read_memory) __real_read_memory, __wrap_read_memory;

long __wrap_read_memory(uint64_t address, void *buf, size_t size)
{
	return no_read_memory ? -EPERM : __real_read_memory(address, buf, size);
}

/* --- what glibc might do (the Makefile puts these in the places of its own) ---- */

#undef pthread_create
#undef pthread_tryjoin_np
extern __typeof__(toy_create) pthread_create;
extern __typeof__(toy_tryjoin) pthread_tryjoin_np;

_Atomic uint32_t threads_held, held_threads_ended;

struct held {
	void *(*run)(void *);
	void *data;
};

static void *begin_late(void *data)
{
	struct held h = *(struct held *)data;

	free(data);
	while (atomic_load(&threads_held))
		sys_yield();
	void *result = h.run(h.data);
	atomic_fetch_add(&held_threads_ended, 1);
	return result;
}

int toy_create(pthread_t *out, const pthread_attr_t *attr, void *(*run)(void *), void *data)
{
	if (!atomic_load(&threads_held))
		return pthread_create(out, attr, run, data);
	struct held *h = malloc(sizeof *h);
	*h = (struct held){run, data};
	return pthread_create(out, attr, begin_late, h);
}

/* Some programs have as much: it is taken from each thread's stack. */
__thread char much_thread_local[1 << 20];

/* A cancellation point, as in an older glibc. */
int toy_tryjoin(pthread_t t, void **result)
{
	pthread_testcancel();
	return pthread_tryjoin_np(t, result);
}

/* --- a queue, and its packet processor by hand -------------------------------- */

hsa_queue_t *make_queue(struct toy_queue *t, uint64_t id)
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

static uint64_t raw_cas(const hsa_queue_t *q, uint64_t expected, uint64_t value)
{
	__atomic_compare_exchange_n(&amd_of(q)->write_dispatch_id, &expected, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return expected;
}

static void raw_set(const hsa_queue_t *q, uint64_t value)
{
	__atomic_store_n(&amd_of(q)->write_dispatch_id, value, __ATOMIC_SEQ_CST);
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

void set_up(void)
{
	toy_runtime();
	rt.init = nothing;
	rt.iterate_agents = one_agent;
	rt.agent_get_info = agent_info;
	shared_hooks[SHUT_DOWN].next = (uintptr_t)nothing;
	shared_hooks[QUEUE_DESTROY].next = (uintptr_t)destroy_queue;
	dispatch_hooks[INDEX_ADD_SCRELEASE].next = (uintptr_t)raw_add;
	dispatch_hooks[INDEX_CAS_SCRELEASE].next = (uintptr_t)raw_cas;
	dispatch_hooks[INDEX_STORE_SCRELEASE].next = (uintptr_t)raw_set;
	dispatch_hooks[INDEX_LOAD_RELAXED].next = (uintptr_t)raw_load;
	shared_hooks[STORE_SCRELEASE].next = (uintptr_t)raw_store;
	shared_hooks[SIGNAL_DESTROY].next = (uintptr_t)destroy_signal;
}

static size_t add_setting(char *env, size_t len, const char *name, const char *value)
{
	env[0]++;
	return len + (size_t)sprintf(env + len, "%s%c%s", name, 0, value) + 1;
}

void begin(const char *name, const char *value)
{
	char env[256] = {0};
	size_t len = add_setting(env, 4, "RTL_RECORDER_TIMEOUT_MS", "600000"); /* there is no recorder: the case ends the session */

	if (name)
		len = add_setting(env, len, name, value);
	int r = rtl_attach(env, len);
	if (r)
		printf("attach: %d, %s\n", r, control->error_text);
	CHECK(r == 0);
}

static void *detach(void *unused)
{
	CHECK(rtl_detach() == 0);
	return unused;
}

pthread_t begin_detach(void)
{
	pthread_t detaching;

	CHECK(!pthread_create(&detaching, NULL, detach, NULL));
	while (!__atomic_load_n(&control->detached_ns, __ATOMIC_ACQUIRE))
		sys_yield();
	return detaching;
}

static void submit_packet(hsa_queue_t *q, uint16_t header, uint64_t kernel, amd_signal_t *signal)
{
	uint64_t at = wrap_index_add_screlease(q, 1);
	hsa_kernel_dispatch_packet_t *p = (hsa_kernel_dispatch_packet_t *)q->base_address + at % RING;

	p->kernel_object = kernel;
	p->completion_signal.handle = (uint64_t)signal;
	__atomic_store_n(&p->header, header, __ATOMIC_RELEASE);
	wrap_store_screlease(q->doorbell_signal, (hsa_signal_value_t)at);
}

void submit(hsa_queue_t *q, uint64_t kernel)
{
	submit_packet(q, HSA_PACKET_TYPE_KERNEL_DISPATCH, kernel, NULL);
}

void submit_on(hsa_queue_t *q, uint16_t header, amd_signal_t *signal)
{
	submit_packet(q, header, 0x1000, signal);
}

/* The worker publishes it if it had the lock when the doorbell rang. */
static bool is_published(hsa_queue_t *q, uint64_t at)
{
	uint64_t until = now_monotonic() + ROUND_MOST_NS;

	while (at >= raw_load(q) && now_monotonic() < until)
		sys_yield();
	return at < raw_load(q);
}

amd_signal_t *take_packet(hsa_queue_t *q)
{
	uint64_t at = amd_of(q)->read_dispatch_id;
	hsa_kernel_dispatch_packet_t *p = (hsa_kernel_dispatch_packet_t *)q->base_address + at % RING;

	CHECK(is_published(q, at));
	amd_signal_t *s = (amd_signal_t *)p->completion_signal.handle;
	__atomic_store_n(&p->header, HSA_PACKET_TYPE_INVALID, __ATOMIC_RELEASE);
	__atomic_store_n(&amd_of(q)->read_dispatch_id, at + 1, __ATOMIC_RELEASE);
	return s;
}

void fire(amd_signal_t *s)
{
	uint64_t now = now_boottime();

	s->start_ts = now;
	s->end_ts = now + 10;
	__atomic_fetch_sub(&s->value, 1, __ATOMIC_SEQ_CST);
}

bool comes(const uint64_t *counter, uint64_t value)
{
	uint64_t until = now_monotonic() + ROUND_MOST_NS;

	while (__atomic_load_n(counter, __ATOMIC_RELAXED) != value && now_monotonic() < until)
		worker_round(ROUND_MOST_NS);
	return __atomic_load_n(counter, __ATOMIC_RELAXED) == value;
}

struct rtl_ring *map_ring(void)
{
	uint64_t size, inode;
	int fd;

	ring_describe(&size, &inode, &fd);
	void *ring = mmap(NULL, RTL_PAGE + size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(ring != MAP_FAILED);
	return ring;
}

void free_ring(struct rtl_ring *ring)
{
	__atomic_store_n(&ring->tail, __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
}
