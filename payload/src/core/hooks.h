/*
 * hooks.h: the runtime's functions that our wrappers replace while a session is active.
 * Finds, patches and restores their slots. Each kind has a table of its own hooks;
 * core/shared_hooks.h has the hooks that kinds share. The older names of functions
 * (…_acquire, …_release, …_acq_rel) are other stubs of the same slots.
 */
#ifndef RTL_HOOKS_H
#define RTL_HOOKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hook_need {
	HOOK_REQUIRED,    /* without it the kind cannot be recorded */
	HOOK_IF_EXPORTED, /* required if the runtime exports it; older runtimes do not */
	HOOK_OPTIONAL,    /* counted if it is missing */
};

enum hook_state {
	HOOK_ABSENT,  /* not found, or its stub does not decode */
	HOOK_READY,   /* the slot is known, and does not hold our wrapper */
	HOOK_PATCHED, /* the slot holds our wrapper */
	HOOK_BURIED,  /* another tool has patched the slot above our wrapper */
};

struct hook {
	/* What the wrapper calls. Set before the slot is patched, and valid forever: a thread
	 * may stay inside a wrapper for any time. */
	_Atomic(uintptr_t) next;
	uintptr_t wrapper;
	const char *name; /* as the runtime exports it */
	_Atomic(uintptr_t) *slot;
	uint8_t need;  /* enum hook_need */
	uint8_t state; /* enum hook_state */
	bool grace;    /* arming waits until no thread is inside the raw function */
};

struct hook_table {
	struct hook *hooks;
	uint32_t count;
};
#define HOOK_TABLE(hooks) {(hooks), sizeof(hooks) / sizeof *(hooks)}

/* A row of a table: [ID] = HOOK("name", wrapper, NEED). */
#define HOOK(exported, function, how) {.name = (exported), .wrapper = (uintptr_t)(function), .need = (how)}
#define HOOK_WITH_GRACE(exported, function, how) \
	{.name = (exported), .wrapper = (uintptr_t)(function), .need = (how), .grace = true}

/* Rows and ids of a function that comes with each of the four memory orders. */
#define HOOKS_4_ORDERS(ID, exported, function, how, ROW)                    \
	[ID##_RELAXED] = ROW(exported "_relaxed", function##_relaxed, how),       \
	[ID##_SCACQUIRE] = ROW(exported "_scacquire", function##_scacquire, how), \
	[ID##_SCRELEASE] = ROW(exported "_screlease", function##_screlease, how), \
	[ID##_SCACQ_SCREL] = ROW(exported "_scacq_screl", function##_scacq_screl, how)
#define IDS_4_ORDERS(ID) ID##_RELAXED, ID##_SCACQUIRE, ID##_SCRELEASE, ID##_SCACQ_SCREL
/* The prototypes of its wrappers. */
#define DECLARE_4_ORDERS(type, name, ...)      \
	type wrap_##name##_relaxed(__VA_ARGS__);   \
	type wrap_##name##_scacquire(__VA_ARGS__); \
	type wrap_##name##_screlease(__VA_ARGS__); \
	type wrap_##name##_scacq_screl(__VA_ARGS__);

/* The next function behind a wrapper, as TYPE. hook: a row of a static table, so that its
 * address is a constant. acquire: pairs with hooks_patch(). */
#define NEXT(hook, TYPE) ((TYPE)(uintptr_t)atomic_load_explicit(&(hook).next, memory_order_acquire))

/* Finds and decodes every slot of a table; slots that were found before are kept. 0, or
 * -ENOSYS with the name of a missing function in err. */
int hooks_find(const struct hook_table *t, char *err, size_t errlen);

/* Adds the code ranges of the functions that are now behind the slots of the hooks with a
 * grace period. n: entries that out has already; max: its size. Call before hooks_patch().
 * Returns the new number of entries; more than max: out is too small. */
struct rtl_range;
uint32_t hooks_grace_ranges(const struct hook_table *t, struct rtl_range *out, uint32_t n, uint32_t max);

/* Installs the wrappers, by compare-and-swap and in the order of the table. */
void hooks_patch(const struct hook_table *t);
/* Restores the slots that still hold our wrapper. */
void hooks_restore(const struct hook_table *t);

struct hooks_tally {
	uint32_t patched; /* slots that hold our wrapper */
	uint32_t buried;  /* another tool patched above us: our wrapper passes through */
	uint32_t missing; /* not counting HOOK_IF_EXPORTED */
};
void hooks_add_tally(const struct hook_table *t, struct hooks_tally *sum);

#endif
