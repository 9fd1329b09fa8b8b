/*
 * wrap.c: ROCTx's calls, on the application's threads. A message belongs to the caller and may change
 * when the call has returned, so its beginning is copied here.
 */
#include <string.h>

#include "core/session_flags.h"
#include "kinds/marker/hooks.h"
#include "kinds/marker/marker.h"
#include "kinds/marker/marker_abi.h"

/* What is noted of one call. */
struct note {
	uint32_t operation;
	uint64_t range;
	const char *text;
	size_t bytes;
	bool cut;
};

static void copy_text(const struct lane_claim *claim, const struct note *n)
{
	size_t done = n->bytes < MARKER_FIRST_BYTES ? n->bytes : MARKER_FIRST_BYTES;

	memcpy(&lane_cell(claim, 0)->words[MARKER_TEXT], n->text, done);
	for (uint32_t i = 1; done < n->bytes; i++) {
		size_t part = n->bytes - done < MARKER_MORE_BYTES ? n->bytes - done : MARKER_MORE_BYTES;

		lane_cell(claim, i)->kind = LANE_TEXT;
		memcpy(lane_cell(claim, i)->words, n->text + done, part);
		done += part;
	}
}

static void fill(const struct lane_claim *claim, const struct note *n)
{
	struct lane_cell *c = lane_cell(claim, 0);

	c->kind = RTL_KIND_MARKER;
	c->start = stamp_time();
	c->tid = current_tid();
	c->what = (uint16_t)n->operation;
	c->detail = n->cut;
	c->words[MARKER_RANGE] = n->range;
	c->words[MARKER_SIZES] = (uint64_t)atomic_load_explicit(&claim->lane->losses, memory_order_relaxed) << 32 | n->bytes;
	copy_text(claim, n);
}

static void fill_void(const struct lane_claim *claim, uint32_t cells)
{
	while (cells--)
		lane_cell(claim, cells)->kind = LANE_VOID;
}

static void note(uint32_t operation, const char *message, uint64_t range)
{
	uint32_t gate = atomic_load(lanes_gate);

	if (!lane_is_open(RTL_KIND_MARKER, gate))
		return;
	struct note n = {.operation = operation, .range = range, .text = message};
	if (message)
		n.bytes = strnlen(message, RTL_MARKER_TEXT_MAX + 1);
	n.cut = n.bytes > RTL_MARKER_TEXT_MAX;
	n.bytes -= n.cut;
	uint32_t cells = marker_cells(n.bytes);
	struct lane_claim claim = lane_claim(RTL_KIND_MARKER, cells);
	if (!claim.lane)
		return;
	if (lane_is_open(RTL_KIND_MARKER, gate))
		fill(&claim, &n);
	else
		fill_void(&claim, cells);
	lane_publish(&claim, cells);
}

/* libroctx64 calls it with the operation and its data; it stores only one callback. */
int wrap_roctx_callback(uint32_t domain, uint32_t operation, const struct roctx_data *data)
{
	int (*next)(uint32_t, uint32_t, const struct roctx_data *) = NEXT(marker_hooks[ROCTX_CALLBACK], __typeof__(next));

	if (domain == ROCTX_DOMAIN && operation < RTL_MARKER_OPERATIONS && data)
		note(operation, operation == RTL_MARKER_POP || operation == RTL_MARKER_STOP ? NULL : data->message,
		     operation == RTL_MARKER_START || operation == RTL_MARKER_STOP ? data->range : 0);
	return next ? next(domain, operation, data) : 0;
}

void wrap_roctx_mark(const char *message)
{
	note(RTL_MARKER_MARK, message, 0);
	NEXT(marker_hooks[SDK_MARK], __typeof__(&wrap_roctx_mark))(message);
}

int wrap_roctx_push(const char *message)
{
	note(RTL_MARKER_PUSH, message, 0);
	return NEXT(marker_hooks[SDK_PUSH], __typeof__(&wrap_roctx_push))(message);
}

int wrap_roctx_pop(void)
{
	note(RTL_MARKER_POP, NULL, 0);
	return NEXT(marker_hooks[SDK_POP], __typeof__(&wrap_roctx_pop))();
}

/* The number is known when the function has returned. */
uint64_t wrap_roctx_start(const char *message)
{
	uint64_t range = NEXT(marker_hooks[SDK_START], __typeof__(&wrap_roctx_start))(message);

	note(RTL_MARKER_START, message, range);
	return range;
}

void wrap_roctx_stop(uint64_t range)
{
	note(RTL_MARKER_STOP, NULL, range);
	NEXT(marker_hooks[SDK_STOP], __typeof__(&wrap_roctx_stop))(range);
}
