/* functions.h: the functions of the API kinds (functions.def). */
#ifndef RTL_FUNCTIONS_H
#define RTL_FUNCTIONS_H

#include <stdint.h>

#include "core/sys.h"

enum function_when {
	FUNCTION_ALWAYS,     /* intercepted whenever its kind is recorded */
	FUNCTION_ON_REQUEST, /* by RTL_OPERATIONS only: so frequent that it outweighs all others */
	FUNCTION_NEVER,      /* intercepting it harms the target */
};

struct function {
	uint16_t name;       /* offset, see function_name() */
	uint8_t kind;        /* enum rtl_kind */
	uint8_t stack_words; /* 8-byte words of arguments on the stack */
	uint8_t out_register;/* 1 + the register with the out-argument; 0: none */
	uint8_t out_bytes;   /* 4 or 8 */
	uint8_t when;        /* enum function_when */
};

/* By function number: those of one kind are together, sorted by name. */
extern HIDDEN const struct function functions[];
extern HIDDEN const uint32_t function_count;

const char *function_name(uint32_t function);

/* The function of a kind with the name of len bytes; -1: none. */
int function_named(uint32_t kind, const char *name, uint32_t len);

/* The functions of a kind: from the first on, *count. */
uint32_t functions_of(uint32_t kind, uint32_t *count);

#endif
