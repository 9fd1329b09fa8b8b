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
#include "record/event.h"

/* Stands where a dispatch has its queue. */
extern HIDDEN struct queue copy_lane;

/* Arming: nothing is pending; if copies are to be recorded, memory, and the layout
 * of the runtime's signals. 0, or -errno with a reason in err. */
int copies_init(char *err, size_t errlen);
/* Arming, when the hooks are in place: the runtime takes times of copies from now
 * on, whatever the application says of that. */
void copies_profile(void);
/* The last step: copies are noted. */
void copies_open(void);

/* No copy is noted any more. False: a thread stays where it notes one. */
#define COPIES_CLOSE_NS (NS_PER_S / 2)
bool copies_close(void);
/* What the application has said of profiling meanwhile holds again. */
void copies_unprofile(void);

/* The worker has ended: gives the memory of its list back. */
void copies_forget(void);

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
/* Tells the copies that have ended. abandon: and all others as not completed.
 * Returns how many ended. */
uint64_t copies_settle(uint64_t now, bool abandon);
/* Begun, and not told. */
uint64_t copies_outstanding(void);

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
