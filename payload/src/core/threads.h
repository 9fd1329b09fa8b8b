/*
 * threads.h: threads of ours: every signal blocked but glibc's own 32 and 33
 * (with 33 blocked, setuid() in any thread of the target would hang), and the
 * place where the C library keeps a thread's id.
 */
#ifndef RTL_THREADS_H
#define RTL_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/sys.h"

#define THREAD_START_MOST_NS (5 * NS_PER_S)

/*
 * Starts a thread. The caller may be any thread of the application: the new thread takes the
 * CPUs and the policy of the main thread, not those of the caller. 0 when it is about to
 * run, with its thread id; or -errno. A thread that does not begin in time (-ETIMEDOUT) ends
 * as soon as it begins.
 */
int thread_start(pthread_t *out, void *(*run)(void *), uint32_t *tid);
const char *thread_error(int err);
/* False: it has not ended in time, and may be joined later. */
bool thread_join(pthread_t t, uint64_t timeout_ns);

/* The calling thread's id as /proc lists it: another number if /proc shows an outer pid
 * namespace. */
int thread_listed(void);
/* The state of a thread that /proc lists, as /proc shows it. 'R': it runs or waits for a CPU;
 * 'S': it sleeps; and so on. 0: not known. */
char thread_state(int listed);

/* How /proc lists the worker, for worker_is_starved(); 0: there is none. Written by
 * worker.c. */
extern _Atomic int worker_listed;

/*
 * How long an application thread waits for a worker that holds a lock or may still read
 * memory that the thread is about to free: as long as the worker wants to run and gets no
 * CPU. Not while the worker sleeps: then it waits inside the runtime, perhaps for this
 * thread. The caller asks every STARVED_LOOK_NS.
 */
#define STARVED_LOOK_NS (100 * NS_PER_MS)
struct starved {
	struct deadline d;
	int asleep; /* looks in a row that found the worker asleep */
};
struct starved starved_from_now(void);
bool worker_is_starved(struct starved *s);

/* Finds the offset of the thread id in this thread's descriptor; a second
 * thread of ours then checks it, and searches on. If none is found, stamps have no thread id. */
void thread_find_tid_offset(unsigned long given);
void thread_check_tid_offset(void);

#endif
