/*
 * env.h: parses the environment buffer into a configuration. internal/envbuf is the Go
 * half, and documents the layout. The vectors in testdata/envbuf test both.
 */
#ifndef RTL_ENV_H
#define RTL_ENV_H

#include <stddef.h>
#include <stdint.h>

#include "core/env_keys.h"

/* Every setting at its default. */
void rtl_env_defaults(struct rtl_config *out);

/*
 * Fills *out from a buffer: defaults, then its variables; unknown ones are
 * ignored. A malformed buffer or a bad value: -EINVAL, "offset N: what" in err, and
 * *out does not change. The buffer must not change meanwhile: the caller copies one
 * that is in the control block.
 */
int rtl_env_parse(const void *buf, uint64_t len, struct rtl_config *out, char *err, size_t errlen);

#endif
