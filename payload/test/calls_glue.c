/* calls_glue.c: the session of calls_test.cpp: lanes, gate, and the functions behind the wrapper. */
#include "calls_test.h"

#include "core/session_flags.h"
#include "kinds/calls/functions.h"
#include "kinds/calls/operations.h"
#include "kinds/calls/trampoline.h"
#include "kinds/kind.h"
#include "record/lanes.h"

#define KIND RTL_KIND_HIP_RUNTIME_API
#define MOST CALL_FUNCTIONS_MAX

/* Written by test_wrap(); constant for the payload. */
struct function test_functions[MOST] __asm__("functions");
uint8_t test_words[MOST] __asm__("call_stack_words");
struct hook call_hooks[MOST];
_Atomic uint64_t operations_wanted[MOST / OPERATION_BITS];
struct session_flags session_flags;
struct rtl_config config;
struct rtl_counters *counters, counted;
const volatile uint32_t *fork_canary;

static uint32_t used;
static unsigned long records;
static struct lane_cell last;

static void take_cell(const struct lane_cell *c)
{
	records++;
	last = *c;
}

static const struct kind api = {.take_cell = take_cell};
const struct kind *const kinds[RTL_KINDS_MAX] = {[KIND] = &api};

bool test_begin(void)
{
	counters = &counted;
	config.trace = 1 << KIND;
	atomic_store(&session_flags.generation, 1);
	return lanes_prepare() == 0;
}

void test_open(int open)
{
	if (open)
		lanes_open(KIND);
	else
		lanes_close(KIND, 0);
}

void test_use_boottime(void)
{
	call_by_boottime = 1;
}

uintptr_t test_wrap(uintptr_t function, int words)
{
	uint32_t i = used++;

	call_hooks[i].next = function;
	test_words[i] = (uint8_t)words;
	atomic_fetch_or(&operations_wanted[i / OPERATION_BITS], 1ull << i % OPERATION_BITS);
	test_functions[i] = (struct function){.kind = KIND, .stack_words = (uint8_t)words};
	return call_trampoline(i);
}

unsigned long test_take(void)
{
	return lanes_take();
}

void test_reset(void)
{
	records = 0;
	counted = (struct rtl_counters){0};
}

unsigned long test_records(void)
{
	return records;
}

unsigned long test_lost(void)
{
	return counted.kind[KIND].lost;
}

unsigned long test_lane_cells(void)
{
	return LANE_CELLS;
}

uint64_t test_last_start(void)
{
	return last.start;
}

uint64_t test_last_end(void)
{
	return last.end;
}
