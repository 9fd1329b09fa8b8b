/*
 * hooks_test: the hooks of every kind in the slots of the real HSA runtime, which is
 * loaded and not initialized: they are found, patched, called, buried by another tool, and
 * restored.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/runtime.h"
#include "core/session_flags.h"
#include "kinds/kind.h"
#include "kinds/null/null.h"
#include "record/event.h"
#include "core/shared_hooks.h"

#define CHECK(x)                                                               \
	do {                                                                   \
		if (!(x)) {                                                    \
			printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #x); \
			exit(1);                                               \
		}                                                              \
	} while (0)

#define HOOKS_MOST 128
static struct hook *hooks[HOOKS_MOST];
static uintptr_t before[HOOKS_MOST];
static uint32_t count;

static void note_slots(const struct hook_table *t)
{
	for (uint32_t i = 0; i < t->count; i++) {
		if (t->hooks[i].state == HOOK_ABSENT)
			continue;
		CHECK(count < HOOKS_MOST);
		hooks[count] = &t->hooks[i];
		before[count++] = atomic_load(t->hooks[i].slot);
	}
}

static void find(void)
{
	char err[RTL_TEXT_MAX] = "";

	CHECK(dlopen("libhsa-runtime64.so.1", RTLD_NOW));
	CHECK(runtime_find("", err, sizeof err) == 0);
	for (uint32_t kind = 0; kind < RTL_KINDS_MAX; kind++)
		config.trace |= (uint64_t)(kinds[kind] != NULL) << kind;
	CHECK(kinds_find_hooks(err, sizeof err) == 0 && hooks_find(&shared_hook_table, err, sizeof err) == 0);
	for (uint32_t kind = 0; kind < RTL_KINDS_MAX; kind++)
		if (kinds[kind])
			note_slots(&kinds[kind]->hooks);
	note_slots(&shared_hook_table);
}

static void patch(void)
{
	kinds_patch();
	hooks_patch(&shared_hook_table);
	for (uint32_t i = 0; i < count; i++)
		CHECK(atomic_load(hooks[i]->slot) == hooks[i]->wrapper && atomic_load(&hooks[i]->next) == before[i]);
}

static struct hooks_tally restore(void)
{
	struct hooks_tally t = {0};

	kinds_restore_hooks();
	hooks_restore(&shared_hook_table);
	kinds_add_tally(&t);
	hooks_add_tally(&shared_hook_table, &t);
	return t;
}

static void check_restored(void)
{
	struct hooks_tally t = restore();

	CHECK(t.patched == 0 && t.buried == 0);
	for (uint32_t i = 0; i < count; i++)
		CHECK(atomic_load(hooks[i]->slot) == before[i]);
}

/* No range is left out of the grace in silence. */
static void ranges_that_do_not_fit(void)
{
	struct rtl_range out[RTL_GRACE_RANGES];
	uint32_t n = hooks_grace_ranges(&dispatch_kind.hooks, out, 0, RTL_GRACE_RANGES);

	CHECK(n > 1 && n < RTL_GRACE_RANGES);
	CHECK(hooks_grace_ranges(&dispatch_kind.hooks, out, 0, n) == n);
	CHECK(hooks_grace_ranges(&dispatch_kind.hooks, out, 0, n - 1) > n - 1);
}

/* A call of the runtime's exported function reaches the wrapper, and then the runtime. */
static void call_through(void)
{
	hsa_status_t (*get_info)(hsa_system_info_t, void *) = (__typeof__(get_info))dlsym(rt.library, "hsa_system_get_info");
	struct event e;
	uint64_t value;

	atomic_store(&session_flags.track, 1);
	null_kind.open();
	CHECK(get_info(HSA_SYSTEM_INFO_TIMESTAMP, &value) == HSA_STATUS_ERROR_NOT_INITIALIZED);
	CHECK(null_kind.close(NULL, UINT64_MAX) == 0);
	atomic_store(&session_flags.track, 0);
	CHECK(event_pop(&e) && e.kind == RTL_KIND_NULL);
	CHECK(get_info(HSA_SYSTEM_INFO_TIMESTAMP, &value) == HSA_STATUS_ERROR_NOT_INITIALIZED && !event_pop(&e));
}

static hsa_status_t others(hsa_system_info_t attribute, void *value)
{
	return wrap_system_get_info(attribute, value);
}

/* Another tool patches above us: its function stays. Ours is removed after it has gone. */
static void below_another_tool(void)
{
	struct hook *h = &null_hooks[SYSTEM_GET_INFO];

	patch();
	atomic_store(h->slot, (uintptr_t)others);
	struct hooks_tally t = restore();
	CHECK(t.buried == 1 && t.patched == 0 && atomic_load(h->slot) == (uintptr_t)others);
	atomic_store(h->slot, h->wrapper);
	check_restored();
}

int main(void)
{
	static const uint32_t owner = 1;
	static struct rtl_counters counted;

	fork_canary = &owner;
	counters = &counted;
	CHECK(events_init(false) == 0);
	find();
	ranges_that_do_not_fit();
	patch();
	call_through();
	check_restored();
	below_another_tool();
	printf("hooks_test: %u slots\n", count);
	return 0;
}
