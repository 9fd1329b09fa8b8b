/*
 * quiesce.h: the grace period, a wait after patching until no thread can still be inside
 * a raw write-index function that it entered before. Usually no thread is stopped for it; see
 * docs/decisions/0003.
 */
#ifndef RTL_QUIESCE_H
#define RTL_QUIESCE_H

#include <stdbool.h>
#include <stdint.h>

struct rtl_range;

/*
 * ranges: the code that threads must have left. Returns 0; -ETIMEDOUT with *left threads
 * not known to be outside; -ECANCELED when *cancel becomes non-zero;
 * -E2BIG: there are too many threads; or another -errno.
 */
int grace_wait(const struct rtl_range *ranges, uint32_t count, uint64_t timeout_ns, const uint32_t *cancel, uint32_t *left);

#endif
