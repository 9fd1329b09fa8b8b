/* Executing AQL packets: launches, completions, barriers. */
#include "engine.h"

enum {
	PACKETS_PER_STEP = 256,       /* then the next queue's turn */
	BARRIER_NS = TICK_NS,
	DURATION_UNIT_NS = 64,        /* of the top 16 bits of reserved2 */
	DURATION_FROM_GRID = 0xffff,  /* there: grid_size_x is the duration in microseconds */
	MAX_LATE_STAMPS = 256,
	LATE_STAMP_MIN_NS = 300,
	LATE_STAMP_SPREAD_NS = 1700,
};

/*
 * reserved2 is the workload's when reserved0 has the tag: HIP 5.7 leaves its own
 * there. The id is its low 48 bits, or those of a first kernel argument whose
 * top half-word is the tag. An extended dispatch has a signal there: its kernarg_address is the
 * workload's.
 */
static const uint64_t id_mask = 0xffffffffffffull;
static const uint64_t tag = 0x5254;

static uint64_t round_down(uint64_t ns)
{
	return ns - ns % TICK_NS;
}

/* ---- completion ---- */

/* SOFTGPU_MODE=ts-late: times that are written after the decrement. A FIFO; due times never decrease. */
static struct late_stamp {
	amd_signal_t *signal;
	uint64_t start_ticks, end_ticks, due_ns;
} late[MAX_LATE_STAMPS];
static unsigned late_first, late_count;

static void write_stamps(amd_signal_t *s, uint64_t start_ticks, uint64_t end_ticks)
{
	__atomic_store_n(&s->start_ts, start_ticks, __ATOMIC_RELAXED);
	__atomic_store_n(&s->end_ts, end_ticks, __ATOMIC_RELAXED);
}

void aql_late_stamps(struct round *r, bool all)
{
	for (; late_count; late_first = (late_first + 1) % MAX_LATE_STAMPS, late_count--) {
		struct late_stamp *l = &late[late_first];

		if (!all && l->due_ns > r->now_ns) {
			round_due(r, l->due_ns);
			return;
		}
		write_stamps(l->signal, l->start_ticks, l->end_ticks);
	}
}

void aql_forget_after_fork(void)
{
	late_count = 0;
}

static void stamp_late(struct gpu *g, struct late_stamp stamp)
{
	struct round now = { .now_ns = now_ns() };

	if (late_count == MAX_LATE_STAMPS)
		aql_late_stamps(&now, true);
	stamp.due_ns = now.now_ns + LATE_STAMP_MIN_NS + engine_random(g, LATE_STAMP_SPREAD_NS);
	if (late_count) {
		const struct late_stamp *last = &late[(late_first + late_count - 1) % MAX_LATE_STAMPS];

		if (stamp.due_ns < last->due_ns)
			stamp.due_ns = last->due_ns;
	}
	late[(late_first + late_count++) % MAX_LATE_STAMPS] = stamp;
}

static bool profiled(const struct queue *q)
{
	return q->amd->queue_properties & AMD_QUEUE_PROPERTIES_ENABLE_PROFILING;
}

static void signal_completion(struct gpu *g, struct queue *q, amd_signal_t *s, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t start_ticks = gpu_ticks(q->gpu, start_ns);
	uint64_t end_ticks = gpu_ticks(q->gpu, end_ns);
	uint64_t *mailbox;
	uint32_t event;

	if (!s)
		return;
	/* Read before the decrement: the host may free the signal right after. */
	mailbox = (uint64_t *)s->event_mailbox_ptr;
	event = s->event_id;
	if (profiled(q) && !config.ts_late)
		write_stamps(s, start_ticks, end_ticks);
	__atomic_fetch_sub(&s->value, 1, __ATOMIC_SEQ_CST);
	if (profiled(q) && config.ts_late)
		stamp_late(g, (struct late_stamp){ s, start_ticks, end_ticks, 0 });
	if (mailbox) {
		__atomic_store_n(mailbox, event, __ATOMIC_RELEASE);
		event_set(event);
	}
}

static void log_packet(struct queue *q, enum truth_kind kind, const struct running *k, uint16_t flags)
{
	struct truth_record *t = truth_append(kind, q);

	if (!t)
		return;
	t->flags = flags | (k->signal && profiled(q) ? TRUTH_PROFILED : 0);
	t->packet = k->packet;
	t->unique_id = k->unique_id;
	t->start_ns = k->start_ns;
	t->end_ns = k->end_ns;
	t->signal = (uint64_t)k->signal;
	t->value[0] = k->object;
	t->grid_x = k->grid[0];
	t->value[1] = k->grid[1] | (uint64_t)k->grid[2] << 32;
	t->flags |= k->extended ? TRUTH_EXTENDED : 0;
	if (k->kernel) {
		t->name_id = k->kernel->name_id;
		t->flags |= kernel_is_rocr(k->kernel->kind) ? TRUTH_INTERNAL : 0;
	}
}

static void finish(struct gpu *g, struct queue *q, const struct running *k)
{
	log_packet(q, TRUTH_KERNEL, k, 0);
	signal_completion(g, q, k->signal, k->start_ns, k->end_ns);
}

static void finish_due(struct gpu *g, struct queue *q, struct round *r)
{
	for (unsigned i = 0; i < q->running_count;) {
		struct running done;

		if (q->running[i].meeting)
			rendezvous_look(&q->running[i], r);
		done = q->running[i];
		if (done.meeting) {
			i++;
			continue;
		}
		if (done.end_ns > r->now_ns) {
			round_due(r, done.end_ns);
			i++;
			continue;
		}
		q->running[i] = q->running[--q->running_count];
		finish(g, q, &done);
		r->done++;
	}
}

/* The queue goes away: its kernels never complete. */
void aql_abandon(struct queue *q)
{
	struct round none = { 0 };

	aql_late_stamps(&none, true);
	for (unsigned i = 0; i < q->running_count; i++) {
		if (q->running[i].meeting)
			q->running[i].end_ns = q->running[i].start_ns + TICK_NS;
		log_packet(q, TRUTH_KERNEL, &q->running[i], TRUTH_ABANDONED);
	}
	q->running_count = 0;
}

/* ---- kernel dispatch ---- */

static bool is_extended(const union packet *p)
{
	return (p->header & 0xff) == HSA_PACKET_TYPE_VENDOR_SPECIFIC && p->ext.amd_format == AMD_FORMAT_EXT_KERNEL_DISPATCH;
}

/* reserved0 is in the same place. */
static uint64_t workload_says(const union packet *p)
{
	if (p->kernel.reserved0 != tag)
		return 0;
	return is_extended(p) ? (uint64_t)p->ext.kernarg_address : p->kernel.reserved2;
}

static uint64_t duration_ns(struct gpu *g, const union packet *p, const uint32_t grid[3])
{
	uint64_t wanted = workload_says(p) >> 48;
	uint64_t ns;

	if (wanted == DURATION_FROM_GRID)
		return grid[0] * 1000ull;
	if (wanted)
		return wanted * DURATION_UNIT_NS;
	if (config.kernel_ns >= 0)
		ns = (uint64_t)config.kernel_ns;
	else
		ns = config.base_ns + (uint64_t)grid[0] * grid[1] * grid[2] / 256;
	if (config.jitter_percent)
		ns += ns * config.jitter_percent / 100 * engine_random(g, 1024) / 1024;
	return ns;
}

/* False when the memory table is busy: try again in the next round. */
static bool unique_id(struct queue *q, const union packet *p, uint64_t *id)
{
	uint64_t address = (uint64_t)p->kernel.kernarg_address;
	uint64_t first;

	*id = workload_says(p) & id_mask;
	if (*id || !address)
		return true;
	if (q->kernarg.generation != memory_generation() || address - q->kernarg.base >= q->kernarg.bytes) {
		switch (memory_find(address, &q->kernarg)) {
		case MEMORY_BUSY: return false;
		case MEMORY_UNKNOWN: return true;
		case MEMORY_FOUND: break;
		}
	}
	if (q->kernarg.base + q->kernarg.bytes - address < sizeof first)
		return true;
	first = *(const uint64_t *)memory_host(address);
	if (first >> 48 == tag)
		*id = first & id_mask;
	return true;
}

static void check_reexecution(struct queue *q, uint64_t id)
{
	uint64_t *last = &q->last_id[q->read % (q->ring_bytes / sizeof(union packet))];

	if (id && *last == id)
		truth_violation(q, TRUTH_REEXECUTED, id, 0);
	*last = id;
}

static uint32_t at_least_1(uint32_t n)
{
	return n ? n : 1;
}

static void extended_grid(const struct ext_dispatch *p, uint32_t grid[3])
{
	const uint32_t clusters[3] = { p->cluster_count_x, p->cluster_count_y, p->cluster_count_z };

	for (int i = 0; i < 3; i++)
		grid[i] = at_least_1(clusters[i]) * at_least_1(p->cluster_size[i]) * at_least_1(p->workgroup[i]);
}

/* Kernel, segments, arguments and completion signal are in the same places in both packets. */
static void read_dispatch(const union packet *p, struct running *k)
{
	k->signal = (amd_signal_t *)p->kernel.completion_signal.handle;
	k->object = p->kernel.kernel_object;
	k->extended = is_extended(p);
	if (k->extended) {
		extended_grid(&p->ext, k->grid);
	} else {
		k->grid[0] = p->kernel.grid_size_x;
		k->grid[1] = p->kernel.grid_size_y;
		k->grid[2] = p->kernel.grid_size_z;
	}
}

static bool launch(struct gpu *g, struct queue *q, const union packet *p, struct round *r)
{
	struct running k = { .packet = q->read };
	void *kernarg = p->kernel.kernarg_address;
	struct kernel *kernel;
	uint64_t duration;

	if (q->running_count == MAX_RUNNING || !unique_id(q, p, &k.unique_id))
		return false;
	read_dispatch(p, &k);
	kernel = kernel_of(k.object);
	if (!kernel)
		return false;
	kernel->launches++;
	k.kernel = kernel;
	if (kernel->kind != KERNEL_USER && kernarg)
		blit_perform(kernel->kind, memory_host((uint64_t)kernarg));
	check_reexecution(q, k.unique_id);
	duration = duration_ns(g, p, k.grid);

	k.start_ns = now_ns();
	if (config.exclusive && g->busy_until_ns > k.start_ns)
		k.start_ns = g->busy_until_ns;
	k.start_ns = round_down(k.start_ns);
	k.end_ns = round_down(k.start_ns + duration);
	if (k.end_ns == k.start_ns)
		k.end_ns += TICK_NS;
	g->busy_until_ns = k.end_ns;
	fetch_consume(q);
	if (rendezvous_is(kernel, k.grid)) {
		rendezvous_enter(q->gpu, &k, duration ? duration : TICK_NS);
		q->running[q->running_count++] = k;
	} else if (duration) {
		if (k.signal)
			__builtin_prefetch(k.signal, 1); /* written when the kernel ends */
		q->running[q->running_count++] = k;
		round_due(r, k.end_ns);
	} else {
		finish(g, q, &k);
	}
	return true;
}

/* ---- barriers and vendor packets ---- */

static bool is_zero(hsa_signal_t s)
{
	return __atomic_load_n(&((amd_signal_t *)s.handle)->value, __ATOMIC_ACQUIRE) == 0;
}

static bool launch_extended(struct gpu *g, struct queue *q, const union packet *p, struct round *r)
{
	if (p->ext.dep_signal.handle && !is_zero(p->ext.dep_signal))
		return false;
	return launch(g, q, p, r);
}

static bool barrier_met(const hsa_barrier_and_packet_t *p, bool all)
{
	unsigned signals = 0, met = 0;

	for (unsigned i = 0; i < 5; i++)
		if (p->dep_signal[i].handle) {
			signals++;
			met += is_zero(p->dep_signal[i]);
		}
	return all ? met == signals : !signals || met;
}

static bool barrier_value_met(const hsa_amd_barrier_value_packet_t *p)
{
	hsa_signal_value_t v;

	if (!p->signal.handle)
		return true;
	v = __atomic_load_n(&((amd_signal_t *)p->signal.handle)->value, __ATOMIC_ACQUIRE) & p->mask;
	switch (p->cond) {
	case HSA_SIGNAL_CONDITION_EQ: return v == p->value;
	case HSA_SIGNAL_CONDITION_NE: return v != p->value;
	case HSA_SIGNAL_CONDITION_LT: return v < p->value;
	case HSA_SIGNAL_CONDITION_GTE: return v >= p->value;
	}
	return true;
}

static void finish_at_once(struct gpu *g, struct queue *q, enum truth_kind kind, uint64_t signal)
{
	struct running done = { .packet = q->read, .signal = (amd_signal_t *)signal, .start_ns = round_down(now_ns()) };

	done.end_ns = done.start_ns + BARRIER_NS;
	fetch_consume(q);
	log_packet(q, kind, &done, 0);
	signal_completion(g, q, done.signal, done.start_ns, done.end_ns);
}

/* False: the packet must wait. */
static bool execute(struct gpu *g, struct queue *q, const union packet *p, struct round *r)
{
	bool in_order = p->header >> HSA_PACKET_HEADER_BARRIER & 1;
	unsigned type = p->header & 0xff;

	if (in_order && q->running_count)
		return false;
	switch (type) {
	case HSA_PACKET_TYPE_KERNEL_DISPATCH:
		return launch(g, q, p, r);
	case HSA_PACKET_TYPE_BARRIER_AND:
	case HSA_PACKET_TYPE_BARRIER_OR:
		if (!barrier_met(&p->barrier, type == HSA_PACKET_TYPE_BARRIER_AND))
			return false;
		finish_at_once(g, q, TRUTH_BARRIER, p->barrier.completion_signal.handle);
		return true;
	case HSA_PACKET_TYPE_VENDOR_SPECIFIC: /* others than these two are PM4: cache maintenance */
		if (is_extended(p))
			return launch_extended(g, q, p, r);
		if (p->barrier_value.header.AmdFormat == HSA_AMD_PACKET_TYPE_BARRIER_VALUE &&
		    !barrier_value_met(&p->barrier_value))
			return false;
		finish_at_once(g, q, TRUTH_VENDOR, p->barrier_value.completion_signal.handle);
		return true;
	default:
		truth_violation(q, TRUTH_BAD_PACKET, p->header, 0);
		finish_at_once(g, q, TRUTH_VENDOR, 0);
		return true;
	}
}

void aql_step(struct gpu *g, struct queue *q, struct round *r)
{
	const union packet *p;

	if (q->running_count)
		finish_due(g, q, r);
	r->done += fetch_look(g, q, r);
	for (unsigned i = 0; i < PACKETS_PER_STEP; i++) {
		p = fetch_next(q);
		if (!p) {
			r->stalled |= q->read < q->limit;
			return;
		}
		if (!q->hsa_id)
			q->hsa_id = q->amd->hsa_queue.id;
		if (!execute(g, q, p, r))
			return;
		r->done++;
	}
}
