/*
 * rtl/tables.h: for a library or a tool in a process that rtl-attach may record. While it records,
 * rtl-attach replaces functions in the dispatch tables of ROCm's runtimes. Through this interface
 * others in the process read what is in these tables, and what rtl-attach calls behind its own functions;
 * and they hear of it before the tables are changed and after they are restored.
 *
 * Nothing is linked. A listener exports rtl_tables_listener() from its shared object (or from the
 * program, linked with -rdynamic), which may be loaded before rtl-attach's payload or after it. A reader gets
 * the interface in that function, or from rtl_tables_loaded().
 */
#ifndef RTL_TABLES_H
#define RTL_TABLES_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RTL_TABLES_VERSION 1u
#define RTL_TABLES_LIBRARY "librtl-attach.so" /* the payload's soname */

/* One function of a runtime. The strings and the addresses stay valid as long as the process lives. */
struct rtl_table_entry {
	uint32_t size;        /* of this structure, in bytes: later versions append to it */
	uint32_t patched;     /* 1: current is rtl-attach's own function */
	const char *name;     /* as the library exports it */
	const void *slot;     /* the place in the table */
	const void *current;  /* what is there */
	const void *original; /* what rtl-attach calls in the end, and puts back: the runtime's function, or that of another
			       * tool that had replaced it before; if rtl-attach has not replaced it, current */
};

/* Nonzero ends the visits. */
typedef int rtl_table_visitor(const struct rtl_table_entry *entry, void *data);

/* All functions may be called on any thread, at any time. Another thread may change a table meanwhile. */
struct rtl_tables {
	uint32_t version; /* RTL_TABLES_VERSION */
	uint32_t size;    /* of this structure, in bytes */
	/* Visits each slot that rtl-attach has replaced in any session so far, or is about to replace.
	 * Returns what the last visit returned, 0 if there was none. */
	int (*each)(rtl_table_visitor *visit, void *data);
	/* A function of the HSA runtime, or one that each() visits. The caller sets entry->size. 0, or -1: there is none. */
	int (*find)(const char *name, struct rtl_table_entry *entry);
};

enum rtl_tables_event {
	RTL_TABLES_WILL_PATCH = 1, /* a session begins: nothing is changed yet */
	RTL_TABLES_RESTORED = 2,   /* it has ended, or could not begin: nothing of it is left, but for slots that
				    * another tool has replaced meanwhile */
};

/*
 * A listener defines this function. It is called on a thread of rtl-attach's, with a small stack
 * (256 KiB) and signals blocked; the session's begin or end waits for it, one second at most in all. While it
 * still runs after that time, no listener is called, and events are lost to them. The object that defines it
 * stays loaded meanwhile. It must throw no exception. At the end of the process it is not called.
 */
void rtl_tables_listener(uint32_t event, const struct rtl_tables *tables);

/* The payload exports this. NULL: it does not have that version. */
typedef const struct rtl_tables *rtl_tables_function(uint32_t version);

/* NULL: rtl-attach has not been in this process. */
static inline const struct rtl_tables *rtl_tables_loaded(void)
{
	union {
		void *symbol;
		rtl_tables_function *function;
	} get = {NULL};
	void *library = dlopen(RTL_TABLES_LIBRARY, RTLD_NOLOAD | RTLD_LAZY);

	if (!library)
		return NULL;
	get.symbol = dlsym(library, "rtl_tables");
	dlclose(library); /* it is never unloaded */
	return get.symbol ? get.function(RTL_TABLES_VERSION) : NULL;
}

#ifdef __cplusplus
}
#endif

#endif
