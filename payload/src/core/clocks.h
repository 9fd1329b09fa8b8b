/* clocks.h: stamps (session.h) to CLOCK_BOOTTIME ns. The worker only. */
#ifndef RTL_CLOCKS_H
#define RTL_CLOCKS_H

#include <stdint.h>

/* Once at arming, then once a round: a fresh pair of both clocks. */
void clocks_start(void);
void clocks_sample(void);

uint64_t stamp_to_ns(uint64_t stamp);

#endif
