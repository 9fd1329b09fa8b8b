/* embed_toy.h: see embed_toy.c. */
#ifndef RTL_EMBED_TOY_H
#define RTL_EMBED_TOY_H

#ifdef __cplusplus
#include <atomic>
#define TOY_ATOMIC(type) std::atomic<type>
extern "C" {
#else
#define TOY_ATOMIC(type) _Atomic type
#endif
#include <stdint.h>

extern TOY_ATOMIC(uint64_t) toy_made;

#ifdef __cplusplus
}
#endif
#endif
