/* clocks.h: turns stamps (session_flags.h) into CLOCK_BOOTTIME ns. The worker only. */
#ifndef RTL_CLOCKS_H
#define RTL_CLOCKS_H

#include <stdint.h>

/* Reads both clocks: at arming, then once a round. */
void clocks_start(void);
void clocks_sample(void);

uint64_t stamp_to_ns(uint64_t stamp);

#endif
