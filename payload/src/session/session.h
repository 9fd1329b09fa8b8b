/*
 * session.h: what the beginning of a session (arm.c) and its end (disarm.c) share. All
 * but session_enter() is called with the session's lock.
 */
#ifndef RTL_SESSION_H
#define RTL_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "abi.h"

/* One arming or disarming at a time. 0, or -EBUSY and its text: another thread has the lock. */
int session_enter(void);
void session_leave(void);

extern uint32_t session_cancelled; /* threads that wait in session_end_now() */

bool session_is_idle(void);

/*
 * Of a session with a schedule, the control thread (periods.h). A window begins: 0, or -errno, and
 * the session is off as before. *armed_at: when all was ready for it (now_monotonic()). A window
 * ends: 0; or -errno, and it goes on.
 */
int session_begin_window(uint64_t *armed_at);
int session_end_window(void);
/* An arming that begins no window is undone, and the session is off. 0 or -errno. */
int session_undo_arming(void);

/* Why the last session ended. */
void session_note_end(enum rtl_end why);
enum rtl_end session_last_end(void);

/* A named step at which tests let a session fail (fault.h). 0 or -EIO. */
int session_step(const char *name);

/* Ring and hooks, as they are now, into the control block. */
void session_describe_ring(void);
void session_describe_hooks(void);

/*
 * After the hooks were restored: gives back the memory of the tables that may be empty for a
 * thread that is still in a wrapper. The table of the application's signals may not: a
 * thread that has seen a pending item there reads next on which signal it is, and would find
 * none. The next session clears it.
 */
void session_forget_tables(void);

/*
 * The last part of every end, and of an arming that fails after its worker has started. 0:
 * nothing is left. -EBUSY: the worker waits inside the runtime; what it uses stays, and so do
 * the wrappers that protect the signals and the runtime.
 */
int session_finish(enum rtl_end why);

/* The same for a session that was active; the payload is dormant then. Also later, after an
 * end that was put off. */
int session_finish_dormant(enum rtl_end why);

#endif
