/* The hardware's side. Everything here runs on the one engine thread, except where said. */
#ifndef SOFTGPU_ENGINE_H
#define SOFTGPU_ENGINE_H

#include <hsa/amd_hsa_queue.h>
#include <hsa/amd_hsa_signal.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include "softgpu.h"
#include "truth.h"

enum { MAX_RUNNING = 64, MAX_PREFETCH = 64, KERNEL_NAME_BYTES = 512 };

/* HSA_AMD_PACKET_TYPE_EXT_KERNEL_DISPATCH, which Debian's headers do not have. */
enum { AMD_FORMAT_EXT_KERNEL_DISPATCH = 3 };

struct ext_dispatch {
	uint16_t header;
	uint8_t amd_format, setup;
	uint16_t workgroup[3], reserved0;
	uint32_t cluster_count_x;
	uint16_t cluster_count_y, cluster_count_z;
	uint8_t cluster_size[3], perf_hint;
	uint32_t private_segment_size, group_segment_size;
	uint64_t kernel_object;
	void *kernarg_address;
	hsa_signal_t dep_signal, completion_signal;
};

union packet {
	uint16_t header;
	hsa_kernel_dispatch_packet_t kernel;
	struct ext_dispatch ext;
	hsa_barrier_and_packet_t barrier;
	hsa_amd_barrier_value_packet_t barrier_value;
	uint64_t words[8];
};
_Static_assert(sizeof(union packet) == 64, "an AQL packet");

/* ---- kernels.c, blit.c ---- */

enum kernel_kind {
	KERNEL_USER,               /* a duration, nothing else */
	KERNEL_ROCR_COPY_ALIGNED,  /* ROCr's blit kernels: even code-object upload needs them */
	KERNEL_ROCR_COPY_MISALIGNED,
	KERNEL_ROCR_FILL,
	KERNEL_HIP_COPY,           /* ROCclr's blit kernels */
	KERNEL_HIP_COPY_ALIGNED,
	KERNEL_HIP_COPY_RECT,
	KERNEL_HIP_COPY_RECT_ALIGNED,
	KERNEL_HIP_FILL,
	KERNEL_HIP_FILL_2D,
	KERNEL_HIP_WRITE,
};

struct kernel {
	uint64_t object;           /* 0: free entry */
	uint64_t generation;       /* of memory, when the name was last confirmed */
	enum kernel_kind kind;
	uint32_t name_id;          /* in the truth log */
	uint64_t launches;
	char name[KERNEL_NAME_BYTES];
};

struct kernel *kernel_of(uint64_t object);          /* NULL: memory table busy, try again */
static inline bool kernel_is_rocr(enum kernel_kind k)
{
	return k >= KERNEL_ROCR_COPY_ALIGNED && k <= KERNEL_ROCR_FILL;
}
void kernel_print_stats(void);                      /* any thread, engine stopped */
void kernel_forget_after_fork(void);
void blit_perform(enum kernel_kind kind, const uint64_t *kernarg);

/* ---- queues ---- */

enum queue_state { QUEUE_FREE, QUEUE_SETUP, QUEUE_LIVE, QUEUE_CLOSING };

/* A kernel between its launch and its end. */
struct running {
	uint64_t start_ns, end_ns;
	uint64_t packet, unique_id;
	amd_signal_t *signal;
	const struct kernel *kernel;
	uint64_t object;
	uint32_t grid[3];
	bool extended;
	struct meeting *meeting;   /* rendezvous.c: other GPUs have not started it yet */
	uint64_t quorum, transfer_ns;
};

/* One command of an SDMA queue, collected until its completion is signalled. */
struct transfer {
	bool open, fill;
	uint64_t first_packet, packets, bytes;
	uint64_t start_ns, end_ns; /* the timestamp packets' where there are any */
	uint64_t done_ns;          /* when the last copy so far is over */
	bool stamped;
	bool leads;                /* it waits for what another engine copies of it */
};

struct queue {
	uint32_t state;            /* enum queue_state; LIVE is set by the target, FREE by the engine */
	bool active;               /* the driver's percentage is not 0 */
	bool aql;
	unsigned gpu;
	uint32_t id;
	uint8_t *ring;
	uint8_t *guarded;          /* guard.c: where the target has the ring, which is elsewhere for the engine; NULL: it is not */
	uint64_t guarded_bytes;    /* whole pages */
	uint64_t ring_bytes;
	uint64_t *read_ptr, *write_ptr, *doorbell;
	amd_queue_t *amd;          /* AQL only */
	uint64_t hsa_id;           /* filled in by ROCr after the create ioctl: read at the first packet */

	/* fetch.c */
	uint64_t read;             /* next packet to execute */
	uint64_t limit;            /* write index as last read */
	uint64_t fetched;          /* packets below this are in prefetched[] */
	uint64_t look_at_ns;       /* when the write index is to be read; 0: no reason to */
	uint64_t looked_at_ns;
	union packet front;
	union packet prefetched[MAX_PREFETCH];
	uint64_t *last_id;         /* per slot: unique id of the packet executed there last */
	bool overclaim_noted;
	uint32_t violations;

	/* aql.c */
	unsigned running_count;
	struct running running[MAX_RUNNING];
	struct memory_range kernarg; /* where the last kernel's arguments were found */
	uint64_t packets;

	struct transfer transfer;  /* sdma.c */
};

struct gpu {
	struct queue queues[MAX_QUEUES];
	uint32_t queue_top;        /* queues from here on were never used */
	uint64_t busy_until_ns;    /* SOFTGPU_EXCLUSIVE */
	uint32_t random;
};

extern struct gpu *gpus[MAX_GPUS];                  /* published by queues.c, never withdrawn */
void queue_close(struct queue *q);                  /* the engine's half of queue_destroy */

/* What one round over all queues learns. */
struct round {
	uint64_t now_ns;
	uint64_t next_ns;          /* earliest time at which something is due */
	unsigned done;             /* steps taken; 0: nothing to do */
	bool stalled;              /* a claimed slot's packet is not there yet */
};

static inline void round_due(struct round *r, uint64_t ns)
{
	if (ns < r->next_ns)
		r->next_ns = ns;
}

uint32_t engine_random(struct gpu *g, uint32_t below);

/* fetch.c */
void fetch_reset(struct queue *q);
bool fetch_look(struct gpu *g, struct queue *q, struct round *r); /* reads the write index when it is time */
const union packet *fetch_next(struct queue *q);                  /* NULL: none ready */
void fetch_consume(struct queue *q);

/* guard.c */
bool guard_ring(struct queue *q, uint8_t *target_has, size_t bytes); /* threads of the target */
void guard_end(struct queue *q);
void guard_log(void);

/* aql.c */
void aql_step(struct gpu *g, struct queue *q, struct round *r);
void aql_abandon(struct queue *q);
void aql_late_stamps(struct round *r, bool all);
void aql_forget_after_fork(void);

/* rendezvous.c */
bool rendezvous_is(const struct kernel *k, const uint32_t grid[3]);
void rendezvous_enter(unsigned gpu, struct running *k, uint64_t duration_ns);
void rendezvous_look(struct running *k, struct round *r);

/* sdma.c */
void sdma_step(struct queue *q, struct round *r);

/* truth.c */
void truth_open(void);
void truth_flush(void);
void truth_close(void);
struct truth_record *truth_append(enum truth_kind kind, const struct queue *q); /* NULL: no log */
uint32_t truth_name(const char *name); /* the id under which the log has it */
void truth_violation(struct queue *q, enum truth_violation code, uint64_t a, uint64_t b);
void truth_note(const struct queue *q, enum truth_violation code, uint64_t a, uint64_t b); /* as often as it is called */

#endif
