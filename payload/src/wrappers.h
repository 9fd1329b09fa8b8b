/* wrappers.h: the functions that are put into the runtime's slots (hooks.h). */
#ifndef RTL_WRAPPERS_H
#define RTL_WRAPPERS_H

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <stdbool.h>

#define DECLARE_4(type, name, ...)             \
	type wrap_##name##_relaxed(__VA_ARGS__);   \
	type wrap_##name##_scacquire(__VA_ARGS__); \
	type wrap_##name##_screlease(__VA_ARGS__); \
	type wrap_##name##_scacq_screl(__VA_ARGS__);

DECLARE_4(uint64_t, index_add, const hsa_queue_t *, uint64_t)
DECLARE_4(uint64_t, index_cas, const hsa_queue_t *, uint64_t, uint64_t)
void wrap_index_store_relaxed(const hsa_queue_t *, uint64_t);
void wrap_index_store_screlease(const hsa_queue_t *, uint64_t);
uint64_t wrap_index_load_relaxed(const hsa_queue_t *);
uint64_t wrap_index_load_scacquire(const hsa_queue_t *);

void wrap_store_relaxed(hsa_signal_t, hsa_signal_value_t);
void wrap_store_screlease(hsa_signal_t, hsa_signal_value_t);
void wrap_silent_store_relaxed(hsa_signal_t, hsa_signal_value_t);
void wrap_silent_store_screlease(hsa_signal_t, hsa_signal_value_t);
DECLARE_4(hsa_signal_value_t, exchange, hsa_signal_t, hsa_signal_value_t)
DECLARE_4(hsa_signal_value_t, cas, hsa_signal_t, hsa_signal_value_t, hsa_signal_value_t)
DECLARE_4(void, add, hsa_signal_t, hsa_signal_value_t)
DECLARE_4(void, subtract, hsa_signal_t, hsa_signal_value_t)
DECLARE_4(void, and, hsa_signal_t, hsa_signal_value_t)
DECLARE_4(void, or, hsa_signal_t, hsa_signal_value_t)
DECLARE_4(void, xor, hsa_signal_t, hsa_signal_value_t)

hsa_status_t wrap_copy_linear(void *, hsa_agent_t, const void *, hsa_agent_t, size_t, uint32_t, const hsa_signal_t *, hsa_signal_t);
hsa_status_t wrap_copy_on_engine(void *, hsa_agent_t, const void *, hsa_agent_t, size_t, uint32_t, const hsa_signal_t *,
				 hsa_signal_t, int, bool);
hsa_status_t wrap_copy_rect(const hsa_pitched_ptr_t *, const hsa_dim3_t *, const hsa_pitched_ptr_t *, const hsa_dim3_t *,
			    const hsa_dim3_t *, hsa_agent_t, hsa_amd_copy_direction_t, uint32_t, const hsa_signal_t *, hsa_signal_t);
hsa_status_t wrap_copy_profiling(bool);

hsa_status_t wrap_signal_destroy(hsa_signal_t);
hsa_status_t wrap_queue_destroy(hsa_queue_t *);
hsa_status_t wrap_executable_destroy(hsa_executable_t);
hsa_status_t wrap_shut_down(void);

#undef DECLARE_4
#endif
