/*
 * copies.h: memory copies that the application asks of the runtime
 * (docs/decisions/0013). Their completion signals are the application's and stay
 * so: each copy is noted in the table of signals.h before it is asked for, and
 * its times are read from the signal by whoever comes first.
 *
 *   calling thread: note ─► the runtime's function       (wrap_copy.c, copy_note.c)
 *   worker:         NOTED ─► pending ─► copy record      (copies.c)
 */
#ifndef RTL_COPIES_H
#define RTL_COPIES_H

#include "kinds/copy/abi.h"
#include "kinds/kind.h"
#include "record/event.h"

/* Stands where a dispatch has its queue. */
extern HIDDEN struct queue copy_lane;

#define COPIES_CLOSE_NS (NS_PER_S / 2)
void copies_open(void);
uint32_t copies_close(const struct ending *end, uint64_t until_ns);

/* --- calling threads ----------------------------------------------------------- */

/* A copy that is about to be asked for. */
struct copy_note {
	struct entry entry; /* all but signal, stamp, tid and flags by the caller */
	uint32_t generation;
	bool noted;
};

void copy_note(struct copy_note *n, hsa_signal_t signal);
/* What the runtime has said: a copy that it refuses was none. Returns status. */
hsa_status_t copy_asked(const struct copy_note *n, hsa_status_t status);

/* Agents as index + 1, 0: host memory. */
static inline uint16_t copy_direction(uint32_t from, uint32_t to)
{
	_Static_assert((RTL_DEVICE_TO_HOST | RTL_HOST_TO_DEVICE) == RTL_DEVICE_TO_DEVICE, "two bits");
	return (from ? RTL_DEVICE_TO_HOST : 0) | (to ? RTL_HOST_TO_DEVICE : 0);
}

/* The wrapper of hsa_amd_profiling_async_copy_enable. */
hsa_status_t copy_profiling_wanted(bool wanted, hsa_status_t (*next)(bool));

/* --- worker ------------------------------------------------------------------- */

/* An outcome whose queue is copy_lane. */
void copies_take(const struct outcome *o);
/* --- times (copy_times.c) -------------------------------------------------------- */

/* Finds out whether the runtime's signals have the layout that is known. */
void copy_times_init(void);
bool copy_times_known(void);
/* A fired signal's times in ticks, as hsa_amd_profiling_get_async_copy_time finds
 * them; those of before where its layout is not known. */
void copy_ticks(const amd_signal_t *hw, uint64_t *start, uint64_t *end);
/* CLOCK_BOOTTIME ns, from the runtime: where the layout is not known. Worker only,
 * as it takes the runtime's locks. */
bool copy_times(uint64_t signal, uint64_t *start, uint64_t *end);

#endif
