/*
 * periods.h: a session with a schedule (docs/decisions/0028). The control thread arms and
 * disarms for each window; between two windows nothing is left but the ring.
 */
#ifndef RTL_PERIODS_H
#define RTL_PERIODS_H

#include <stdbool.h>
#include <stdint.h>

#include "abi.h"

/* --- with the session's lock ------------------------------------------------ */

/* Arming, after the settings were read: 0, or -EINVAL with its text. */
int periods_prepare(void);
/* Opens the ring of the session, or has one that stays open hold back records until
 * periods_opened(). 0 or -errno. */
int periods_open_ring(void);
/* The window begins now: its first record says so, and records flow. */
void periods_opened(void);
/* Before the worker writes its last records. */
void periods_closing(enum rtl_end why);
/* The worker has ended: closes the ring, or drops what it has held back. */
void periods_close_ring(enum rtl_end why);
/* The first arming, which shows that windows can be recorded, is undone: the session is off. */
void periods_tried(void);
/* Whether the schedule goes on after a session that ended so. */
bool periods_continue(enum rtl_end why);
/* How long an arming took: those of windows begin so long before their time. */
void periods_note_arming(uint64_t took_ns);
/* While off: ends the schedule. */
void periods_end(enum rtl_end why);
/* The end of a window was put off: no further window comes. */
void periods_give_up(void);
/* This arming is for a window of a schedule that goes on: no stop by the tool, and short waits. */
bool periods_are_on(void);
/* Waits for the window's time. False: it was cancelled. */
bool periods_await_begin(void);

/* --- the control thread ------------------------------------------------------ */

/* RTL_COMMAND_START. 0 or -errno. */
int periods_start(void);
/* RTL_COMMAND_ENABLE and RTL_COMMAND_DISABLE: the next turn switches. 0 or -errno. */
int periods_switch(bool enable);
/* Begins or ends a window, if it is time. Returns for how long there is nothing to do, in ns;
 * UINT64_MAX: until something else happens. */
uint64_t periods_turn(void);

#endif
