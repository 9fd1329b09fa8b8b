/* times.h: where signals show the times of copies. */
#ifndef RTL_TIMES_H
#define RTL_TIMES_H

#include <hsa/amd_hsa_signal.h>
#include <stdbool.h>
#include <stdint.h>

/* Finds out whether the runtime's signals have the known layout. */
void signal_times_init(void);
bool signal_times_known(void);
/* A fired signal's times in ticks, as hsa_amd_profiling_get_async_copy_time finds
 * them; a kernel's where the layout is not known. */
void signal_copy_ticks(const amd_signal_t *hw, uint64_t *start, uint64_t *end);
/* CLOCK_BOOTTIME ns, from the runtime: where the layout is not known. The worker only,
 * as it takes the runtime's locks. */
bool signal_copy_times(uint64_t signal, uint64_t *start, uint64_t *end);

#endif
