/*
 * env.h: the environment buffer turned into a configuration of the payload's
 * own. internal/envbuf is the Go half, and says the layout; both are held to the
 * vectors in testdata/envbuf.
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
 * ignored. A malformed buffer or a bad value is refused with -EINVAL and
 * "offset N: what" in err, and *out keeps what it held. The buffer must not
 * change meanwhile: one in the control block is copied first.
 */
int rtl_env_parse(const void *buf, uint64_t len, struct rtl_config *out, char *err, size_t errlen);

#endif
