/* wrappers.h: the functions that are put into the runtime's slots of the shared hooks
 * (core/shared_hooks.h). The kinds' own are in their hooks.h. */
#ifndef RTL_WRAPPERS_H
#define RTL_WRAPPERS_H

#include <hsa/hsa.h>

#include "core/hooks.h"

void wrap_store_relaxed(hsa_signal_t, hsa_signal_value_t);
void wrap_store_screlease(hsa_signal_t, hsa_signal_value_t);
void wrap_silent_store_relaxed(hsa_signal_t, hsa_signal_value_t);
void wrap_silent_store_screlease(hsa_signal_t, hsa_signal_value_t);
DECLARE_4_ORDERS(hsa_signal_value_t, exchange, hsa_signal_t, hsa_signal_value_t)
DECLARE_4_ORDERS(hsa_signal_value_t, cas, hsa_signal_t, hsa_signal_value_t, hsa_signal_value_t)
DECLARE_4_ORDERS(void, add, hsa_signal_t, hsa_signal_value_t)
DECLARE_4_ORDERS(void, subtract, hsa_signal_t, hsa_signal_value_t)
DECLARE_4_ORDERS(void, and, hsa_signal_t, hsa_signal_value_t)
DECLARE_4_ORDERS(void, or, hsa_signal_t, hsa_signal_value_t)
DECLARE_4_ORDERS(void, xor, hsa_signal_t, hsa_signal_value_t)

hsa_status_t wrap_signal_destroy(hsa_signal_t);
hsa_status_t wrap_queue_destroy(hsa_queue_t *);
hsa_status_t wrap_executable_destroy(hsa_executable_t);
hsa_status_t wrap_shut_down(void);

#endif
