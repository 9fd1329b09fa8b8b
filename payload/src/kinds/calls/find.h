/* find.h: which functions of the API kinds this process has, and where calls of them can be
 * intercepted. */
#ifndef RTL_FIND_H
#define RTL_FIND_H

#include "core/hooks.h"
#include "kinds/calls/calls_abi.h"

/* Of one kind. */
struct call_api {
	struct hook_table hooks; /* rows of call_hooks[]; count 0: not looked for yet */
	uint32_t way;            /* enum rtl_call_way */
	uint32_t functions, excluded, omitted, unknown; /* struct rtl_call_coverage */
};
extern struct call_api call_apis[RTL_KINDS_MAX];

/* Arming: finds the slots of the kind's functions that this session wants (operations.h); those that were
 * found before are kept. */
void calls_find(uint32_t kind);

/* Whether the kind's library is loaded now. Does not load it, or keep it. */
bool calls_library_is_loaded(uint32_t kind);

/* Way GOT: whether calls of the function are intercepted at their callers. */
bool call_is_by_got(uint32_t function);

/* The function that an import of that name means; -1: none that is intercepted by the callers'
 * entries. C++ names count by the function's own name: HIP 5 exports four such. */
int call_imported(const char *name);

/* The base address of the library that exports the function; 0: it is not loaded. */
uintptr_t call_library_base(uint32_t function);

#endif
