/*
 * listeners.c: see listeners.h. Nothing of a listener is kept: it is looked for at each event, in the
 * objects that are loaded then, and the object is held while its function runs.
 */
#define _GNU_SOURCE
#include "session/listeners.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "core/glibc217.h"
#include "core/threads.h"
#include "session/entry.h"

#define OBJECTS_MAX 1024
#define PATH_MOST 4096

/* A loaded object. */
struct object {
	uintptr_t lo, hi; /* its segments */
	char *path;       /* empty: the program */
};

struct objects {
	uint32_t count;
	struct object all[OBJECTS_MAX];
};

static uint32_t event_now; /* enum rtl_tables_event */
static bool announced;     /* a session's begin, and not its end yet. With the session's lock */
static bool started;       /* thread was not joined yet. With the session's lock */
static pthread_t thread;

static int note_object(struct dl_phdr_info *info, size_t size, void *data)
{
	struct objects *list = data;
	struct object o = {.lo = UINTPTR_MAX};

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t lo = info->dlpi_addr + ph->p_vaddr;

		if (ph->p_type != PT_LOAD)
			continue;
		o.lo = lo < o.lo ? lo : o.lo;
		o.hi = lo + ph->p_memsz > o.hi ? lo + ph->p_memsz : o.hi;
	}
	o.path = info->dlpi_name ? strndup(info->dlpi_name, PATH_MOST) : NULL;
	if (o.path)
		list->all[list->count++] = o;
	return list->count == OBJECTS_MAX;
}

/* dlsym() also searches what the object depends on: only its own function counts. */
static void call_in(const struct object *o)
{
	void *held = dlopen(o->path[0] ? o->path : NULL, RTLD_NOLOAD | RTLD_LAZY);
	void *f = held ? dlsym(held, "rtl_tables_listener") : NULL;
	void (*listener)(uint32_t, const struct rtl_tables *);

	if (f && (uintptr_t)f >= o->lo && (uintptr_t)f < o->hi) {
		memcpy(&listener, &f, sizeof listener);
		listener(__atomic_load_n(&event_now, __ATOMIC_RELAXED), rtl_tables(RTL_TABLES_VERSION));
	}
	if (held)
		dlclose(held);
}

static void *call_all(void *unused)
{
	struct objects *list = calloc(1, sizeof *list);

	if (list)
		dl_iterate_phdr(note_object, list);
	for (uint32_t i = 0; list && i < list->count; i++) {
		call_in(&list->all[i]);
		free(list->all[i].path);
	}
	free(list);
	return unused;
}

/* False: a listener of an earlier event has not returned yet. */
static bool join(uint64_t most_ns)
{
	started = started && !thread_join(thread, most_ns);
	return !started;
}

void listeners_call(enum rtl_tables_event event, uint64_t most_ns)
{
	uint32_t tid;

	if (event == RTL_TABLES_RESTORED && !announced)
		return;
	announced = event == RTL_TABLES_WILL_PATCH;
	if (!join(0))
		return;
	__atomic_store_n(&event_now, event, __ATOMIC_RELAXED);
	started = !thread_start(&thread, call_all, &tid);
	join(most_ns);
}
