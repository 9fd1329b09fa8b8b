/*
 * signals.h: completion signals that belong to the application.
 *
 * They stay in their packets. When one is armed (its dispatch published) its
 * value and old times are noted; it has fired when the value is below that and
 * both times have changed (value alone: fired late). Whoever comes first reads
 * the times: the worker, or the wrapper of a function that is about to re-arm
 * or destroy the signal. The reader copies, then moves PENDING to IDLE by CAS;
 * the winner reports.
 */
#ifndef RTL_SIGNALS_H
#define RTL_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

#include "record/event.h"

int signals_init(void);

/* Notes an item of a lane on the application's signal. By one thread at a time for each
 * lane but those of several threads, whose items are not in order. item: ITEM_WORDS * 8
 * bytes. in_order: the item starts after all earlier ones of its lane have ended.
 * RTL_REASON_NONE, and *ref names it for signal_poll(); or the reason why it cannot be
 * timed. ref NULL: it is not to be timed, and counts; item is not read then. */
uint32_t signal_arm(uint64_t lane, uint64_t handle, const void *item, bool in_order, uint64_t *ref);

enum signal_state {
	SIGNAL_FIRED,   /* *out is ours to report */
	SIGNAL_WAITING,
	SIGNAL_LATE,    /* its value says fired, and there are no times of it */
	SIGNAL_TAKEN,   /* somebody else has reported it, or is about to */
};

/* Worker only: looks at an armed signal, guarding it against destruction.
 * judge: whether the times in *out, which it may correct, can be those of a
 * packet published at out->armed_at; if not, the signal is looked at again later.
 * timed: they are others than before. */
enum signal_state signal_poll(uint64_t ref, bool (*judge)(struct event *, bool timed), struct event *out);

/* Wrappers, before they change a signal's value. */
void signal_before_set(uint64_t handle);
void signal_before_add(uint64_t handle, int64_t delta);
/* False: the worker does not let go of it; it must not be destroyed. */
bool signal_before_destroy(uint64_t handle);

/* Worker only: reports the item as untimed unless it has been reported. */
void signal_give_up(uint64_t ref, uint32_t reason);

/* What was noted is not to be reported. False: somebody does, or has. */
bool signal_drop(uint64_t ref);

/* Forgets all handles. Only while no wrapper is installed. */
void signals_reset(void);

#endif
