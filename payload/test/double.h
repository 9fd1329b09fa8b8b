/* double.h: what double.cpp exports, and its dispatch table. */
#ifndef DOUBLE_H
#define DOUBLE_H

#include <stddef.h>
#include <stdint.h>

struct table {
	size_t size;
	int (*malloc)(void **, size_t);
	int (*set)(const char *);
	int (*get)(void);
	uint64_t (*start)(const char *);
	void (*stop)(uint64_t);
	int (*many)(void *, int, unsigned, const void *, size_t, int, void *, float, unsigned long long);
};

/* Name of the export, and its member of the table. */
#define DOUBLE_FUNCTIONS(F) \
	F(hipMalloc, malloc) F(hipSetNothing, set) F(hipGetNothing, get) F(hipStart, start) F(hipStop, stop) F(hipMany, many)

#endif
