/* gpus.h: the GPUs that a session records. The queues of the others stay as they are. */
#ifndef RTL_GPUS_H
#define RTL_GPUS_H

#include <hsa/hsa.h>
#include <stdbool.h>

/*
 * Arming, after agents_find(): list has ranges of agents' numbers, FIRST-LAST, and PCI addresses, @ADDRESS, all
 * decimal, with commas. Empty, or something else: all GPUs are recorded.
 */
void gpus_select(const char *list);

/* Whether q, which has a hardware doorbell, belongs to a GPU that is not recorded. False also if the runtime does
 * not say to which GPU it belongs. Any thread; takes no lock. */
bool gpus_exclude(const hsa_queue_t *q);

#endif
