/* emit.h: what the worker writes into the ring of queues and dispatches. */
#ifndef RTL_DISPATCH_EMIT_H
#define RTL_DISPATCH_EMIT_H

#include "kinds/dispatch/queues.h"

/* Arming: queues are numbered from 1 again. */
void emit_queues_reset(void);

/* The queue's record and the opening of its window, once, when its agent is
 * known or last is set. False: not now (tried again), or it has no window. */
bool emit_queue(struct queue *s, bool last);
/* The end of its window, once. False: there is no room for it now. */
bool emit_close(struct queue *s);

/* start, end: ticks of the queue's agent. launch: id. signal: the application's, or 0.
 * Writes the dispatch, or a record that it has no times. */
void emit_dispatch(struct queue *s, const struct entry *e, uint32_t launch, uint64_t start, uint64_t end, uint64_t signal);
/* Whether the kernel can have started after its packet was published. */
bool is_plausible(const struct event *e);
/* As emit_dispatch(), with the times of an event of an application's signal. */
void emit_app_dispatch(const struct event *e, const struct entry *entry, uint32_t launch);
/* count dispatches from e on, untimed for one reason (enum rtl_reason). */
void emit_untimed(struct queue *s, const struct entry *e, uint32_t launch, uint64_t count, uint32_t reason);

#endif
