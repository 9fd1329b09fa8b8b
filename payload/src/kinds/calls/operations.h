/* operations.h: the functions of the API kinds whose calls a session records (RTL_OPERATIONS). */
#ifndef RTL_OPERATIONS_H
#define RTL_OPERATIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/sys.h"
#include "kinds/calls/trampoline.h"

#define OPERATION_BITS 64 /* in a word of the set */

/* By function number: a bit for each function that this session records. Written while no kind of
 * call is open. */
extern HIDDEN _Atomic uint64_t operations_wanted[CALL_FUNCTIONS_MAX / OPERATION_BITS];

/*
 * Arming: takes the set from the value of RTL_OPERATIONS: hexadecimal digits, of which the i-th has
 * the functions 4i (its lowest bit) to 4i + 3. Without digits: all but the frequent functions. A function
 * that must not be intercepted is never in the set. 0, or -EINVAL with a text in err: the set is as before.
 */
int operations_take(const char *digits, char *err, size_t errlen);

/* Whether calls of the function are recorded in this session. A hook may be left from an earlier one,
 * below another tool's. Runs at the end of each intercepted call. */
static inline bool operation_is_wanted(uint32_t function)
{
	uint64_t word = atomic_load_explicit(&operations_wanted[function / OPERATION_BITS], memory_order_relaxed);

	return word >> function % OPERATION_BITS & 1;
}

/* Whether the function could be intercepted, and RTL_OPERATIONS leaves it out. */
bool operation_is_omitted(uint32_t function);

#endif
