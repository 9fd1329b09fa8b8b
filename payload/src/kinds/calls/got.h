/*
 * got.h: functions of a library without a dispatch table (HIP before 6.0) are intercepted at
 * their callers: in the entries of each loaded object's global offset table, and in other
 * data that the loader has filled with the function's address.
 */
#ifndef RTL_GOT_H
#define RTL_GOT_H

#include <stdint.h>

/* The session begins: replaces the entries of all loaded objects. */
void got_patch(void);
/* The worker: the entries of objects that were loaded since, and those that the loader has
 * bound since. Does little until some time has passed. */
void got_patch_new(uint64_t now_ns);
/* Restores the entries that still lead to our wrappers, in the objects that are still loaded. */
void got_restore(void);

/* The process ends: the entries stay, and their wrappers pass calls through. To restore them, a thread waits
 * for a lock of the dynamic linker, which a thread of the application may hold for ever. */
void got_leave(void);

struct got_tally {
	uint32_t entries, modules;
	uint32_t dropped; /* entries for which there was no room, or no permission */
};
struct got_tally got_tally(void);

#endif
