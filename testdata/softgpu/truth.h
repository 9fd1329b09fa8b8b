/*
 * The truth log: what the simulated GPU really did, written by the engine.
 *
 * SOFTGPU_LOG names a file that is appended to. It is a sequence of records of
 * one fixed size in host byte order; several processes may append to one file.
 * A record may be torn only at the very end of the file.
 *
 * test/simlog reads it. Its test asks the C compiler for this layout.
 */
#ifndef SOFTGPU_TRUTH_H
#define SOFTGPU_TRUTH_H

#include <stdint.h>

enum { TRUTH_MAGIC = 0x4854 /* "TH" */, TRUTH_VERSION = 1 };

enum truth_kind {
	TRUTH_KERNEL = 1,    /* a kernel dispatch packet, also an extended one */
	TRUTH_COPY = 2,      /* one command of an SDMA queue: all its linear or rect copies */
	TRUTH_FILL = 3,      /* the same with constant fills only */
	TRUTH_BARRIER = 4,   /* barrier-and, barrier-or */
	TRUTH_VENDOR = 5,    /* vendor-specific packet */
	TRUTH_NAME = 6,      /* a piece of a kernel's name; comes before the first use */
	TRUTH_VIOLATION = 7, /* somebody broke the queue protocol */
};

enum truth_flag {
	TRUTH_PROFILED = 1,  /* start and end were written to the completion signal */
	TRUTH_INTERNAL = 2,  /* a blit kernel of ROCr itself, on a queue no API call sees */
	TRUTH_ABANDONED = 4, /* the queue was destroyed before the kernel ended */
	TRUTH_EXTENDED = 8,  /* the vendor's extended kernel dispatch */
};

/* Violation codes. The record says: start_ns when, value[0..1] what. */
enum truth_violation {
	TRUTH_REEXECUTED = 1,    /* the slot's packet has the unique id it had a lap ago: id, 0 */
	TRUTH_INDEX_BACKWARD = 2, /* write index moved back: new, old */
	TRUTH_INDEX_WILD = 3,    /* write index far beyond what producers may claim: new, read index */
	TRUTH_READ_MOVED = 4,    /* somebody else wrote the read index: found, expected */
	TRUTH_CHANGED = 5,       /* packet changed after the GPU had fetched it: first differing byte, 0 */
	TRUTH_OVERCLAIM = 6,     /* a notice, not a fault: index beyond read index + ring; once per queue: new, read index */
	TRUTH_BAD_PACKET = 7,    /* unknown packet type: header, 0 */
	TRUTH_LOCKED = 8,        /* a locked instruction wrote into a ring that takes none; once: the instruction, the address */
	TRUTH_WRITER = 9,        /* a notice: an instruction wrote into such a ring, as it may; once: the instruction, the address */
};

enum { TRUTH_NAME_PIECE = 72 };

struct truth_record {
	uint16_t magic;
	uint8_t version;
	uint8_t kind;           /* enum truth_kind */
	uint16_t flags;         /* enum truth_flag, or the violation's code */
	uint16_t node;          /* GPU ordinal, 0 for the first GPU */
	uint32_t pid;           /* the target, in its own pid namespace */
	uint32_t name_id;       /* names are per pid; 0: none */
	uint32_t engine_queue;  /* the queue id the driver gave; reused */
	union {
		uint32_t name_offset; /* TRUTH_NAME: where this piece starts */
		uint32_t grid_x;      /* TRUTH_KERNEL: work-items */
	};
	union {
		char name[TRUTH_NAME_PIECE]; /* NUL-terminated unless another piece follows */
		struct {
			uint64_t queue;         /* address of the hsa_queue_t, 0 for SDMA queues */
			uint64_t hsa_queue_id;  /* hsa_queue_t.id */
			uint64_t packet;        /* packet id, from 0, never reused in a queue */
			uint64_t unique_id;     /* the workload's own id, 0: none */
			uint64_t start_ns;      /* CLOCK_BOOTTIME, the exact time of the tick */
			uint64_t end_ns;
			uint64_t signal;        /* completion signal's handle as executed, 0: none */
			uint64_t value[2];      /* kernel: kernel object, grid y and z (upper half); copy: bytes, SDMA packets */
		};
	};
};

_Static_assert(sizeof(struct truth_record) == 96, "one and a half cache lines");

#endif
