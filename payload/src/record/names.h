/*
 * names.h: kernels, their names and their code objects, each written once per session.
 *
 * The worker asks the runtime's loader. A thread that destroys an executable takes the
 * lock first and removes the executable's kernels: a later kernel at the same address gets
 * its own name. launches.h is what the rest of the payload calls.
 */
#ifndef RTL_NAMES_H
#define RTL_NAMES_H

#include <hsa/hsa.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define KERNEL_GONE 1ull /* in place of a kernel object whose executable was destroyed */

/* Makes the tables. 0 or -ENOMEM. */
int names_init(void);
/* A session begins: code objects are numbered from 1 again. */
void names_reset(void);

/* From now on the worker waits for no name: the session ends now. Any thread. */
void names_stop_waiting(void);

/* The worker only: no executable is destroyed while it has the lock. False: not now, see
 * names_stop_waiting(). */
bool names_lock(void);
bool names_try_lock(void);
void names_unlock(void);

/* Kernels may have been destroyed without the lock since the tables were emptied: the
 * worker empties them before it uses them. acquire: pairs with the store of a thread that
 * destroys. */
extern _Atomic uint32_t names_stale;
/* With the lock: empties the tables. */
void names_forget(void);
/* After names_forget(). False: a thread still destroys without the lock; the tables are
 * stale again. */
bool names_settle(void);

struct kernel_name {
	uint32_t id;    /* string id; 0: the runtime has no name for it */
	uint32_t agent; /* the code's owner: index into agents + 1; 0: unknown */
	bool not_now;   /* there is a name, and it could not be written or asked for */
};
/* With the lock. */
struct kernel_name names_look_up(uint64_t kernel_object);
/* With the lock: the object is in the table. */
bool names_has(uint64_t kernel_object);

/* Around the runtime's hsa_executable_destroy. False: the worker does not unlock in time;
 * it empties the tables later. names_destroy_end() takes that result. */
bool names_destroy_begin(hsa_executable_t executable);
void names_destroy_end(bool held);

#endif
