/* functions.c: see functions.h. The names are in one struct, so that the table needs no
 * relocations. */
#include "kinds/calls/functions.h"

#include <stddef.h>
#include <string.h>

#include "abi.h"
#include "kinds/calls/trampoline.h"

static const struct names {
#define FUNCTION(KIND, name, words, out, bytes, WHEN) char name[sizeof #name];
#include "kinds/calls/functions.def"
#undef FUNCTION
} names = {
#define FUNCTION(KIND, name, words, out, bytes, WHEN) .name = #name,
#include "kinds/calls/functions.def"
#undef FUNCTION
};
_Static_assert(sizeof names <= UINT16_MAX, "struct function, name");

const struct function functions[] = {
#define FUNCTION(KIND, name, words, out, bytes, WHEN) \
	{offsetof(struct names, name), RTL_KIND_##KIND, words, out, bytes, FUNCTION_##WHEN},
#include "kinds/calls/functions.def"
#undef FUNCTION
};
#define COUNT_OF(table) (sizeof(table) / sizeof *(table))
_Static_assert(COUNT_OF(functions) <= CALL_FUNCTIONS_MAX, "a trampoline for each");
const uint32_t function_count = COUNT_OF(functions);

const uint8_t call_stack_words[CALL_FUNCTIONS_MAX] = {
#define FUNCTION(KIND, name, words, out, bytes, WHEN) words,
#include "kinds/calls/functions.def"
#undef FUNCTION
};

const char *function_name(uint32_t function)
{
	return (const char *)&names + functions[function].name;
}

uint32_t functions_of(uint32_t kind, uint32_t *count)
{
	uint32_t first = 0, n = 0;

	while (first < function_count && functions[first].kind != kind)
		first++;
	while (first + n < function_count && functions[first + n].kind == kind)
		n++;
	*count = n;
	return first;
}

int function_named(uint32_t kind, const char *name, uint32_t len)
{
	uint32_t count, lo = functions_of(kind, &count), hi = lo + count;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		const char *at = function_name(mid);
		int order = strncmp(name, at, len);

		if (order == 0 && !at[len])
			return (int)mid;
		if (order > 0)
			lo = mid + 1;
		else
			hi = mid; /* at is longer, or behind */
	}
	return -1;
}
