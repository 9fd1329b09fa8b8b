/*
 * rtl.h: a ROCm application records itself: kernels, copies, calls of HIP, HSA and RCCL, ROCTx markers,
 * allocations and scratch memory, with their times, while it runs and without the tool.
 *
 *   rtl_set_callback(RTL_RECORD_DISPATCH, print_kernel, NULL, NULL);
 *   rtl_start(NULL);                       after hipInit() or hsa_init()
 *   …
 *   rtl_shutdown();
 *
 * All functions are thread-safe, and return 0 or a negative errno value, with a text from rtl_error_text().
 * They are not async-signal-safe. A function that waits returns -EDEADLK if a callback calls it. In a
 * forked child all return -ECHILD: only the process that has started the session is recorded.
 *
 * Callbacks run on threads of the library, or on a thread that calls rtl_buffer_read(); never on the
 * application's own threads in the middle of a call. They may call any function of HIP and HSA (which
 * makes records, too). They must return or throw: not longjmp() out of them, and not end the thread.
 * A C++ exception ends in the library and is counted (rtl_stats_t).
 *
 * The library makes no file and reads no environment variable. docs/guide/embedding.md describes all of it.
 */
#ifndef RTL_RTL_H
#define RTL_RTL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The interface: a program that was built with one works with a library of the same major and the same or
 * a later minor number. */
#define RTL_VERSION_MAJOR 1
#define RTL_VERSION_MINOR 0

/* major << 16 | minor of the loaded library. */
uint32_t rtl_version(void);

/* ---- records -------------------------------------------------------------------------- */

/* Kinds of record. */
enum {
	RTL_RECORD_DISPATCH = 0,          /* rtl_dispatch_record_t */
	RTL_RECORD_MEMORY_COPY = 1,       /* rtl_copy_record_t */
	RTL_RECORD_HIP_RUNTIME_API = 2,   /* rtl_call_record_t; these five */
	RTL_RECORD_HIP_COMPILER_API = 3,
	RTL_RECORD_HSA_CORE_API = 4,
	RTL_RECORD_HSA_AMD_EXT_API = 5,
	RTL_RECORD_RCCL_API = 6,
	RTL_RECORD_MEMORY_ALLOCATION = 7, /* rtl_allocation_record_t */
	RTL_RECORD_SCRATCH_MEMORY = 8,    /* rtl_scratch_record_t */
	RTL_RECORD_MARKER = 9,            /* rtl_marker_record_t */
	RTL_RECORD_LOST = 30,             /* rtl_lost_record_t: said of any session */
	RTL_RECORD_SESSION_END = 31,      /* rtl_session_end_record_t: the last record of a session */
	RTL_RECORD_KINDS = 32
};
#define RTL_BIT(kind) (1u << (kind))
#define RTL_ALL_KINDS 0x3ffu /* all that a session can record */

/* "kernel dispatch"; "unknown". */
const char *rtl_kind_name(uint32_t kind);

/*
 * What all records begin with. In a batch the next record is size bytes further (rtl_next()). A later
 * minor version may make records longer, at their end.
 *
 * Times are CLOCK_BOOTTIME nanoseconds. Strings are never NULL, and valid during the callback only.
 */
typedef struct rtl_record {
	uint32_t size;
	uint32_t kind;
} rtl_record_t;

static inline const rtl_record_t *rtl_next(const rtl_record_t *r)
{
	return (const rtl_record_t *)((const char *)r + r->size);
}

/* A kernel. */
typedef struct rtl_dispatch_record {
	rtl_record_t record;
	uint64_t start_ns;     /* 0 with a reason */
	uint64_t end_ns;
	uint64_t submit_ns;    /* 0: unknown */
	uint64_t index;        /* of the packet in its queue */
	uint64_t queue;        /* hsa_queue_t* */
	uint64_t signal;       /* the application's completion signal; 0: none */
	uint64_t kernel_object;
	const char *kernel;    /* the symbol, mangled; "": unknown */
	const char *gpu_name;  /* "gfx90a" */
	int32_t gpu;           /* ordinal among the GPUs, from 0; -1: unknown */
	uint32_t tid;          /* of the submitting thread; 0: unknown */
	uint32_t grid[3];      /* work-items */
	uint32_t workgroup[3];
	uint32_t group_segment_bytes;
	uint32_t private_segment_bytes;
	uint32_t queue_number; /* of this session, from 1 */
	uint32_t reason;       /* 0, or why it has no times (rtl_reason_text()) */
	uint64_t count;        /* with a reason: packets from index on that have no times; else 1 */
} rtl_dispatch_record_t;

const char *rtl_reason_text(uint32_t reason);

/* A memory copy. */
typedef struct rtl_copy_record {
	rtl_record_t record;
	uint64_t start_ns; /* 0 with a reason */
	uint64_t end_ns;
	uint64_t submit_ns;
	uint64_t bytes;
	uint64_t signal;   /* the application's completion signal */
	int32_t from_gpu;  /* ordinal; -1: host memory */
	int32_t to_gpu;
	uint32_t tid;
	uint32_t reason;   /* as for a dispatch */
} rtl_copy_record_t;

/* A call of HIP, HSA or RCCL, when it has returned. */
typedef struct rtl_call_record {
	rtl_record_t record;
	uint64_t start_ns;
	uint64_t end_ns;
	const char *function;  /* "hipMemcpyAsync" */
	uint64_t result;       /* rax; of a function without a result: undefined */
	uint32_t tid;
	uint32_t out_argument; /* 1 + number of the argument whose register has the value that the call has written there; 0: none */
	uint64_t arguments[6]; /* integer registers rdi, rsi, rdx, rcx, r8, r9 at the call: arguments in the order of the ABI */
	uint64_t stack[5];     /* words of the stack with further arguments */
	uint32_t stack_words;  /* how many of them are valid */
	uint32_t reserved;
} rtl_call_record_t;

enum {
	RTL_OP_ALLOCATE_POOL = 0,   /* hsa_amd_memory_pool_allocate */
	RTL_OP_ALLOCATE_REGION = 1, /* hsa_memory_allocate */
	RTL_OP_ALLOCATE_VIRTUAL = 2,/* hsa_amd_vmem_handle_create */
	RTL_OP_FREE_POOL = 3,
	RTL_OP_FREE_REGION = 4,
	RTL_OP_FREE_VIRTUAL = 5
};
typedef struct rtl_allocation_record {
	rtl_record_t record;
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t address;
	uint64_t size_bytes; /* 0 for a release */
	uint64_t pool;
	uint32_t tid;
	uint32_t operation;  /* RTL_OP_ALLOCATE_…, RTL_OP_FREE_… */
	uint32_t status;     /* hsa_status_t */
	int32_t gpu;         /* whose memory; -1: the host's; -2: unknown */
} rtl_allocation_record_t;

enum {
	RTL_OP_SCRATCH_ALLOCATE_START = 0,
	RTL_OP_SCRATCH_ALLOCATE_END = 1,
	RTL_OP_SCRATCH_FREE_START = 2,
	RTL_OP_SCRATCH_FREE_END = 3,
	RTL_OP_SCRATCH_RECLAIM_START = 4,
	RTL_OP_SCRATCH_RECLAIM_END = 5
};
typedef struct rtl_scratch_record {
	rtl_record_t record;
	uint64_t time_ns;
	uint64_t queue;      /* hsa_queue_t* */
	uint64_t dispatch;   /* of an allocation: index of the packet that needs it */
	uint64_t size_bytes; /* ALLOCATE_END */
	uint64_t waves;      /* ALLOCATE_END: that have scratch memory at a time */
	uint32_t tid;
	uint32_t operation;  /* RTL_OP_SCRATCH_… */
	uint32_t flags;      /* hsa_amd_event_scratch_alloc_flag_t */
	uint32_t reserved;
} rtl_scratch_record_t;

enum {
	RTL_OP_MARK = 0,       /* roctxMark */
	RTL_OP_RANGE_PUSH = 1,
	RTL_OP_RANGE_POP = 2,
	RTL_OP_RANGE_START = 3,
	RTL_OP_RANGE_STOP = 4
};
typedef struct rtl_marker_record {
	rtl_record_t record;
	uint64_t time_ns;
	uint64_t range;     /* RANGE_START, RANGE_STOP: its number */
	const char *text;   /* up to 255 bytes of the message; not of POP and STOP */
	uint32_t tid;
	uint32_t operation; /* RTL_OP_MARK, RTL_OP_RANGE_… */
	uint32_t text_cut;  /* 1: the message is longer */
	uint32_t reserved;
} rtl_marker_record_t;

/* Records that were lost because a buffer between the GPU's threads and the callbacks was full. */
typedef struct rtl_lost_record {
	rtl_record_t record;
	uint64_t count;
	uint64_t from_ns;
	uint64_t until_ns;
} rtl_lost_record_t;

enum {
	RTL_ENDED_BY_STOP = 1,      /* rtl_stop(), rtl_shutdown() */
	RTL_ENDED_BY_TOOL = 2,      /* `rtl-attach detach` */
	RTL_ENDED_BY_SILENCE = 3,   /* a callback has not returned for ten minutes */
	RTL_ENDED_BY_RUNTIME = 4,   /* the application called hsa_shut_down */
	RTL_ENDED_BY_EXIT = 5,      /* the process exits */
	RTL_ENDED_UNKNOWN = 0
};
typedef struct rtl_session_end_record {
	rtl_record_t record;
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t lost;    /* records of this session that did not reach the library's thread */
	uint32_t why;     /* RTL_ENDED_… */
	uint32_t reserved;
} rtl_session_end_record_t;

/* ---- callbacks: one record at a time --------------------------------------------------- */

typedef void (*rtl_callback_t)(const rtl_record_t *record, void *user);
typedef void (*rtl_release_t)(void *user);

/*
 * Sets the callback of a kind (also RTL_RECORD_LOST, RTL_RECORD_SESSION_END), at any time, also while
 * records come and from a callback. NULL: none. All callbacks of kinds run on one thread of the library, one
 * at a time.
 *
 * callback and user are one pair: no thread ever sees one of them with another's partner. When this returns,
 * the next record goes to the new pair; the old callback may still be running. release, if not NULL, is
 * called once with user when the pair was replaced and no thread uses it any more, at the latest before
 * rtl_shutdown() returns: the place to free user.
 *
 * A session records the kinds of its options; a callback of another kind is not called.
 */
int rtl_set_callback(uint32_t kind, rtl_callback_t callback, void *user, rtl_release_t release);

/* ---- buffers: records in batches -------------------------------------------------------- */

typedef struct rtl_buffer {
	uint64_t id;
} rtl_buffer_t;

typedef struct rtl_callback_thread {
	uint64_t id;
} rtl_callback_thread_t;

/* first: count records, each with rtl_next() from the one before. dropped: records that this buffer had no
 * room for since the last batch. count is 0 if only dropped is to be said. */
typedef void (*rtl_batch_callback_t)(rtl_buffer_t buffer, const rtl_record_t *first, size_t count, uint64_t dropped, void *user);

enum {
	RTL_BUFFER_DISCARD = 0,  /* no room: the record is dropped and counted */
	RTL_BUFFER_LOSSLESS = 1  /* no room: the library's thread waits, and with it all callbacks. No thread of the
				  * application waits: records gather in the session's buffer (rtl_options_t) */
};

/* Zeros are the defaults. */
typedef struct rtl_buffer_options {
	size_t size;              /* sizeof(rtl_buffer_options_t) */
	size_t size_bytes;        /* 1 MiB; 64 KiB to 1 GiB */
	size_t watermark_bytes;   /* delivered from so many bytes on; half of size_bytes */
	uint32_t policy;          /* RTL_BUFFER_… */
	uint32_t kinds;           /* RTL_BIT() of each; RTL_ALL_KINDS. LOST and SESSION_END are always in */
	rtl_batch_callback_t callback; /* NULL: only rtl_buffer_read() takes records */
	void *user;
	rtl_release_t release;    /* called with user when the buffer is gone; may be NULL */
	rtl_callback_thread_t thread; /* on which callback runs; 0: the one that all such buffers share */
} rtl_buffer_options_t;

/* At most 32 buffers and 32 threads. Buffers get records of sessions that run when they are made, too. */
int rtl_callback_thread_create(rtl_callback_thread_t *out);
int rtl_buffer_create(const rtl_buffer_options_t *options, rtl_buffer_t *out);

/*
 * Delivers a batch on the calling thread, by callback. Waits up to timeout_ms until the watermark is reached or
 * the buffer is flushed; then, or at the time-out, delivers what there is. Returns the number of records (0: none
 * came), -ECANCELED when the buffer is destroyed. One thread at a time gets a batch. Also of a buffer with a callback.
 */
int64_t rtl_buffer_read(rtl_buffer_t buffer, rtl_batch_callback_t callback, void *user, uint32_t timeout_ms);

/* Everything in the buffer becomes due now, below the watermark, too. A buffer with a callback: waits until it was
 * delivered; -ETIMEDOUT. */
int rtl_buffer_flush(rtl_buffer_t buffer, uint32_t timeout_ms);

/* Waits for a callback that runs. Records in the buffer are dropped: flush first. */
int rtl_buffer_destroy(rtl_buffer_t buffer);

/* ---- sessions ---------------------------------------------------------------------------- */

/* Zeros are the defaults. */
typedef struct rtl_options {
	size_t size;               /* sizeof(rtl_options_t) */
	uint32_t kinds;            /* RTL_BIT() of each; 0: those that have a callback, or are of a buffer, now */
	uint32_t policy;           /* RTL_BUFFER_DISCARD; LOSSLESS: records wait in memory up to limit_bytes */
	uint64_t buffer_bytes;     /* between the payload and the library's thread: 16 MiB; a power of two from 64 KiB on */
	uint64_t limit_bytes;      /* of RTL_BUFFER_LOSSLESS: 1 GiB */
	uint32_t drain_timeout_ms; /* rtl_stop() waits this long for kernels that still run: 1000 */
	uint32_t reserved;
} rtl_options_t;

/*
 * Starts a session. Kernels are recorded when this returns, and the other kinds that are possible in this process: see
 * rtl_stats_t.unavailable. -ENODEV: HSA is not initialized, call hipInit() or
 * hsa_init() before. -EALREADY: a session is active. -EBUSY: rtl-attach, or another copy of this library, records this
 * process. -ETIMEDOUT: threads could not be seen outside of HSA's queue functions; try again.
 */
int rtl_start(const rtl_options_t *options);

/* Waits until all records of what had completed before the call were delivered to the callbacks, and to those of buffers.
 * Buffers without a callback: until the records are readable there. -ETIMEDOUT. */
int rtl_flush(uint32_t timeout_ms);

/*
 * Ends the session: waits for kernels that still run, restores the runtime's tables, and returns when all records were
 * delivered as in rtl_flush(). 0 if there is none. Then rtl_start() may start another one. Callbacks and buffers stay.
 */
int rtl_stop(void);

/*
 * rtl_stop(), and forgets callbacks, buffers and threads. When it has returned, no callback runs on any thread, or will run,
 * and all were released. It waits as long as a callback runs. May be called at any time, also first, twice, or by several
 * threads at once; rtl_set_callback() and rtl_start() may follow.
 *
 * At exit() the library ends the session by itself, before objects are destroyed that were made before the first rtl_start().
 * It waits a second for records, and a second for a callback.
 */
int rtl_shutdown(void);

/* ---- what happened ------------------------------------------------------------------------ */

typedef struct rtl_stats {
	size_t size;          /* in: sizeof(rtl_stats_t) */
	uint64_t sessions;    /* started so far */
	uint64_t active;      /* 1: a session is active */
	uint64_t exceptions;  /* that callbacks and release functions have thrown */
	uint64_t lost;        /* records that never reached the library's thread */
	uint64_t dropped;     /* records that a buffer had no room for, or that were in one that was destroyed */
	uint64_t unknown;     /* records of a type that this library does not know, or whose definition was lost */
	uint64_t delivered[RTL_RECORD_KINDS]; /* by kind: records that were made for callbacks and buffers */
	uint64_t unavailable; /* RTL_BIT() of each kind that the last session was asked for and could not record */
} rtl_stats_t;

int rtl_get_stats(rtl_stats_t *out);

/* Why the last failed call of rtl_start(), rtl_stop() or rtl_shutdown() failed: one line, cut to size with its NUL. */
int rtl_error_text(char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
