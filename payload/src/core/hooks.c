#define _GNU_SOURCE
#include "core/hooks.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

#include "abi.h"
#include "core/glibc217.h"
#include "core/ranges.h"
#include "core/runtime.h"
#include "core/slots.h"

static const char *find_one(struct hook *h)
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
	/* An arming that fails before the patching calls through NEXT, too. */
	atomic_store(&h->next, atomic_load(h->slot));
	h->state = HOOK_READY;
	return NULL;
}

/* A function that the runtime exports must be hooked: a trace that misses some of the calls
 * of its kind is incomplete. */
static bool is_needed(const struct hook *h)
{
	return h->need == HOOK_REQUIRED || (h->need == HOOK_IF_EXPORTED && dlsym(rt.library, h->name));
}

int hooks_find(const struct hook_table *t, char *err, size_t errlen)
{
	for (struct hook *h = t->hooks; h < t->hooks + t->count; h++) {
		const char *fault = h->state == HOOK_ABSENT ? find_one(h) : NULL;

		if (fault && is_needed(h)) {
			snprintf(err, errlen, "%s %s in %s", h->name, fault, rt.path);
			return -ENOSYS;
		}
	}
	return 0;
}

static uint32_t add_range(struct rtl_range *out, uint32_t n, uint32_t max, uintptr_t function)
{
	struct rtl_range range;
	bool exact;

	if (n > max || !function || !range_of((const void *)function, &range, &exact))
		return n;
	for (uint32_t i = 0; i < n; i++)
		if (out[i].lo == range.lo && out[i].hi == range.hi)
			return n;
	if (n < max)
		out[n] = range;
	return n + 1;
}

/* Adds the function in the slot and the function behind our wrapper: while another tool's
 * function lay above the wrapper, threads passed through the wrapper to the latter. */
uint32_t hooks_grace_ranges(const struct hook_table *t, struct rtl_range *out, uint32_t n, uint32_t max)
{
	for (struct hook *h = t->hooks; h < t->hooks + t->count; h++) {
		if (!h->grace || h->state == HOOK_ABSENT)
			continue;
		uintptr_t target = atomic_load(h->slot);

		if (target != h->wrapper)
			n = add_range(out, n, max, target);
		n = add_range(out, n, max, atomic_load(&h->next));
	}
	return n;
}

/*
 * If a buried slot holds neither our wrapper nor the function that we restored, another tool
 * has patched it above us. That tool's next function is our wrapper, which is still in the
 * chain and becomes active again there. If our wrapper called that tool's function next, the
 * chain would be a loop.
 */
static void patch_one(struct hook *h)
{
	uintptr_t now = atomic_load(h->slot);

	if (now == h->wrapper) {
		h->state = HOOK_PATCHED;
		return;
	}
	if (h->state == HOOK_BURIED && now != atomic_load(&h->next))
		return;
	do {
		if (now == h->wrapper)
			break;
		atomic_store_explicit(&h->next, now, memory_order_release); /* pairs with NEXT */
	} while (!atomic_compare_exchange_strong(h->slot, &now, h->wrapper));
	h->state = HOOK_PATCHED;
}

void hooks_patch(const struct hook_table *t)
{
	for (struct hook *h = t->hooks; h < t->hooks + t->count; h++)
		if (h->state != HOOK_ABSENT)
			patch_one(h);
}

void hooks_restore(const struct hook_table *t)
{
	for (struct hook *h = t->hooks; h < t->hooks + t->count; h++) {
		uintptr_t ours = h->wrapper, next = atomic_load(&h->next);

		/* A buried wrapper may be on top again: the other tool has restored the slot. */
		if (h->state != HOOK_PATCHED && h->state != HOOK_BURIED)
			continue;
		if (atomic_compare_exchange_strong(h->slot, &ours, next) || ours == next)
			h->state = HOOK_READY;
		else
			h->state = HOOK_BURIED;
	}
}

void hooks_add_tally(const struct hook_table *t, struct hooks_tally *sum)
{
	for (const struct hook *h = t->hooks; h < t->hooks + t->count; h++) {
		sum->patched += h->state == HOOK_PATCHED;
		sum->buried += h->state == HOOK_BURIED;
		sum->missing += h->state == HOOK_ABSENT && h->need != HOOK_IF_EXPORTED;
	}
}
