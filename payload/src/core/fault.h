/*
 * fault.h: the named steps of an attach and a detach, at which tests can make
 * something happen (RTL_TEST_FAIL_STEP, RTL_TEST_FAULT). Empty in the product.
 */
#ifndef RTL_FAULT_H
#define RTL_FAULT_H

#include "core/session_flags.h"

#ifdef RTL_TEST
/* What an attach's environment buffer asks for: before its session has a configuration. */
void fault_expect(const void *env, uint64_t len);
/* Once for each session that asks for it. -EIO: this step shall fail now. */
int fault_at(const char *step);
#define TEST_KNOB(field) (config.test_##field)
#else
#define fault_expect(env, len) ((void)0)
#define fault_at(step) 0
#define TEST_KNOB(field) false
#endif

#endif
