/*
 * unavailable.h: kinds that were asked for and cannot be recorded in this session, such as copies on
 * a runtime whose function leads through no table. The session goes on without them, and its records
 * say which, and why. Dispatches are no such kind: a session that was asked for them fails without
 * them, as one does for which no kind is left.
 */
#ifndef RTL_UNAVAILABLE_H
#define RTL_UNAVAILABLE_H

#include <stdbool.h>
#include <stdint.h>

/* Arming: each kind is tried again. */
void kinds_all_available(void);
/* Arming: the kind's step failed with r (-errno), and reason says why. Returns 0, or r: the session
 * cannot be. */
int kind_unavailable(uint32_t kind, int r, const char *reason);
/* The worker, when the session is open: writes the records. False: there is no room for one now. */
bool emit_unavailable(void);

#endif
