/*
 * listeners.c: see listeners.h. Nothing of a listener is kept: it is looked for at each event, in the
 * objects that are loaded then, and the object is held while its function runs.
 */
#define _GNU_SOURCE
#include "session/listeners.h"

#include <link.h>
#include <string.h>

#include "core/glibc217.h"
#include "core/modules.h"
#include "core/threads.h"
#include "session/entry.h"

#define OBJECTS_MAX 16 /* with listeners */
#define PATH_MOST 4096

/* A loaded object that defines a listener. */
struct object {
	uintptr_t function;
	char path[PATH_MOST]; /* empty: the program */
};

struct objects {
	uint32_t count;
	struct object all[OBJECTS_MAX];
};

static const char listener_name[] = "rtl_tables_listener";

static uint32_t event_now; /* enum rtl_tables_event */
static bool announced;     /* to a listener: a session's begin, and not its end yet. With the session's lock */
static bool started;       /* thread was not joined yet. With the session's lock */
static pthread_t thread;
static uint32_t found;     /* listeners at the last event */

static int note_object(struct dl_phdr_info *info, size_t size, void *data)
{
	struct objects *list = data;
	struct object *o = &list->all[list->count];
	struct module m;

	(void)size;
	if (!info->dlpi_name || strlen(info->dlpi_name) >= PATH_MOST || !module_read(info, &m))
		return 0;
	o->function = module_defines(&m, listener_name);
	strcpy(o->path, info->dlpi_name);
	list->count += o->function != 0;
	return list->count == OBJECTS_MAX;
}

/* The object is held while its function runs. It may be another one by now: the function has to be where it was. */
static void call_in(const struct object *o)
{
	void *held = dlopen(o->path[0] ? o->path : NULL, RTLD_NOLOAD | RTLD_LAZY);
	void *f = held ? dlsym(held, listener_name) : NULL;
	void (*listener)(uint32_t, const struct rtl_tables *);

	if (f && (uintptr_t)f == o->function) {
		memcpy(&listener, &f, sizeof listener);
		listener(__atomic_load_n(&event_now, __ATOMIC_RELAXED), rtl_tables(RTL_TABLES_VERSION));
	}
	if (held)
		dlclose(held);
}

/* The memory is no allocator's of the application. */
static void *call_all(void *unused)
{
	struct objects *list = map_memory(sizeof *list);

	if (!list)
		return unused;
	dl_iterate_phdr(note_object, list);
	__atomic_store_n(&found, list->count, __ATOMIC_RELAXED); /* thread_join() orders it */
	for (uint32_t i = 0; i < list->count; i++)
		call_in(&list->all[i]);
	unmap_memory(list, sizeof *list);
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
	__atomic_store_n(&found, 0, __ATOMIC_RELAXED);
	started = !thread_start(&thread, call_all, &tid);
	if (join(most_ns) && !__atomic_load_n(&found, __ATOMIC_RELAXED))
		announced = false; /* nobody needs a thread at the end */
}
