#define _GNU_SOURCE
#include "core/hooks.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

#include "abi.h"
#include "core/glibc217.h"
#include "core/ranges.h"
#include "core/runtime.h"
#include "core/session_flags.h"
#include "core/slots.h"
#include "wrappers.h"

enum hook_state {
	HOOK_ABSENT,  /* not found, or its stub does not decode */
	HOOK_READY,   /* slot known, not ours */
	HOOK_PATCHED, /* the slot holds our wrapper */
	HOOK_BURIED,  /* another tool's function lies above our wrapper */
};

struct hook {
	const char *name;
	uintptr_t wrapper;
	enum hook_class class;
	enum hook_state state;
	_Atomic(uintptr_t) *slot;
};

#define X(id, name, wrapper, class) {name, (uintptr_t)wrap_##wrapper, class, HOOK_ABSENT, NULL},
static struct hook hooks[HOOK_COUNT] = {HOOKS(X)};
#undef X

_Atomic(uintptr_t) hook_next[HOOK_COUNT];

static bool is_required(int id)
{
	if (id == HOOK_COPY_LINEAR || id == HOOK_COPY_PROFILING)
		return is_recorded(RTL_KIND_MEMORY_COPY);
	return hooks[id].class == HOOK_INDEX || id == HOOK_STORE_RELAXED || id == HOOK_STORE_SCRELEASE ||
	       id == HOOK_SIGNAL_DESTROY || id == HOOK_QUEUE_DESTROY || id == HOOK_SHUT_DOWN;
}

/* Where the runtime has a function that copies, nothing less than all copies through
 * it is a recording of them. */
static bool is_needed(int id)
{
	return is_required(id) || (hooks[id].class == HOOK_COPY && is_recorded(RTL_KIND_MEMORY_COPY) && dlsym(rt.library, hooks[id].name));
}

static const char *find_one(struct hook *h, _Atomic(uintptr_t) *next)
{
	void *stub = dlsym(rt.library, h->name);
	struct rtl_range text;

	if (!stub)
		return "is not exported";
	void **slot = slot_decode(stub);
	if (!slot)
		return "does not jump through a table";
	h->slot = (_Atomic(uintptr_t) *)slot;
	if (!text_of((const void *)atomic_load(h->slot), &text)) {
		h->slot = NULL;
		return "leads to no loaded code";
	}
	/* An attach that is undone before the patching calls through NEXT, too. */
	atomic_store(next, atomic_load(h->slot));
	h->state = HOOK_READY;
	return NULL;
}

int hooks_find(char *err, size_t errlen)
{
	for (int i = 0; i < HOOK_COUNT; i++) {
		struct hook *h = &hooks[i];
		const char *fault = h->state == HOOK_ABSENT ? find_one(h, &hook_next[i]) : NULL;

		if (fault && is_needed(i)) {
			snprintf(err, errlen, "%s %s in %s", h->name, fault, rt.path);
			return -ENOSYS;
		}
	}
	return 0;
}

static uint32_t add_range(struct rtl_range *out, uint32_t n, uint32_t max, uintptr_t function)
{
	bool exact;

	if (n == max || !function || !range_of((const void *)function, &out[n], &exact))
		return n;
	for (uint32_t i = 0; i < n; i++)
		if (out[i].lo == out[n].lo && out[i].hi == out[n].hi)
			return n;
	return n + 1;
}

/* Both what lies in the slot and what lies behind our wrapper: while it was
 * buried, threads passed through it to the latter. */
uint32_t hooks_grace_ranges(struct rtl_range *out, uint32_t max)
{
	uint32_t n = 0;

	for (int i = 0; i < HOOK_COUNT; i++) {
		if ((hooks[i].class != HOOK_INDEX && i != HOOK_SHUT_DOWN) || hooks[i].state == HOOK_ABSENT)
			continue;
		uintptr_t target = atomic_load(hooks[i].slot);

		if (target != hooks[i].wrapper)
			n = add_range(out, n, max, target);
		n = add_range(out, n, max, atomic_load(&hook_next[i]));
	}
	return n;
}

/*
 * A slot that holds neither our wrapper nor what we left there is another
 * tool's, patched above us: its "next" is our wrapper, so the wrapper is still
 * in the chain and becomes active again where it is. Saving that tool's
 * function as ours to call next would make a loop.
 */
static void patch_one(struct hook *h, _Atomic(uintptr_t) *next)
{
	uintptr_t now = atomic_load(h->slot);

	if (now == h->wrapper) {
		h->state = HOOK_PATCHED;
		return;
	}
	if (h->state == HOOK_BURIED && now != atomic_load(next))
		return;
	do {
		if (now == h->wrapper)
			break;
		atomic_store_explicit(next, now, memory_order_release); /* pairs with NEXT */
	} while (!atomic_compare_exchange_strong(h->slot, &now, h->wrapper));
	h->state = HOOK_PATCHED;
}

void hooks_patch(void)
{
	for (int i = 0; i < HOOK_COUNT; i++)
		if (hooks[i].state != HOOK_ABSENT && (hooks[i].class != HOOK_COPY || is_recorded(RTL_KIND_MEMORY_COPY)))
			patch_one(&hooks[i], &hook_next[i]);
}

void hooks_restore(enum hook_class class)
{
	for (int i = 0; i < HOOK_COUNT; i++) {
		struct hook *h = &hooks[i];
		uintptr_t ours = h->wrapper;

		/* A buried one may have come to light again: who was above us has gone. */
		if (h->class != class || (h->state != HOOK_PATCHED && h->state != HOOK_BURIED))
			continue;
		uintptr_t next = atomic_load(&hook_next[i]);
		if (atomic_compare_exchange_strong(h->slot, &ours, next) || ours == next)
			h->state = HOOK_READY;
		else
			h->state = HOOK_BURIED;
	}
}

struct hooks_tally hooks_tally(void)
{
	struct hooks_tally t = {0};

	for (int i = 0; i < HOOK_COUNT; i++) {
		t.patched += hooks[i].state == HOOK_PATCHED;
		t.buried += hooks[i].state == HOOK_BURIED;
		t.missing += hooks[i].state == HOOK_ABSENT && hooks[i].class != HOOK_COPY; /* newer runtimes have more of these */
	}
	return t;
}
