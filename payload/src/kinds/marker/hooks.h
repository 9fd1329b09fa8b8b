/* hooks.h: where ROCTx's calls are met (wrap.c): libroctx64's slot for a tool's callback, and the
 * slots of librocprofiler-sdk-roctx's table. */
#ifndef RTL_MARKER_HOOKS_H
#define RTL_MARKER_HOOKS_H

#include "core/hooks.h"
#include "core/sys.h"

enum marker_hook {
	ROCTX_CALLBACK,
	SDK_MARK, /* from here on: the SDK's library */
	SDK_PUSH,
	SDK_POP,
	SDK_START,
	SDK_STOP,
	MARKER_HOOKS
};
extern HIDDEN struct hook marker_hooks[MARKER_HOOKS];

#define ROCTX_DOMAIN 6 /* of the callback */

/* A callback's argument. */
struct roctx_data {
	const char *message;
	uint64_t range;
};

int wrap_roctx_callback(uint32_t domain, uint32_t operation, const struct roctx_data *data);
void wrap_roctx_mark(const char *message);
int wrap_roctx_push(const char *message);
int wrap_roctx_pop(void);
uint64_t wrap_roctx_start(const char *message);
void wrap_roctx_stop(uint64_t range);

#endif
