/* operations.c: see operations.h. */
#include "kinds/calls/operations.h"

#include <errno.h>
#include <stdio.h>

#include "kinds/calls/functions.h"

#define WORDS (CALL_FUNCTIONS_MAX / OPERATION_BITS)
#define BITS_PER_DIGIT 4

_Atomic uint64_t operations_wanted[WORDS];
static bool is_restricted; /* RTL_OPERATIONS names the functions */

/* -1: no digit. Upper case is refused: each set has one text. */
static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int parse(const char *digits, uint64_t *words, char *err, size_t errlen)
{
	for (uint32_t i = 0; digits[i]; i++) {
		uint32_t first = i * BITS_PER_DIGIT;
		int value = digit(digits[i]);

		if (value < 0) {
			snprintf(err, errlen, "RTL_OPERATIONS: no hexadecimal digit at %u", i);
			return -EINVAL;
		}
		if (first >= function_count || (function_count - first < BITS_PER_DIGIT && value >> (function_count - first))) {
			snprintf(err, errlen, "RTL_OPERATIONS: the digit at %u is beyond the %u functions of this payload", i, function_count);
			return -EINVAL;
		}
		words[first / OPERATION_BITS] |= (uint64_t)value << first % OPERATION_BITS;
	}
	return 0;
}

static void keep_if(uint64_t *words, uint32_t function, bool wanted)
{
	uint64_t bit = 1ull << function % OPERATION_BITS;

	if (wanted)
		words[function / OPERATION_BITS] |= bit;
	else
		words[function / OPERATION_BITS] &= ~bit;
}

int operations_take(const char *digits, char *err, size_t errlen)
{
	uint64_t words[WORDS] = {0};

	if (parse(digits, words, err, errlen))
		return -EINVAL;
	is_restricted = digits[0] != '\0';
	for (uint32_t f = 0; f < function_count; f++)
		if (!is_restricted || functions[f].when == FUNCTION_NEVER)
			keep_if(words, f, functions[f].when == FUNCTION_ALWAYS);
	for (uint32_t i = 0; i < WORDS; i++)
		atomic_store(&operations_wanted[i], words[i]);
	return 0;
}

bool operation_is_omitted(uint32_t function)
{
	return is_restricted && functions[function].when != FUNCTION_NEVER && !operation_is_wanted(function);
}
