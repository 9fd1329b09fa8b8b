/* settings.h: the settings of a session, as the payload takes them (docs/abi.md, environment buffer). */
#ifndef RTL_EMBED_SETTINGS_H
#define RTL_EMBED_SETTINGS_H

#include "rtl/rtl.h"

struct settings {
	char env[2048];
	uint64_t env_len;
};

/* 0 or -EINVAL. kinds: RTL_BIT() of each. */
int settings_make(const rtl_options_t *o, uint32_t kinds, struct settings *out);

#endif
