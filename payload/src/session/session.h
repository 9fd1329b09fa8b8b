/*
 * session.h: what the beginning of a session (arm.c) and its end (disarm.c) share. All
 * but session_enter() is called with the session's lock.
 */
#ifndef RTL_STATE_H
#define RTL_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "abi.h"

/* One arming or disarming at a time. 0, or -EBUSY and its text: it is not ours. */
int session_enter(void);
void session_leave(void);

extern uint32_t session_cancelled; /* threads that wait in session_end_now() */

bool session_is_idle(void);

/* Why the last session ended. */
void session_note_end(enum rtl_end why);
enum rtl_end session_last_end(void);

/* A named step at which tests let a session fail (fault.h). 0 or -EIO. */
int session_step(const char *name);

/* Ring and hooks, as they are now, into the control block. */
void session_describe_ring(void);
void session_describe_hooks(void);

/*
 * After the hooks have gone: tables, of which threads do not mind that are late in a
 * wrapper. That of the application's signals is not of these: who has seen that a
 * dispatch is pending there reads next on which signal, and would find none. It goes
 * when the next session begins.
 */
void session_forget_tables(void);

/*
 * The last part of every end, and of an arming that fails with its worker started.
 * While the worker is held up, all that it uses stays, and the wrappers that keep
 * signals and runtime there for it: -EBUSY. 0: nothing is left.
 */
int session_finish(enum rtl_end why);

/* The same of a session that has been active, which is then dormant; also some time
 * after one that was put off. */
int session_finish_dormant(enum rtl_end why);

#endif
