/*
 * stub.h: decodes an exported function that only jumps through a slot of its library's
 * dispatch table, in the forms that compilers give it (slots.h has HSA's plain form).
 */
#ifndef RTL_STUB_H
#define RTL_STUB_H

#include <stdbool.h>
#include <stdint.h>

struct stub {
	uintptr_t table_pointer;  /* where the table's address is stored; 0: see table_function */
	uintptr_t table_function; /* the function that returns the table */
	uint32_t displacement;    /* of the slot in the table, in bytes */
};

/* Reads code, and bytes of data at addresses that the code has. Calls nothing. False: the
 * function has another form, or its library has not been used yet. */
bool stub_decode(const void *code, struct stub *out);

#endif
