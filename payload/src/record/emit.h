/* records.h: what the worker writes into the ring, one function per record. */
#ifndef RTL_RECORDS_H
#define RTL_RECORDS_H

#include "kinds/dispatch/queues.h"
#include "record/event.h"

/* A new session: queues and agents are told anew. */
void records_start(void);

/* The queue's record and the opening of its window, once, when its agent is
 * known or last is set. False: not now (tried again), or it has no window. */
bool tell_queue(struct queue *s, bool last);
/* The end of its window, once. False: there is no room for it now. */
bool tell_close(struct queue *s);

/* start, end: ticks of the queue's agent. launch: id. Writes the dispatch, or
 * says that it has no times. */
void tell_dispatch(struct queue *s, const struct entry *e, uint32_t launch, uint64_t start, uint64_t end, uint64_t signal);
/* Whether the kernel can have started after its packet was published. */
bool is_plausible(const struct outcome *o);
/* The same as tell_dispatch() for an outcome of an application's signal. */
void tell_app(const struct outcome *o, uint32_t launch);
void tell_untimed(struct queue *s, const struct entry *e, uint32_t launch, uint64_t count, uint32_t reason);
/* from and to: index into agents + 1, 0: host memory. signal: the application's. */
void tell_copy(const struct entry *e, uint64_t start_ns, uint64_t end_ns, uint64_t signal);
void tell_untimed_copy(const struct entry *e, uint32_t reason, uint64_t signal);
/* The account of a kind that is recorded. False: there is no room for it now. */
bool tell_account(uint32_t kind);
/* The session's last record. False: there is no room for it now. */
bool tell_end(uint32_t why, uint64_t armed_ns, uint64_t detached_ns);

#endif
