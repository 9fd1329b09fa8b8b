/*
 * leave.c: the end of an intercepted call, on the calling thread. The pragma comes first: this
 * file touches general registers only, because the call's result may be in the others.
 */
#pragma GCC target("general-regs-only")
#include "core/session_flags.h"
#include "kinds/calls/calls_abi.h"
#include "kinds/calls/functions.h"
#include "kinds/calls/operations.h"
#include "kinds/calls/trampoline.h"
#include "record/lanes.h"

_Static_assert(LANE_WORDS == RTL_CALL_REGISTERS + RTL_CALL_STACK_WORDS, "all words of a call's record");

uint32_t call_by_boottime;
uint64_t call_own_text, call_own_bytes;

uint64_t call_now(void)
{
	return now_boottime();
}

/* The out-argument: the function has just written there, and says that it has succeeded. */
static inline uint8_t read_out(const struct call *c, const struct function *f, uint64_t *registers)
{
	const void *out = f->out_register ? (const void *)c->registers[f->out_register - 1] : NULL;

	if (!out || (uint32_t)c->result)
		return 0;
	registers[f->out_register - 1] = f->out_bytes == 8 ? *(const uint64_t *)out : *(const uint32_t *)out;
	return RTL_CALL_HAS_OUT;
}

static inline void fill(struct lane_cell *cell, const struct call *c, const struct function *f)
{
	uint32_t words = f->stack_words < RTL_CALL_STACK_WORDS ? f->stack_words : RTL_CALL_STACK_WORDS;

	cell->start = c->start;
	cell->end = c->end;
	cell->result = c->result;
	cell->tid = current_tid();
	cell->what = (uint16_t)c->function;
	for (uint32_t i = 0; i < RTL_CALL_REGISTERS; i++)
		cell->words[i] = c->registers[i];
	for (uint32_t i = 0; i < words; i++)
		cell->words[RTL_CALL_REGISTERS + i] = c->stack[i];
	cell->detail = read_out(c, f, cell->words);
}

/* The caller is the payload, on any thread. */
static inline bool is_own(const struct call *c)
{
	return c->return_address - call_own_text < call_own_bytes;
}

void call_leave(const struct call *c)
{
	const struct function *f = &functions[c->function];

	if (!lane_is_open(f->kind, c->gate) || !operation_is_wanted(c->function) || is_own(c))
		return;
	struct lane_claim claim = lane_claim(f->kind, 1);
	if (UNLIKELY(!claim.lane))
		return;
	struct lane_cell *cell = lane_cell(&claim, 0);
	if (LIKELY(lane_is_open(f->kind, c->gate))) {
		cell->kind = f->kind;
		fill(cell, c, f);
	} else {
		cell->kind = LANE_VOID;
	}
	lane_publish(&claim, 1);
}
