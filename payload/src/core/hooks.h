/*
 * hooks.h: the runtime functions that are replaced while a session is active.
 *
 * HOOKS lists every one: X(id, exported name, wrapper, class). The older names
 * (…_acquire, …_release, …_acq_rel) are other stubs of the same slots.
 */
#ifndef RTL_HOOKS_H
#define RTL_HOOKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hook_class {
	HOOK_INDEX,  /* write-index functions: restored first at a detach */
	HOOK_SIGNAL, /* doorbells, re-arming, and the ends of lives: restored after the drain */
	HOOK_COPY,   /* copies, if they are to be recorded: restored first, too */
};

#define HOOKS_4_ORDERS(X, id, name, wrapper, class)                  \
	X(id##_RELAXED, name "_relaxed", wrapper##_relaxed, class)       \
	X(id##_SCACQUIRE, name "_scacquire", wrapper##_scacquire, class) \
	X(id##_SCRELEASE, name "_screlease", wrapper##_screlease, class) \
	X(id##_SCACQ_SCREL, name "_scacq_screl", wrapper##_scacq_screl, class)

#define HOOKS(X)                                                                                                  \
	HOOKS_4_ORDERS(X, INDEX_ADD, "hsa_queue_add_write_index", index_add, HOOK_INDEX)                          \
	HOOKS_4_ORDERS(X, INDEX_CAS, "hsa_queue_cas_write_index", index_cas, HOOK_INDEX)                          \
	X(INDEX_STORE_RELAXED, "hsa_queue_store_write_index_relaxed", index_store_relaxed, HOOK_INDEX)            \
	X(INDEX_STORE_SCRELEASE, "hsa_queue_store_write_index_screlease", index_store_screlease, HOOK_INDEX)      \
	X(INDEX_LOAD_RELAXED, "hsa_queue_load_write_index_relaxed", index_load_relaxed, HOOK_INDEX)               \
	X(INDEX_LOAD_SCACQUIRE, "hsa_queue_load_write_index_scacquire", index_load_scacquire, HOOK_INDEX)         \
	X(STORE_RELAXED, "hsa_signal_store_relaxed", store_relaxed, HOOK_SIGNAL)                                  \
	X(STORE_SCRELEASE, "hsa_signal_store_screlease", store_screlease, HOOK_SIGNAL)                            \
	X(SILENT_STORE_RELAXED, "hsa_signal_silent_store_relaxed", silent_store_relaxed, HOOK_SIGNAL)             \
	X(SILENT_STORE_SCRELEASE, "hsa_signal_silent_store_screlease", silent_store_screlease, HOOK_SIGNAL)       \
	HOOKS_4_ORDERS(X, EXCHANGE, "hsa_signal_exchange", exchange, HOOK_SIGNAL)                                 \
	HOOKS_4_ORDERS(X, CAS, "hsa_signal_cas", cas, HOOK_SIGNAL)                                                \
	HOOKS_4_ORDERS(X, ADD, "hsa_signal_add", add, HOOK_SIGNAL)                                                \
	HOOKS_4_ORDERS(X, SUBTRACT, "hsa_signal_subtract", subtract, HOOK_SIGNAL)                                 \
	HOOKS_4_ORDERS(X, AND, "hsa_signal_and", and, HOOK_SIGNAL)                                                \
	HOOKS_4_ORDERS(X, OR, "hsa_signal_or", or, HOOK_SIGNAL)                                                   \
	HOOKS_4_ORDERS(X, XOR, "hsa_signal_xor", xor, HOOK_SIGNAL)                                                \
	X(SIGNAL_DESTROY, "hsa_signal_destroy", signal_destroy, HOOK_SIGNAL)                                      \
	X(QUEUE_DESTROY, "hsa_queue_destroy", queue_destroy, HOOK_SIGNAL)                                         \
	X(EXECUTABLE_DESTROY, "hsa_executable_destroy", executable_destroy, HOOK_SIGNAL)                          \
	X(SHUT_DOWN, "hsa_shut_down", shut_down, HOOK_SIGNAL)                                                     \
	X(COPY_LINEAR, "hsa_amd_memory_async_copy", copy_linear, HOOK_COPY)                                           \
	X(COPY_RECT, "hsa_amd_memory_async_copy_rect", copy_rect, HOOK_COPY)                                      \
	X(COPY_ON_ENGINE, "hsa_amd_memory_async_copy_on_engine", copy_on_engine, HOOK_COPY)                       \
	X(COPY_PROFILING, "hsa_amd_profiling_async_copy_enable", copy_profiling, HOOK_COPY)

#define X(id, name, wrapper, class) HOOK_##id,
enum hook_id { HOOKS(X) HOOK_COUNT };
#undef X

/* What a wrapper calls. Set before its slot is patched and valid ever after:
 * a thread may stay inside a wrapper for as long as it likes. */
extern _Atomic(uintptr_t) hook_next[HOOK_COUNT];

/* The next function behind a wrapper, as TYPE. */
#define NEXT(id, TYPE) ((TYPE)(uintptr_t)atomic_load_explicit(&hook_next[HOOK_##id], memory_order_acquire))

/*
 * Finds and decodes every slot; those already found are kept. Functions that
 * are missing are counted; without the index, store and destroy functions
 * nothing can be recorded: -ENOSYS with the name in err.
 */
int hooks_find(char *err, size_t errlen);

/* The code ranges of the functions now behind the index slots, and of hsa_shut_down
 * (for the grace). Call before hooks_patch(). Returns how many. */
struct rtl_range;
uint32_t hooks_grace_ranges(struct rtl_range *out, uint32_t max);

/* Installs the wrappers, by CAS and in table order. */
void hooks_patch(void);
/* Restores the slots of one class where they still hold our wrapper. */
void hooks_restore(enum hook_class class);

struct hooks_tally {
	uint32_t patched; /* slots that hold our wrapper */
	uint32_t buried;  /* another tool patched above us: our wrapper passes through */
	uint32_t missing;
};
struct hooks_tally hooks_tally(void);

#endif
