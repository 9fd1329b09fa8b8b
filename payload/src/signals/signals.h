/*
 * signals.h: completion signals that belong to the application.
 *
 * They stay in their packets. When one is armed (its dispatch published) its
 * value and old times are noted; it has fired when the value is below that and
 * both times have changed (value alone: fired late). The worker reads the times, or
 * the wrapper of a function that is about to re-arm or destroy the signal. Each copies
 * them and then moves PENDING to IDLE by CAS; the one that succeeds reports the item.
 */
#ifndef RTL_SIGNALS_H
#define RTL_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

#include "record/event.h"

int signals_init(void);

/* Notes an item of a lane on the application's signal. One thread at a time for each lane,
 * unless several threads use the lane, whose items then have no order. item: ITEM_WORDS * 8
 * bytes. in_order: the item starts after all earlier ones of its lane have ended. Returns
 * RTL_REASON_NONE with *ref, which names the item for signal_poll(), or the reason why it
 * cannot be timed. ref NULL: the item is not to be timed, but counts on its signal; item is
 * not read. */
uint32_t signal_arm(uint64_t lane, uint64_t handle, const void *item, bool in_order, uint64_t *ref);

enum signal_state {
	SIGNAL_FIRED,   /* the caller reports *out */
	SIGNAL_WAITING,
	SIGNAL_LATE,    /* fired by its value, without times of its own */
	SIGNAL_TAKEN,   /* another thread has reported it, or is about to */
};

/* The worker only: looks at an armed signal, and keeps other threads from destroying it
 * meanwhile. judge: whether the times in *out, which it may correct, can be those of a
 * packet that was published at out->armed_at; if not, the item stays pending. timed: the
 * times have changed since the signal was armed. */
enum signal_state signal_poll(uint64_t ref, bool (*judge)(struct event *, bool timed), struct event *out);

/* Wrappers, before they change a signal's value. */
void signal_before_set(uint64_t handle);
void signal_before_add(uint64_t handle, int64_t delta);
/* False: the worker still reads it; the signal must not be destroyed. */
bool signal_before_destroy(uint64_t handle);

/* Worker only: reports the item as untimed unless it has been reported. */
void signal_give_up(uint64_t ref, uint32_t reason);

/* Takes back an item that was noted. False: another thread reports it, or has. */
bool signal_drop(uint64_t ref);

/* Forgets all handles. Only while no wrapper is installed. */
void signals_reset(void);

#endif
