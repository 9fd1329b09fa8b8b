/*
 * calls_abi.h: the records of API calls. The kinds HIP_RUNTIME_API, HIP_COMPILER_API,
 * HSA_CORE_API, HSA_AMD_EXT_API and RCCL_API have the same two records, each with types of its own.
 */
#ifndef RTL_CALLS_ABI_H
#define RTL_CALLS_ABI_H

#include "abi.h"

#define RTL_CALL_TYPE(kind) RTL_KIND_TYPE(kind, 0)
#define RTL_CALL_COVERAGE_TYPE(kind) RTL_KIND_TYPE(kind, 1)

#define RTL_CALL_REGISTERS 6   /* integer registers with arguments */
#define RTL_CALL_STACK_WORDS 5 /* words of the stack that a record holds; functions have up to 16 */

/* bits of rtl_call.flags */
#define RTL_CALL_HAS_OUT 1u /* the register of the function's out-argument (functions.def) has what it pointed to
			     * when the function had returned, in place of the pointer */

/* One call, when it has returned. A call that never returns has no record. */
struct rtl_call {
	struct rtl_header header;
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t result;   /* rax; for a function without a result: undefined */
	uint32_t tid;      /* calling thread, in the target's pid namespace; 0: not known */
	uint16_t function; /* row of functions.def */
	uint8_t flags;     /* RTL_CALL_HAS_OUT */
	uint8_t stack_words; /* valid words of stack */
	uint64_t registers[RTL_CALL_REGISTERS];
	uint64_t stack[RTL_CALL_STACK_WORDS];
};

/* How the functions of a kind are intercepted. */
enum rtl_call_way {
	RTL_CALL_WAY_NONE = 0,  /* the process does not use the library */
	RTL_CALL_WAY_TABLE = 1, /* slots of the library's dispatch table: each call of an exported function */
	RTL_CALL_WAY_GOT = 2,   /* entries of the callers' global offset tables: no call by dlsym's pointers */
	RTL_CALL_WAY_LATE = 3,  /* the process has loaded the library during the session: nothing is intercepted */
	RTL_CALL_WAY_COUNT = 4,
};

/* When a session begins, and again at its end. */
struct rtl_call_coverage {
	struct rtl_header header;
	uint32_t way;       /* enum rtl_call_way */
	uint32_t functions; /* of the kind that the library exports */
	uint32_t hooked;    /* intercepted; the last record: at the end of the session */
	uint32_t excluded;  /* not intercepted because of their cost or of their danger, see docs */
	uint32_t omitted;  /* not intercepted because RTL_OPERATIONS does not name them */
	uint32_t unknown;   /* exported, and this version has no description of their arguments */
	uint32_t modules;   /* way GOT: modules with an entry */
	uint32_t entries;   /* way GOT: entries */
	uint32_t dropped;   /* way GOT: entries that could not be replaced: no room, or no permission */
	uint32_t reserved[5];
};

RTL_ONE_LINE(struct rtl_call_coverage);
#ifndef __cplusplus
_Static_assert(sizeof(struct rtl_call) == 2 * RTL_LINE, "two cache lines");
#endif

#endif
