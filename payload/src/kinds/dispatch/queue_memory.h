/* queue_memory.h: the memory of a queue's state. Threads of ours only. */
#ifndef RTL_QUEUE_MEMORY_H
#define RTL_QUEUE_MEMORY_H

#include "kinds/dispatch/queues.h"

/* Maps a state with all its arrays at once, without backing them: they cost what is
 * touched. Its word is WORD_DEAD. NULL: no memory. */
struct queue *queue_map(void);

/* Arming: queue_forget_memory() has given the memory of this state back. */
void queue_note_unbacked(struct queue *s);

/* Backs what the first dispatches of a state that is held ready use. */
void queue_back_ready(struct queue *s);
/* The worker only: backs what the threads that use the queue write next. */
void queue_back(struct queue *s);

/* Gives the memory behind all states back; they stay mapped. */
void queue_forget_memory(void);

#endif
