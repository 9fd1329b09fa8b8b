/*
 * names.h: kernel names and launch configurations, each told once per session.
 *
 * The worker resolves; an executable's destruction first lets it catch up and
 * then forgets the executable's kernels, so that a re-used address does not
 * keep a stale name.
 */
#ifndef RTL_NAMES_H
#define RTL_NAMES_H

#include <hsa/hsa.h>

#include "kinds/dispatch/queues.h"

int names_init(void);
/* A new session: every id starts anew. */
void names_reset(void);
/* The worker has ended: the memory is given back, unless a thread is between the two below. */
void names_forget(void);

/* The id of (kernel, geometry) of e, told to the ring. 0: the ring has no room
 * for the definition now, or see names_stop_waiting(). Also learns the queue's agent from the kernel. */
uint32_t launch_id(struct queue *s, const struct entry *e);

/* Worker only. A string's id, told to the ring; 0: no room. Not deduplicated. */
uint32_t string_id(const char *text, uint32_t len);

/* The session ends in haste: from now on no name is waited for. */
void names_stop_waiting(void);

/* Wrapper of hsa_executable_destroy: while the runtime destroys, the worker
 * asks nothing about executables. False: the worker does not let go in time; it
 * forgets them all when it does. names_forget_end() is told so. */
bool names_forget_begin(hsa_executable_t executable);
void names_forget_end(bool held);

#endif
