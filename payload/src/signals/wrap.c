/*
 * wrap.c: functions that change a signal's value, or destroy it: the times of a pending
 * item are read first. Stores are in kinds/dispatch/doorbell.c, as a doorbell is a signal.
 */
#include <hsa/amd_hsa_signal.h>

#include "core/session_flags.h"
#include "core/shared_hooks.h"
#include "signals/signals.h"
#include "wrappers.h"

typedef void (*store_fn)(hsa_signal_t, hsa_signal_value_t);
typedef hsa_signal_value_t (*exchange_fn)(hsa_signal_t, hsa_signal_value_t);
typedef hsa_signal_value_t (*cas_fn)(hsa_signal_t, hsa_signal_value_t, hsa_signal_value_t);

#define BEFORE_SET(signal)                              \
	do {                                            \
		if (tracking())                         \
			signal_before_set((signal).handle); \
	} while (0)
/* A CAS that fails leaves the signal as it is. If the value becomes the expected one after
 * the look, the next arming finds out what has fired. */
#define BEFORE_CAS(signal, expected)                                                                              \
	do {                                                                                                      \
		const amd_signal_t *hw = (const amd_signal_t *)(signal).handle;                                   \
		if (tracking() && __atomic_load_n(&hw->value, __ATOMIC_RELAXED) == (expected))                    \
			signal_before_set((signal).handle);                                                       \
	} while (0)
#define BEFORE_ADD(signal, delta)                                \
	do {                                                     \
		if (tracking())                                  \
			signal_before_add((signal).handle, (delta)); \
	} while (0)

#define SIGNAL_WRAPPERS(ORDER, order)                                                                        \
	hsa_signal_value_t wrap_exchange_##order(hsa_signal_t s, hsa_signal_value_t v)                       \
	{                                                                                                    \
		BEFORE_SET(s);                                                                               \
		return NEXT(shared_hooks[EXCHANGE_##ORDER], exchange_fn)(s, v);                                            \
	}                                                                                                    \
	hsa_signal_value_t wrap_cas_##order(hsa_signal_t s, hsa_signal_value_t e, hsa_signal_value_t v)      \
	{                                                                                                    \
		BEFORE_CAS(s, e);                                                                            \
		return NEXT(shared_hooks[CAS_##ORDER], cas_fn)(s, e, v);                                                   \
	}                                                                                                    \
	void wrap_add_##order(hsa_signal_t s, hsa_signal_value_t v)                                          \
	{                                                                                                    \
		BEFORE_ADD(s, v);                                                                            \
		NEXT(shared_hooks[ADD_##ORDER], store_fn)(s, v);                                                           \
	}                                                                                                    \
	void wrap_subtract_##order(hsa_signal_t s, hsa_signal_value_t v)                                     \
	{                                                                                                    \
		BEFORE_ADD(s, -v);                                                                           \
		NEXT(shared_hooks[SUBTRACT_##ORDER], store_fn)(s, v);                                                      \
	}                                                                                                    \
	void wrap_and_##order(hsa_signal_t s, hsa_signal_value_t v)                                          \
	{                                                                                                    \
		BEFORE_SET(s);                                                                               \
		NEXT(shared_hooks[AND_##ORDER], store_fn)(s, v);                                                           \
	}                                                                                                    \
	void wrap_or_##order(hsa_signal_t s, hsa_signal_value_t v)                                           \
	{                                                                                                    \
		BEFORE_SET(s);                                                                               \
		NEXT(shared_hooks[OR_##ORDER], store_fn)(s, v);                                                            \
	}                                                                                                    \
	void wrap_xor_##order(hsa_signal_t s, hsa_signal_value_t v)                                          \
	{                                                                                                    \
		BEFORE_SET(s);                                                                               \
		NEXT(shared_hooks[XOR_##ORDER], store_fn)(s, v);                                                           \
	}

SIGNAL_WRAPPERS(RELAXED, relaxed)
SIGNAL_WRAPPERS(SCACQUIRE, scacquire)
SIGNAL_WRAPPERS(SCRELEASE, screlease)
SIGNAL_WRAPPERS(SCACQ_SCREL, scacq_screl)

hsa_status_t wrap_signal_destroy(hsa_signal_t signal)
{
	if (tracking() && signal.handle && !signal_before_destroy(signal.handle))
		return HSA_STATUS_SUCCESS; /* leak the signal rather than let the worker read freed memory */
	return NEXT(shared_hooks[SIGNAL_DESTROY], hsa_status_t (*)(hsa_signal_t))(signal);
}
