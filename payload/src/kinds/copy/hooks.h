/* hooks.h: the functions that copy memory. */
#ifndef RTL_COPY_HOOKS_H
#define RTL_COPY_HOOKS_H

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <stdbool.h>

#include "core/hooks.h"
#include "core/sys.h"

enum copy_hook { COPY_LINEAR, COPY_RECT, COPY_ON_ENGINE, COPY_PROFILING, COPY_HOOKS };

extern HIDDEN struct hook copy_hooks[COPY_HOOKS];

hsa_status_t wrap_copy_linear(void *, hsa_agent_t, const void *, hsa_agent_t, size_t, uint32_t, const hsa_signal_t *, hsa_signal_t);
hsa_status_t wrap_copy_on_engine(void *, hsa_agent_t, const void *, hsa_agent_t, size_t, uint32_t, const hsa_signal_t *,
				 hsa_signal_t, int, bool);
hsa_status_t wrap_copy_rect(const hsa_pitched_ptr_t *, const hsa_dim3_t *, const hsa_pitched_ptr_t *, const hsa_dim3_t *,
			    const hsa_dim3_t *, hsa_agent_t, hsa_amd_copy_direction_t, uint32_t, const hsa_signal_t *, hsa_signal_t);
hsa_status_t wrap_copy_profiling(bool);

#endif
