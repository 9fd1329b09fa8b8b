/* trampoline.h: what trampoline.S and the C of the API kinds share. */
#ifndef RTL_TRAMPOLINE_H
#define RTL_TRAMPOLINE_H

#define CALL_FUNCTIONS_MAX 1024
#define CALL_HOOK_BYTES 40 /* sizeof(struct hook) */

#ifndef __ASSEMBLER__
#include <stddef.h>
#include <stdint.h>

#include "core/hooks.h"
#include "core/sys.h"

/* An intercepted call, on the wrapper's stack; trampoline.S has the offsets. */
struct call {
	uint64_t start, registers[6];
	uint32_t function, gate; /* gate: *lanes_gate when the call began */
	uint64_t result, result2, rax, end;
	uint64_t saved_rbp, return_address;
	uint64_t stack[]; /* the caller's words of arguments */
};
_Static_assert(offsetof(struct call, saved_rbp) == 96, "FRAME in trampoline.S");
_Static_assert(sizeof(struct hook) == CALL_HOOK_BYTES && offsetof(struct hook, next) == 0, "trampoline.S");

extern HIDDEN const char call_trampolines[]; /* in the text of call_text_begin[], kinds/kind.h */

static inline uintptr_t call_trampoline(uint32_t function) { return (uintptr_t)call_trampolines + 16 * function; }

/* By function (functions.def). The tables are complete before the first slot is patched. */
extern HIDDEN struct hook call_hooks[CALL_FUNCTIONS_MAX];
extern HIDDEN const uint8_t call_stack_words[CALL_FUNCTIONS_MAX];

/* The payload's own text: its own calls of the runtime are not recorded. Arming sets it. */
extern HIDDEN uint64_t call_own_text, call_own_bytes;

/* 1: START and END are read from CLOCK_BOOTTIME, by call_now(), and not from the time-stamp counter. */
extern HIDDEN uint32_t call_by_boottime;
uint64_t call_now(void);

/* The end of a call: makes its record, if it is recorded. */
void call_leave(const struct call *c);
#endif

#endif
