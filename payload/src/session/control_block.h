/*
 * control_block.h: the control block, the session's states, and the control thread.
 */
#ifndef RTL_CONTROL_BLOCK_H
#define RTL_CONTROL_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "abi.h"
#include "core/session_flags.h" /* control */

/* The control memfd and the control thread, once. 0 or -errno. */
int control_create(void);

/* In a forked child: the block is its parent's, and is not mapped. */
bool control_is_inherited(void);

/* A session has begun: returns when the control thread watches its recorder,
 * or after a tenth of a second (it is wedged, or it is the caller). */
void control_watch(void);

/* 0: none. */
int control_tid(void);

/* Changes the state. The block shows copies of the state and the thread ids, which are never
 * read back, because other processes can write there. */
void control_set_state(enum rtl_state s);
enum rtl_state control_state(void);

/* Keeps err and its text in the control block; returns err. */
int control_fail(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Makes this process the one in which is_original_process() (core/session_flags.h) is true.
 * 0 or -errno. */
int session_own(void);

/* Begins a session: everything is ready before the first slot is patched.
 * env: an environment buffer that does not change meanwhile. 0 or -errno with
 * a text in the control block, and then nothing of it is left. */
int session_arm(const void *env, uint64_t len);

/* Ends the session, if one is active, and waits for kernels still running for as long
 * as is configured. 0 or -errno. */
int session_disarm(enum rtl_end why);
/* The same for the session of that generation, whose recorder is dead: a later session may
 * have begun before this thread gets the lock. */
int session_disarm_orphan(uint32_t generation);
/* The same when the runtime or the process ends: an arming in progress gives up within a
 * millisecond, and so does the drain of a disarming. */
int session_end_now(enum rtl_end why);

/* The last session's end was put off: its worker is held up. Then session_disarm()
 * and session_arm() try again. */
bool session_is_unfinished(void);

#endif
