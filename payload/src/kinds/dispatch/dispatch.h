/*
 * dispatch.h: the kind "dispatch" between its files: its worker's part (rounds.c) and
 * the end of its queues (close.c). The kind itself is in dispatch.c.
 */
#ifndef RTL_DISPATCH_H
#define RTL_DISPATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "kinds/kind.h"
#include "record/event.h"

/* An event of the dispatches' own: slots that were claimed and never published. */
enum { DISPATCH_RANGE = EVENT_OF_KIND };
enum { RANGE_QUEUE, RANGE_FROM, RANGE_COUNT }; /* its body */

/* rounds.c; the worker only, but dispatch_rounds_reset(): arming. */
void dispatch_rounds_reset(void);
uint64_t dispatch_poll(uint64_t now_ns, bool abandon);
uint64_t dispatch_outstanding(void);
void dispatch_make_ready(void);
void dispatch_update_counters(void);

/* close.c; the thread that ends the session. */
uint32_t dispatch_close(const struct ending *end, uint64_t until_ns);
void dispatch_release_signals(const struct ending *end);

#endif
