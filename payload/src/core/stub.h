/*
 * stub.h: decodes an exported function that only jumps through a slot of its library's
 * dispatch table, in the forms that compilers give it (slots.h has HSA's plain form).
 */
#ifndef RTL_STUB_H
#define RTL_STUB_H

#include <stdatomic.h>
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

/*
 * The slot of a stub of the object. table_function: the one function that may be called for the table,
 * as each call of the stub does; 0: none. NULL: not decoded, or the slot is empty or not in the object's own data. (The tables of
 * HSA's image and finalizer extensions are on the heap, in an object that hsa_shut_down frees:
 * a slot restored later would corrupt the heap.)
 */
_Atomic(uintptr_t) *stub_slot(const struct module *m, uintptr_t code, uintptr_t table_function);

#endif
