/* queue_table.h: the table of queues, between its file and queues.c. */
#ifndef RTL_QUEUE_TABLE_H
#define RTL_QUEUE_TABLE_H

#include "kinds/dispatch/queues.h"

/* Waits for a thread that enters a queue. False: it does not unlock in time. */
bool queue_table_lock(void);
void queue_table_unlock(void);

/* With the lock: no queue is known any more, and none has been counted. */
void queue_table_clear(void);

/* A state that is held ready, or NULL: there is none. Any thread; takes no lock. */
struct queue *queue_take_ready(void);

#endif
