/*
 * real_index.h: the write index below the virtual one. It is the hardware's, unless another tool's
 * functions are behind our hooks: such a tool may keep an index of its own, and moves the hardware's itself
 * (docs/decisions/0031). Then all accesses go through its functions.
 */
#ifndef RTL_REAL_INDEX_H
#define RTL_REAL_INDEX_H

#include "kinds/dispatch/queues.h"

/* Finds out where the runtime's own functions are. Before a session patches its hooks. */
void real_index_prepare(void);
/* Finds out what is behind our hooks in this session. After they are patched, before a queue is virtual. */
void real_index_choose(void);

/* acquire */
uint64_t real_index_load(const struct queue *s);
/* release. With the queue's lock, while it is virtual: nobody else moves the index. */
void real_index_store(struct queue *s, uint64_t to);
/* acq_rel. Moves it if it is at from. */
void real_index_move(struct queue *s, uint64_t from, uint64_t to);

#endif
