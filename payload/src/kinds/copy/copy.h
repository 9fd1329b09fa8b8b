/*
 * copy.h: memory copies that the application submits to the runtime
 * (docs/decisions/0013). They keep the application's completion signals: each copy is
 * noted in the table of signals.h before it is submitted, and the worker or a wrapper
 * reads its times from the signal.
 *
 *   calling thread: note ─► the runtime's function       (wrap.c, kinds/copy/note.c)
 *   worker:         COPY_BEGUN ─► pending ─► copy record (copy.c)
 */
#ifndef RTL_COPY_H
#define RTL_COPY_H

#include <hsa/hsa.h>
#include <stdatomic.h>

#include "core/sys.h"
#include "kinds/copy/copy_abi.h"
#include "kinds/kind.h"
#include "record/event.h"

/* One copy on its way to its record. */
struct copy_item {
	uint64_t to, from; /* addresses */
	uint64_t bytes;
	uint64_t stamp;
	uint64_t ref; /* of signal_arm() */
	uint16_t from_agent, to_agent; /* index into agents + 1, 0: host memory */
	uint16_t clock;     /* the agent whose ticks its times are; 0: they are ns */
	uint16_t direction; /* enum rtl_direction */
	uint32_t tid;
	uint32_t reserved[3];
};
_Static_assert(sizeof(struct copy_item) == 8 * ITEM_WORDS, "one cache line");

enum copy_event {
	COPY_BEGUN = EVENT_OF_KIND, /* item, signal, generation */
	COPY_REFUSED,               /* the runtime has refused a copy that had begun */
};

#define COPY_LANE lane_of(RTL_KIND_MEMORY_COPY, NULL)

/* Copies whose event was dropped although the worker counts on it. Any thread. */
extern HIDDEN _Atomic uint64_t copies_dropped;

#define COPIES_CLOSE_NS (NS_PER_S / 2)
void copies_open(void);
uint32_t copies_close(const struct ending *end, uint64_t until_ns);

/* --- calling threads ----------------------------------------------------------- */

/* A copy that is about to be submitted. */
struct copy_note {
	struct copy_item item; /* the caller sets all but ref, stamp and tid */
	uint32_t generation;
	bool noted;
};

void copy_note(struct copy_note *n, hsa_signal_t signal);
/* status: the runtime's answer. Takes a copy back that the runtime refuses. Returns status. */
hsa_status_t copy_submitted(const struct copy_note *n, hsa_status_t status);

/* Agents as index + 1, 0: host memory. */
static inline uint16_t copy_direction(uint32_t from, uint32_t to)
{
	_Static_assert((RTL_DEVICE_TO_HOST | RTL_HOST_TO_DEVICE) == RTL_DEVICE_TO_DEVICE, "two bits");
	return (from ? RTL_DEVICE_TO_HOST : 0) | (to ? RTL_HOST_TO_DEVICE : 0);
}

/* --- profiling.c --------------------------------------------------------------- */

/* Arming: the application has not asked for anything in this session. */
void copy_profiling_reset(void);
/* The runtime takes the times of copies from now on, whatever the application asks for. */
int copy_profiling_start(char *err, size_t errlen);
/* Turns it to what the application has asked for in this session. If it has not asked,
 * profiling stays on, because the runtime does not say what it was before: an engine then
 * writes two more words for each copy. */
void copy_profiling_undo(void);

/* The wrapper of hsa_amd_profiling_async_copy_enable. */
hsa_status_t copy_profiling_wanted(bool wanted, hsa_status_t (*next)(bool));

#endif
