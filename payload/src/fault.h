/* fault.h: named steps that tests can make fail. Empty in the product. */
#ifndef RTL_FAULT_H
#define RTL_FAULT_H

#include <string.h>

#include "session.h"

#ifdef RTL_TEST
/* True: this step shall fail now (RTL_TEST_FAIL_STEP). */
static inline bool fault_at(const char *step)
{
	return strcmp(config.test_fail_step, step) == 0;
}
#define TEST_KNOB(field) (config.test_##field)
#else
#define fault_at(step) false
#define TEST_KNOB(field) false
#endif

#endif
