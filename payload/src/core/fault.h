/*
 * fault.h: the named steps of an attach and a detach, at which tests can make
 * a fault happen (RTL_TEST_FAIL_STEP, RTL_TEST_FAULT). Empty in the product.
 */
#ifndef RTL_FAULT_H
#define RTL_FAULT_H

#include "core/session_flags.h"

#ifdef RTL_TEST
/* Reads which fault an environment buffer asks for, before the session has a configuration. */
void fault_expect(const void *env, uint64_t len);
/* Causes the fault, once, if the session asks for it at this step. -EIO: the step must fail. */
int fault_at(const char *step);
#define TEST_KNOB(field) (config.test_##field)
#else
#define fault_expect(env, len) ((void)0)
#define fault_at(step) 0
#define TEST_KNOB(field) false
#endif

#endif
