/* tables.c: the function tables, for others in the process (include/rtl/tables.h). */
#define _GNU_SOURCE
#include <rtl/tables.h>
#include <string.h>

#include "core/glibc217.h"
#include "core/runtime.h"
#include "core/shared_hooks.h"
#include "core/slots.h"
#include "kinds/kind.h"
#include "session/entry.h"

/* Tables of hooks: the shared ones, and two of each kind. */
#define TABLES (1 + 2 * RTL_KINDS_MAX)

static const struct hook_table *table_at(uint32_t i)
{
	const struct kind *k = i ? kinds[(i - 1) / 2] : NULL;

	if (!i)
		return &shared_hook_table;
	if (!k)
		return NULL;
	return i % 2 ? &k->hooks : k->outer_hooks;
}

static bool is_known(const struct hook *h)
{
	return h->slot && atomic_load(&h->next);
}

/* Calls f for each hook whose slot is known, as long as it returns false. */
static const struct hook *search(bool (*f)(const struct hook *, const void *), const void *data)
{
	for (uint32_t i = 0; i < TABLES; i++) {
		const struct hook_table *t = table_at(i);

		for (uint32_t j = 0; t && j < t->count; j++)
			if (is_known(&t->hooks[j]) && f(&t->hooks[j], data))
				return &t->hooks[j];
	}
	return NULL;
}

static bool has_wrapper(const struct hook *h, const void *wrapper)
{
	return h->wrapper == (uintptr_t)wrapper;
}

static bool has_slot(const struct hook *h, const void *slot)
{
	return (const void *)h->slot == slot;
}

static bool has_name(const struct hook *h, const void *name)
{
	return !strcmp(h->name, name);
}

#define LAYERS 4 /* of our wrappers, one behind the other */

static void describe(const char *name, const void *slot, struct rtl_table_entry *e)
{
	const struct hook *h;

	e->size = sizeof *e;
	e->name = name;
	e->slot = slot;
	e->current = e->original = (const void *)atomic_load((_Atomic(uintptr_t) *)(uintptr_t)slot);
	for (int i = 0; i < LAYERS && (h = search(has_wrapper, e->original)); i++)
		e->original = (const void *)atomic_load(&h->next);
	e->patched = e->current != e->original;
}

struct visit {
	rtl_table_visitor *visit;
	void *data;
	int result;
};

static bool visit_one(const struct hook *h, const void *data)
{
	struct visit *v = *(struct visit *const *)data;
	struct rtl_table_entry e;

	if (search(has_slot, (const void *)h->slot) != h)
		return false; /* of an inner hook, too */
	describe(h->name, (const void *)h->slot, &e);
	v->result = v->visit(&e, v->data);
	return v->result != 0;
}

static int each(rtl_table_visitor *visit, void *data)
{
	struct visit v = {visit, data, 0}, *at = &v;

	search(visit_one, &at);
	return v.result;
}

/* A slot that no session has wanted. */
static const void *slot_of(const char *name)
{
	const void *stub = rt.library ? dlsym(rt.library, name) : NULL;

	return stub && !strncmp(name, "hsa_", 4) ? slot_decode(stub) : NULL;
}

static int find(const char *name, struct rtl_table_entry *entry)
{
	const struct hook *h = name ? search(has_name, name) : NULL;
	const void *slot = h ? (const void *)h->slot : name ? slot_of(name) : NULL;
	struct rtl_table_entry e;

	if (!slot || !entry)
		return -1;
	describe(h ? h->name : name, slot, &e);
	memcpy(entry, &e, entry->size < sizeof e ? entry->size : sizeof e);
	return 0;
}

static const struct rtl_tables tables = {RTL_TABLES_VERSION, sizeof tables, each, find};

__attribute__((visibility("default"))) const struct rtl_tables *rtl_tables(uint32_t version)
{
	return version == RTL_TABLES_VERSION ? &tables : NULL;
}
