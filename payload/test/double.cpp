/*
 * double.cpp: functions that jump through a table which a function-local static holds, as HIP 6
 * has it. NOINLINE: the function that returns the table is called.
 */
#include "double.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

static uint64_t ids;
static int own_malloc(void **p, size_t) { *p = &ids; return 0; }
static int own_set(const char *) { return 3; }
static int own_get() { return (int)++ids; }
static uint64_t own_start(const char *) { return ++ids; }
static void own_stop(uint64_t) {}
static int own_many(void *, int a, unsigned, const void *, size_t, int, void *, float f, unsigned long long) { return a + (int)f; }

/* Where the table is, once it has been made. */
EXPORTED table *volatile double_table;
table *volatile double_table;

static table *make()
{
	static table t;
	t = table{sizeof t, own_malloc, own_set, own_get, own_start, own_stop, own_many};
	table *at = &t;
	double_table = at;
	__asm__ volatile("" : "+r"(at) :: "memory"); /* where the table lies is not known at build time */
	return at;
}
#ifdef NOINLINE
__attribute__((noinline))
#endif
static const table *get()
{
	static table *t = make();
	return t;
}
EXPORTED int hipMalloc(void **p, size_t n) { return get()->malloc(p, n); }
EXPORTED int hipSetNothing(const char *m) { return get()->set(m); }
EXPORTED int hipGetNothing() { return get()->get(); }
EXPORTED uint64_t hipStart(const char *m) { return get()->start(m); }
EXPORTED void hipStop(uint64_t i) { get()->stop(i); }
EXPORTED int hipMany(void *a, int b, unsigned c, const void *d, size_t e, int f, void *g, float h, unsigned long long i)
{
	return get()->many(a, b, c, d, e, f, g, h, i);
}
