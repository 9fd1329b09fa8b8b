/* calls_test.h: what the C++ of calls_test.cpp needs of the payload's C (calls_glue.c). */
#ifndef CALLS_TEST_H
#define CALLS_TEST_H

#include <stdbool.h>
#include <stdint.h>

extern const char call_text_begin[], call_text_end[];
struct call;
void call_leave(const struct call *);

/* Lanes and gate. */
bool test_begin(void);
void test_open(int open);
void test_use_boottime(void);
/* Puts a function with so many words of arguments on the stack behind the next trampoline. */
uintptr_t test_wrap(uintptr_t function, int words);
/* Takes all records; returns how many. */
unsigned long test_take(void);
/* Since test_reset(). */
void test_reset(void);
unsigned long test_records(void), test_lost(void);
unsigned long test_lane_cells(void);
uint64_t test_last_start(void), test_last_end(void);

#endif
