/*
 * edge.h: what the cases of edge_test share: a queue of the application, whose packet
 * processor is the case itself, and sessions by the payload's arm.c and disarm.c.
 */
#ifndef RTL_TEST_EDGE_H
#define RTL_TEST_EDGE_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <stdatomic.h>

#include "abi.h"
#include "core/runtime.h"
#include "kinds/dispatch/queues.h"

#define RING 64
#define CHECK(x)                                                             \
	do {                                                                 \
		if (!(x)) {                                                  \
			printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #x); \
			exit(1);                                             \
		}                                                            \
	} while (0)

struct toy_queue {
	_Alignas(256) amd_queue_t amd;
	amd_signal_t doorbell;
	hsa_kernel_dispatch_packet_t ring[RING];
};
hsa_queue_t *make_queue(struct toy_queue *t, uint64_t id);

/* The runtime that the payload finds: one agent, no executables. */
void set_up(void);

/* A session with one setting, or none. */
void begin(const char *name, const char *value);
/* A thread detaches; its detach has begun, and goes on until the hardware has executed what it waits for. */
pthread_t begin_detach(void);

void submit(hsa_queue_t *q, uint64_t kernel);
/* A packet with the application's signal; a dispatch, or one of another type. */
void submit_on(hsa_queue_t *q, uint16_t header, amd_signal_t *signal);
/* The hardware executes the next packet; its signal is returned before it fires. */
amd_signal_t *take_packet(hsa_queue_t *q);
void fire(amd_signal_t *s);

#define ROUND_MOST_NS (60 * NS_PER_S) /* for a worker that gets no CPU */

/* Within that. */
bool comes(const uint64_t *counter, uint64_t value);

/* The session's ring, as the recorder maps it; and read to its end. */
struct rtl_ring *map_ring(void);
void free_ring(struct rtl_ring *ring);

/* Threads made from now on begin when this is 0 again; how many of them have ended. */
extern _Atomic uint32_t threads_held, held_threads_ended;

/* What the application does at these points of an arming; and whether its runtime has ended. */
extern void (*at_patch)(void), (*at_grace)(void);
extern int grace_result;
extern _Atomic uint32_t runtime_closed;

/* A seccomp filter refuses process_vm_readv. */
extern bool no_read_memory;

/* Called once, when this thread has taken a mutex of the payload. */
extern _Thread_local void (*after_lock)(void);

struct edge_case {
	const char *name;
	void (*run)(void);
};
/* Cases of a kind under kinds/, which edge_test runs after its own. */
void edge_add(const struct edge_case *cases);
#define EDGE_CASES_OF_KIND(cases) \
	static __attribute__((constructor)) void add_##cases(void) { edge_add(cases); }

/* Each ends with one without a name. */
extern const struct edge_case queue_cases[], ring_cases[], gpu_cases[], session_cases[], signal_cases[], shared_cases[], copy_cases[], runtime_cases[],
	hostile_cases[], memory_cases[], held_cases[], kernel_cases[], full_cases[];

#endif
