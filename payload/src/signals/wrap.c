/*
 * wrap.c: functions that set a signal's value: doorbells, which publish,
 * and the re-arming of completion signals, whose times are read first.
 */
#include <hsa/amd_hsa_signal.h>

#include "core/session_flags.h"
#include "kinds/dispatch/publish.h"
#include "signals/signal_hooks.h"
#include "signals/signals.h"
#include "wrappers.h"

typedef void (*store_fn)(hsa_signal_t, hsa_signal_value_t);
typedef hsa_signal_value_t (*exchange_fn)(hsa_signal_t, hsa_signal_value_t);
typedef hsa_signal_value_t (*cas_fn)(hsa_signal_t, hsa_signal_value_t, hsa_signal_value_t);

static void bell(hsa_signal_t doorbell, const hsa_queue_t *q, hsa_signal_value_t value, store_fn next)
{
	struct queue *s = queue_find(q);

	if (LIKELY(s && s->hsa_id == q->id)) {
		queue_bell(s, doorbell, value, next);
		return;
	}
	/* No index call of this queue has been seen: either its slots were
	 * claimed before the attach, or its producer keeps an index of its own. */
	COUNT(bells_unindexed);
	queue_rung(q);
	next(doorbell, value);
}

static inline void store(hsa_signal_t signal, hsa_signal_value_t value, store_fn next)
{
	const amd_signal_t *hw = (const amd_signal_t *)signal.handle;

	if (UNLIKELY(!tracking())) {
		next(signal, value);
		return;
	}
	if (hw->kind < 0) { /* AMD_SIGNAL_KIND_DOORBELL or _LEGACY_DOORBELL */
		bell(signal, &hw->queue_ptr->hsa_queue, value, next);
		return;
	}
	signal_before_set(signal.handle);
	next(signal, value);
}

void wrap_store_relaxed(hsa_signal_t s, hsa_signal_value_t v)
{
	store(s, v, NEXT(signal_hooks[STORE_RELAXED], store_fn));
}

void wrap_store_screlease(hsa_signal_t s, hsa_signal_value_t v)
{
	store(s, v, NEXT(signal_hooks[STORE_SCRELEASE], store_fn));
}

void wrap_silent_store_relaxed(hsa_signal_t s, hsa_signal_value_t v)
{
	store(s, v, NEXT(signal_hooks[SILENT_STORE_RELAXED], store_fn));
}

void wrap_silent_store_screlease(hsa_signal_t s, hsa_signal_value_t v)
{
	store(s, v, NEXT(signal_hooks[SILENT_STORE_SCRELEASE], store_fn));
}

#define BEFORE_SET(signal)                              \
	do {                                            \
		if (tracking())                         \
			signal_before_set((signal).handle); \
	} while (0)
/* One that fails leaves the signal as it is. Should the value become the expected
 * one meanwhile, the next arming finds out what has fired. */
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
		return NEXT(signal_hooks[EXCHANGE_##ORDER], exchange_fn)(s, v);                                            \
	}                                                                                                    \
	hsa_signal_value_t wrap_cas_##order(hsa_signal_t s, hsa_signal_value_t e, hsa_signal_value_t v)      \
	{                                                                                                    \
		BEFORE_CAS(s, e);                                                                            \
		return NEXT(signal_hooks[CAS_##ORDER], cas_fn)(s, e, v);                                                   \
	}                                                                                                    \
	void wrap_add_##order(hsa_signal_t s, hsa_signal_value_t v)                                          \
	{                                                                                                    \
		BEFORE_ADD(s, v);                                                                            \
		NEXT(signal_hooks[ADD_##ORDER], store_fn)(s, v);                                                           \
	}                                                                                                    \
	void wrap_subtract_##order(hsa_signal_t s, hsa_signal_value_t v)                                     \
	{                                                                                                    \
		BEFORE_ADD(s, -v);                                                                           \
		NEXT(signal_hooks[SUBTRACT_##ORDER], store_fn)(s, v);                                                      \
	}                                                                                                    \
	void wrap_and_##order(hsa_signal_t s, hsa_signal_value_t v)                                          \
	{                                                                                                    \
		BEFORE_SET(s);                                                                               \
		NEXT(signal_hooks[AND_##ORDER], store_fn)(s, v);                                                           \
	}                                                                                                    \
	void wrap_or_##order(hsa_signal_t s, hsa_signal_value_t v)                                           \
	{                                                                                                    \
		BEFORE_SET(s);                                                                               \
		NEXT(signal_hooks[OR_##ORDER], store_fn)(s, v);                                                            \
	}                                                                                                    \
	void wrap_xor_##order(hsa_signal_t s, hsa_signal_value_t v)                                          \
	{                                                                                                    \
		BEFORE_SET(s);                                                                               \
		NEXT(signal_hooks[XOR_##ORDER], store_fn)(s, v);                                                           \
	}

SIGNAL_WRAPPERS(RELAXED, relaxed)
SIGNAL_WRAPPERS(SCACQUIRE, scacquire)
SIGNAL_WRAPPERS(SCRELEASE, screlease)
SIGNAL_WRAPPERS(SCACQ_SCREL, scacq_screl)
