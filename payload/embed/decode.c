/*
 * decode.c: from the ring's records (abi.h) to those of rtl.h.
 *
 * Definitions come before their use, and ids count up from 1. The payload empties its tables now and then
 * and defines again what is used again: a record never names one of the first of many ids. So each table keeps
 * the last ids only.
 */
#include <errno.h>
#include <string.h>

#include "abi.h"
#include "core/sys.h"
#include "embed.h"
#include "kinds/allocation/allocation_abi.h"
#include "kinds/calls/calls_abi.h"
#include "kinds/calls/functions.h"
#include "kinds/copy/copy_abi.h"
#include "kinds/dispatch/dispatch_abi.h"
#include "kinds/marker/marker_abi.h"
#include "kinds/scratch/scratch_abi.h"

#define STRINGS (1u << 17) /* the payload's tables have fewer launches and names at a time */
#define LAUNCHES (1u << 17)
#define QUEUES (1u << 14)
#define AGENTS (1u << 10)

struct string_entry {
	uint32_t id;
	const char *text;
};
struct launch_entry {
	uint32_t id;
	uint32_t agent;
	const char *kernel;
	uint64_t kernel_object;
	uint32_t grid[3], workgroup[3];
	uint32_t group_segment_bytes, private_segment_bytes;
};
struct queue_entry {
	uint32_t id;
	uint32_t agent;
	uint64_t address;
};
struct agent_entry {
	uint32_t id;
	int32_t gpu;
	const char *name;
};

/* Mapped without memory behind; a session clears them. */
static struct tables {
	struct string_entry strings[STRINGS];
	struct launch_entry launches[LAUNCHES];
	struct queue_entry queues[QUEUES];
	struct agent_entry agents[AGENTS];
} *tables;

static char marker_text[RTL_MARKER_TEXT_MAX + 1]; /* of the record that is being delivered */

_Static_assert((int)RTL_RECORD_DISPATCH == RTL_KIND_DISPATCH && (int)RTL_RECORD_MEMORY_COPY == RTL_KIND_MEMORY_COPY &&
		       (int)RTL_RECORD_HIP_RUNTIME_API == RTL_KIND_HIP_RUNTIME_API && (int)RTL_RECORD_RCCL_API == RTL_KIND_RCCL_API &&
		       (int)RTL_RECORD_MEMORY_ALLOCATION == RTL_KIND_MEMORY_ALLOCATION &&
		       (int)RTL_RECORD_SCRATCH_MEMORY == RTL_KIND_SCRATCH_MEMORY && (int)RTL_RECORD_MARKER == RTL_KIND_MARKER,
	       "the interface has the payload's kinds");
_Static_assert((int)RTL_OP_FREE_VIRTUAL == RTL_ALLOCATION_VIRTUAL_FREE && (int)RTL_OP_FREE_POOL == RTL_ALLOCATION_POOL_FREE &&
		       (int)RTL_OP_SCRATCH_RECLAIM_END == RTL_SCRATCH_RECLAIM_END && (int)RTL_OP_RANGE_STOP == RTL_MARKER_STOP &&
		       (int)RTL_OP_RANGE_PUSH == RTL_MARKER_PUSH,
	       "and its operations");

int decode_begin(void)
{
	if (tables)
		clear_memory(tables, sizeof *tables);
	else
		tables = map_memory(sizeof *tables);
	return tables ? 0 : -ENOMEM;
}

void decode_release(void)
{
	unmap_memory(tables, sizeof *tables);
	tables = NULL;
	strings_release();
}

/* The entry of an id; NULL: it was never defined, or its definition was lost. */
#define FIND(table, size, wanted) \
	({ \
		__typeof__(&tables->table[0]) entry = &tables->table[(wanted) & ((size)-1)]; \
		(wanted) && entry->id == (wanted) ? entry : NULL; \
	})

static const char *string_of(uint32_t id)
{
	const struct string_entry *s = FIND(strings, STRINGS, id);

	return s ? s->text : "";
}

static int32_t gpu_of(uint32_t agent)
{
	const struct agent_entry *a = FIND(agents, AGENTS, agent);

	return a ? a->gpu : -1;
}

static const char *gpu_name_of(uint32_t agent)
{
	const struct agent_entry *a = FIND(agents, AGENTS, agent);

	return a ? a->name : "";
}

/* The runtime names a kernel by the symbol of its descriptor. */
static uint32_t without_suffix(const char *text, uint32_t len)
{
	return len > 3 && !memcmp(text + len - 3, ".kd", 3) ? len - 3 : len;
}

static void define_string(const struct rtl_string *s)
{
	uint32_t most = s->header.lines * RTL_LINE - 16, len = s->len_bytes < most ? s->len_bytes : most;

	len = without_suffix(s->text, len);
	tables->strings[s->id & (STRINGS - 1)] = (struct string_entry){s->id, strings_intern(s->text, len)};
}

static void define_launch(const struct rtl_launch *l)
{
	tables->launches[l->id & (LAUNCHES - 1)] = (struct launch_entry){
		.id = l->id,
		.agent = l->agent,
		.kernel = string_of(l->name),
		.kernel_object = l->kernel_object,
		.grid = {l->grid[0], l->grid[1], l->grid[2]},
		.workgroup = {l->workgroup[0], l->workgroup[1], l->workgroup[2]},
		.group_segment_bytes = l->group_segment_bytes,
		.private_segment_bytes = l->private_segment_bytes,
	};
}

static void define_queue(const struct rtl_queue *q)
{
	tables->queues[q->id & (QUEUES - 1)] = (struct queue_entry){q->id, q->agent, q->address};
}

static void define_agent(const struct rtl_agent *a)
{
	tables->agents[a->id & (AGENTS - 1)] = (struct agent_entry){a->id, (int32_t)a->gpu, string_of(a->name)};
}

#define BEGIN(type, number) \
	*out = (type){.record = {.size = sizeof(type), .kind = (number)}}

static void describe(rtl_dispatch_record_t *out, uint32_t queue, uint32_t launch)
{
	const struct queue_entry *q = FIND(queues, QUEUES, queue);
	const struct launch_entry *l = FIND(launches, LAUNCHES, launch);
	uint32_t agent = q && q->agent ? q->agent : l ? l->agent : 0;

	out->queue_number = queue;
	out->queue = q ? q->address : 0;
	out->kernel = l ? l->kernel : "";
	out->gpu = gpu_of(agent);
	out->gpu_name = gpu_name_of(agent);
	if (!l)
		return;
	out->kernel_object = l->kernel_object;
	memcpy(out->grid, l->grid, sizeof out->grid);
	memcpy(out->workgroup, l->workgroup, sizeof out->workgroup);
	out->group_segment_bytes = l->group_segment_bytes;
	out->private_segment_bytes = l->private_segment_bytes;
}

static void make_dispatch(const struct rtl_dispatch *d, rtl_dispatch_record_t *out)
{
	BEGIN(rtl_dispatch_record_t, RTL_RECORD_DISPATCH);
	out->start_ns = d->start_ns;
	out->end_ns = d->end_ns;
	out->submit_ns = d->submit_ns;
	out->index = d->index;
	out->signal = d->signal;
	out->tid = d->tid;
	out->count = 1;
	describe(out, d->queue, d->launch);
}

static void make_untimed(const struct rtl_untimed *u, rtl_dispatch_record_t *out)
{
	BEGIN(rtl_dispatch_record_t, RTL_RECORD_DISPATCH);
	out->submit_ns = u->submit_ns;
	out->index = u->index;
	out->tid = u->tid;
	out->count = u->count;
	out->reason = u->reason;
	describe(out, u->queue, u->launch);
}

static void make_copy(const struct rtl_copy *c, rtl_copy_record_t *out)
{
	BEGIN(rtl_copy_record_t, RTL_RECORD_MEMORY_COPY);
	out->start_ns = c->start_ns;
	out->end_ns = c->end_ns;
	out->submit_ns = c->submit_ns;
	out->bytes = c->bytes;
	out->signal = c->signal;
	out->from_gpu = gpu_of(c->from);
	out->to_gpu = gpu_of(c->to);
	out->tid = c->tid;
	out->reason = c->reason;
}

static enum decoded make_call(uint32_t kind, const struct rtl_call *c, rtl_call_record_t *out)
{
	if (c->function >= function_count)
		return DECODED_UNKNOWN;
	BEGIN(rtl_call_record_t, kind);
	out->start_ns = c->start_ns;
	out->end_ns = c->end_ns;
	out->function = function_name(c->function);
	out->result = c->result;
	out->tid = c->tid;
	out->out_argument = c->flags & RTL_CALL_HAS_OUT ? functions[c->function].out_register : 0;
	memcpy(out->arguments, c->registers, sizeof out->arguments);
	memcpy(out->stack, c->stack, sizeof out->stack);
	out->stack_words = c->stack_words;
	return DECODED_RECORD;
}

static void make_allocation(const struct rtl_allocation *a, rtl_allocation_record_t *out)
{
	BEGIN(rtl_allocation_record_t, RTL_RECORD_MEMORY_ALLOCATION);
	out->start_ns = a->start_ns;
	out->end_ns = a->end_ns;
	out->address = a->address;
	out->size_bytes = a->size_bytes;
	out->pool = a->pool;
	out->tid = a->tid;
	out->operation = a->operation;
	out->status = a->status;
	out->gpu = a->flags & RTL_ALLOCATION_AGENT_KNOWN ? gpu_of(a->agent) : -2;
}

static void make_scratch(const struct rtl_scratch *s, rtl_scratch_record_t *out)
{
	BEGIN(rtl_scratch_record_t, RTL_RECORD_SCRATCH_MEMORY);
	out->time_ns = s->time_ns;
	out->queue = s->queue_address;
	out->dispatch = s->dispatch;
	out->size_bytes = s->size_bytes;
	out->waves = s->slots;
	out->tid = s->tid;
	out->operation = s->event;
	out->flags = s->flags;
}

static void make_marker(const struct rtl_marker *m, rtl_marker_record_t *out)
{
	uint32_t most = m->header.lines * RTL_LINE - (uint32_t)__builtin_offsetof(struct rtl_marker, text);
	uint32_t len = m->text_bytes < most ? m->text_bytes : most;

	if (len > RTL_MARKER_TEXT_MAX)
		len = RTL_MARKER_TEXT_MAX;
	memcpy(marker_text, m->text, len);
	marker_text[len] = 0;
	BEGIN(rtl_marker_record_t, RTL_RECORD_MARKER);
	out->time_ns = m->time_ns;
	out->range = m->range;
	out->text = marker_text;
	out->tid = m->tid;
	out->operation = m->operation;
	out->text_cut = m->text_cut;
}

static void make_lost(const struct rtl_lost *l, rtl_lost_record_t *out)
{
	BEGIN(rtl_lost_record_t, RTL_RECORD_LOST);
	out->count = l->count;
	out->from_ns = l->from_ns;
	out->until_ns = l->until_ns;
}

static uint32_t ended_by(uint32_t end)
{
	switch (end) {
	case RTL_END_DETACH: return RTL_ENDED_BY_STOP;
	case RTL_END_OTHER_TOOL: return RTL_ENDED_BY_TOOL;
	case RTL_END_RECORDER_DEAD: return RTL_ENDED_BY_SILENCE;
	case RTL_END_SHUT_DOWN: return RTL_ENDED_BY_RUNTIME;
	case RTL_END_EXIT: return RTL_ENDED_BY_EXIT;
	}
	return RTL_ENDED_UNKNOWN;
}

static void make_end(const struct rtl_end_record *e, rtl_session_end_record_t *out)
{
	BEGIN(rtl_session_end_record_t, RTL_RECORD_SESSION_END);
	out->start_ns = e->armed_ns;
	out->end_ns = e->detached_ns;
	out->lost = e->records_lost;
	out->why = ended_by(e->end);
}

static enum decoded define(const struct rtl_header *h)
{
	switch (h->type) {
	case RTL_TYPE_STRING:
		define_string((const struct rtl_string *)h);
		return DECODED_NOTHING;
	case RTL_TYPE_LAUNCH:
		define_launch((const struct rtl_launch *)h);
		return DECODED_NOTHING;
	case RTL_TYPE_QUEUE:
		define_queue((const struct rtl_queue *)h);
		return DECODED_NOTHING;
	case RTL_TYPE_AGENT:
		define_agent((const struct rtl_agent *)h);
		return DECODED_NOTHING;
	case RTL_TYPE_PAD:
	case RTL_TYPE_WINDOW:
	case RTL_TYPE_CODE_OBJECT:
	case RTL_TYPE_KIND_ACCOUNT:
	case RTL_TYPE_KIND_UNAVAILABLE:
		return DECODED_NOTHING;
	}
	return DECODED_UNKNOWN;
}

static bool is_call_kind(uint32_t kind)
{
	return kind >= RTL_KIND_HIP_RUNTIME_API && kind <= RTL_KIND_RCCL_API;
}

/* A record of one line less than its struct would be read beyond its end. */
static bool is_whole(const struct rtl_header *h)
{
	uint32_t kind = RTL_KIND_OF_TYPE(h->type);

	return h->lines >= (h->type >= RTL_KIND_TYPES && is_call_kind(kind) && h->type == RTL_CALL_TYPE(kind) ? 2 : 1);
}

static enum decoded decode_item(const struct rtl_header *h, union any_record *out)
{
	uint32_t kind = RTL_KIND_OF_TYPE(h->type);

	if (is_call_kind(kind)) {
		if (h->type == RTL_CALL_TYPE(kind))
			return make_call(kind, (const struct rtl_call *)h, &out->call);
		return h->type == RTL_CALL_COVERAGE_TYPE(kind) ? DECODED_NOTHING : DECODED_UNKNOWN;
	}
	switch (h->type) {
	case RTL_TYPE_DISPATCH:
		make_dispatch((const struct rtl_dispatch *)h, &out->dispatch);
		return DECODED_RECORD;
	case RTL_TYPE_UNTIMED:
		make_untimed((const struct rtl_untimed *)h, &out->dispatch);
		return DECODED_RECORD;
	case RTL_TYPE_COPY:
		make_copy((const struct rtl_copy *)h, &out->copy);
		return DECODED_RECORD;
	case RTL_TYPE_ALLOCATION:
		make_allocation((const struct rtl_allocation *)h, &out->allocation);
		return DECODED_RECORD;
	case RTL_TYPE_SCRATCH:
		make_scratch((const struct rtl_scratch *)h, &out->scratch);
		return DECODED_RECORD;
	case RTL_TYPE_MARKER:
		make_marker((const struct rtl_marker *)h, &out->marker);
		return DECODED_RECORD;
	case RTL_TYPE_SCRATCH_COVERAGE:
	case RTL_TYPE_MARKER_COVERAGE:
		return DECODED_NOTHING;
	}
	return DECODED_UNKNOWN;
}

enum decoded decode(const struct rtl_header *h, union any_record *out)
{
	if (!is_whole(h))
		return DECODED_UNKNOWN;
	if (h->type >= RTL_KIND_TYPES)
		return decode_item(h, out);
	if (h->type == RTL_TYPE_LOST) {
		make_lost((const struct rtl_lost *)h, &out->lost);
		return DECODED_RECORD;
	}
	if (h->type == RTL_TYPE_END) {
		make_end((const struct rtl_end_record *)h, &out->end);
		return DECODED_LAST;
	}
	return define(h);
}
