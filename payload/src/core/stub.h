/*
 * stub.h: decodes an exported function that only jumps through a slot of its library's
 * dispatch table, in the forms that compilers give it (slots.h has HSA's plain form).
 */
#ifndef RTL_STUB_H
#define RTL_STUB_H

#include <stdbool.h>
#include <stdint.h>

struct module;

struct stub {
	uintptr_t table_pointer;  /* where the table's address is stored; 0: see table_function */
	uintptr_t table_function; /* the function that returns the table */
	uint32_t displacement;    /* of the slot in the table, in bytes */
};

/* Reads at most 64 instructions, and bytes of data at addresses that they have: whatever the
 * code is, only in pages of the object's own segments. Calls nothing. False: the function has
 * another form, or its library has not been used yet. */
bool stub_decode(const struct module *m, const void *code, struct stub *out);

#endif
