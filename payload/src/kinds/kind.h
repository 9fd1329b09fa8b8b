/*
 * kind.h: what a kind of record is to the session and to the worker. kinds.def lists
 * the kinds; docs/adding-a-kind.md says how to add one.
 *
 * Wrappers on application threads call their own kind directly and never go through
 * this table. The functions here are called once per session or once per round of the
 * worker, of recorded kinds only (is_recorded()). Each may be NULL.
 */
#ifndef RTL_KIND_H
#define RTL_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi.h"
#include "core/hooks.h"

struct event;
struct lane_cell; /* record/lanes.h */
struct patience; /* record/session_end.h */

/* How a session ends. */
struct ending {
	enum rtl_end why;
	bool on_application; /* by a thread of the application, perhaps inside a signal handler */
};

struct kind {
	struct hook_table hooks; /* hooks of this kind only; shared hooks: core/shared_hooks.h */
	/* Hooks above those of all kinds and the shared ones: patched after them, and restored
	 * before. prepare() finds their slots. */
	const struct hook_table *outer_hooks;

	/* Arming takes these three steps; the end of a session, or of an arming that
	 * fails, reverses the steps that were taken. int: 0, or -errno with a reason in err: the
	 * kind has changed nothing then, and the session goes on without it (record/unavailable.h). */

	/* Before the first slot is patched: memory. No thread uses this kind. */
	int (*prepare)(char *err, size_t errlen);
	/* The hooks are in place and the worker runs: what the kind changes in the runtime. */
	int (*start)(char *err, size_t errlen);
	/* Items begin from now on. */
	void (*open)(void);

	/* No item begins any more. Returns how many places (queues, threads) could not be
	 * closed by until_ns (now_monotonic()); then the session does not end now. */
	uint32_t (*close)(const struct ending *end, uint64_t until_ns);
	/* Reverses start(). The hooks are in place, and items may still be in flight. */
	void (*undo)(void);
	/* The worker has ended, and the hook of hsa_shut_down still keeps the runtime:
	 * destroys what the runtime has made for the kind. */
	void (*release_signals)(const struct ending *end);
	/* The hooks are gone: gives memory back that a late thread does not use. */
	void (*release)(void);
	/* An application thread ends the runtime or the process, and the session could not
	 * be ended before: waits until no thread of ours uses memory that the runtime frees. */
	void (*leave_runtime)(void);

	/* The worker's rounds. abandon: what has not ended ends as not completed. Returns
	 * how many items ended. */
	uint64_t (*poll)(uint64_t now_ns, bool abandon);
	/* Items that began and whose outcome the worker does not know yet. */
	uint64_t (*outstanding)(void);
	/* Not during a drain: makes ready what application threads take next. */
	void (*make_ready)(void);
	/* Brings the counters up to date that are not written as items begin and end. */
	void (*update_counters)(void);

	/* Any thread. An event that event_deliver() could not push: counts its item as lost;
	 * outstanding() does not count it any more. Kinds whose items are on signals only. */
	void (*count_dropped)(const struct event *e);
	/* When the worker ends. An event that the worker has not taken: counts its item as
	 * lost, unless outstanding() counts it. */
	void (*count_unread)(const struct event *e);
	/* The worker: makes the record of a call (record/lanes.h). */
	void (*take_cell)(const struct lane_cell *c);
	/* Writes the records that end what the kind has opened, such as windows. Calls
	 * session_end_wait() where there is no room. */
	void (*write_last)(struct patience *p);
};

/* KIND_take(), the worker only: takes one event. It is not in the table: the worker calls
 * it directly. */
#define KIND(number, ID, object, name)                         \
	extern const struct kind object##_kind;                \
	void object##_take(const struct event *e, bool abandon);
#include "kinds/kinds.def"

/* The wrapper of recorded calls (kinds/calls/trampoline.S). It keeps nothing of a session, and
 * a thread may wait in it for hours. */
extern __attribute__((visibility("hidden"))) const char call_text_begin[], call_text_end[];

/* By enum rtl_kind; NULL: no kind has that number. */
extern const struct kind *const kinds[RTL_KINDS_MAX];

/* The recorded kinds, each function above in the order of kinds.def, open() and the
 * reversals in the opposite order: dispatches open last. int: 0, or -errno with a reason in
 * err: the session cannot be (record/unavailable.h says when). */
int kinds_find_hooks(char *err, size_t errlen);
int kinds_prepare(char *err, size_t errlen);
/* As hooks_grace_ranges(), hooks_patch(). */
uint32_t kinds_grace_ranges(struct rtl_range *out, uint32_t n, uint32_t max);
void kinds_patch(void);
/* After all others: the outer hooks. */
void kinds_patch_outer(void);
int kinds_start(char *err, size_t errlen);
void kinds_open(void);
/* The session goes on, because not all places could be closed: calls are recorded again. */
void kinds_open_calls(void);
/* Limits: of kinds_close(); of what all kinds together may wait beyond that while the queue
 * of events is full; and of kinds_release_signals(). */
#define KINDS_CLOSE_MOST_NS (3500 * NS_PER_MS)
#define KINDS_CLOSE_OVER_NS (100 * NS_PER_MS)
#define KINDS_RELEASE_MOST_NS (250 * NS_PER_MS)
uint32_t kinds_close(const struct ending *end);
void kinds_undo(void);
/* For all kinds, recorded or not: an earlier session may not have been able to restore a
 * slot, because of another tool. */
void kinds_restore_hooks(void);
void kinds_add_tally(struct hooks_tally *sum);
void kinds_release_signals(const struct ending *end);
void kinds_release(void);
void kinds_leave_runtime(void);
uint64_t kinds_poll(uint64_t now_ns, bool abandon);
uint64_t kinds_outstanding(void);
void kinds_make_ready(void);
void kinds_update_counters(void);
void kinds_write_last(struct patience *p);

#endif
