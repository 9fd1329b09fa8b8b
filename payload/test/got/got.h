/* got.h: the libraries of got_test. */
#ifndef GOT_H
#define GOT_H

#include <stddef.h>
#include <stdint.h>

int hipGetNothing(void), hipNever(void), hipSetNothing(const char *);
int hipMalloc(void **out, size_t bytes);
int hipOne(int) __asm__("_Z6hipOnei"); /* as HIP 5 exports a few */
uint64_t hipStart(const char *);
void hipStop(uint64_t);
int hipMany(void *, int, unsigned, const void *, size_t, int, void *, float, unsigned long long);

/* A caller (caller.c) calls each once, hipGetNothing in three ways. */
void caller_calls(void);

/* Its data that leads to hipGetNothing, and a function of its own that it may put there. */
int (**caller_data(void))(void);
int caller_own(void);

/* The payload's part (got_payload.c). */
#define EXPORTED __attribute__((visibility("default")))
EXPORTED int got_test(const char *folder, void (*program)(void));
EXPORTED int table_test(const char *library);
#endif
