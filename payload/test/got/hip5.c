/* hip5.c: libamdhip64.so.5 without a dispatch table. */
#include "got.h"

static int own;
int hipGetNothing(void) { return ++own; }
int hipNever(void) { return 1; }
int hipSetNothing(const char *m) { return m ? 0 : 1; }
int hipMalloc(void **out, size_t bytes) { *out = bytes ? &own : NULL; return 0; }
int hipOne(int i) { return i + 1; }
uint64_t hipStart(const char *m) { return m != NULL; }
void hipStop(uint64_t i) { own += (int)i; }
int hipMany(void *a, int b, unsigned c, const void *d, size_t e, int f, void *g, float h, unsigned long long i)
{
	return b + f + (int)h + (int)i + (a == d) + (g != NULL) + (int)c + (int)e;
}
