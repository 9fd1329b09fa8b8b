/* caller.c: a library that calls HIP; built in several ways. */
#include <stdlib.h>

#include "got.h"

static int (*in_data)(void) = hipGetNothing;
static int (*const in_constants)(void) = hipGetNothing;

/* Its entry is not replaced: it is bound before the test looks. */
static __attribute__((constructor)) void bind_never(void)
{
	hipNever();
}

int caller_own(void)
{
	return 1;
}

int (**caller_data(void))(void)
{
	return &in_data;
}

void caller_calls(void)
{
	int (*const volatile *constant)(void) = &in_constants;
	int (*volatile *data)(void) = &in_data;
	void *p = NULL;
	int here;

	hipNever();
	if (hipGetNothing() <= 0 || (*data)() <= 0 || (*constant)() <= 0 || hipSetNothing("") || hipMalloc(&p, 1) || !p || hipOne(1) != 2 ||
	    hipMany(&here, 1, 2, &here, 3, 4, &here, 5.0f, 6) != 23)
		abort();
}
