/*
 * control_block.h: the control block, the session's states, and the control thread.
 */
#ifndef RTL_CONTROL_H
#define RTL_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "abi.h"
#include "core/session_flags.h" /* control */

/* The control memfd and the control thread, once. 0 or -errno. */
int control_create(void);

/* In a forked child: the block is its parent's, and not even mapped. */
bool control_is_inherited(void);

/* A session has begun: returns when the control thread watches its recorder,
 * or after a tenth of a second (it is wedged, or it is the caller). */
void control_watch(void);

/* 0: none. */
int control_tid(void);

/* The one place where the state changes. What the block shows of state and threads is
 * a copy, never read back: others can write there. */
void control_set_state(enum rtl_state s);
enum rtl_state control_state(void);

/* Keeps err and its text in the control block; returns err. */
int control_fail(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Makes this process the one that is_original_process() (session.h) tells. 0 or -errno. */
int session_own(void);

/* Begins a session: everything is ready before the first slot is patched.
 * env: an environment buffer that does not change meanwhile. 0 or -errno with
 * a text in the control block, and then nothing of it is left. */
int session_arm(const void *env, uint64_t len);

/* Ends the session, if one is active, and waits for kernels still running for as long
 * as is configured. 0 or -errno. */
int session_disarm(enum rtl_end why);
/* The same for that session only, whose recorder is dead: a later one may have begun
 * by the time that others have let us at it. */
int session_disarm_orphan(uint32_t generation);
/* The same in haste, as the runtime or the process ends: an arming that is in progress
 * gives up, and the drain of a disarming, within a millisecond. */
int session_end_now(enum rtl_end why);

/* The last session's end was put off: its worker is held up. Then session_disarm()
 * and session_arm() try again. */
bool session_is_unfinished(void);

#endif
