/*
 * abi.h: everything that the payload (C, in the target) and the tool (Go)
 * share, except the records of each kind: those are in kinds/KIND/KIND_abi.h. Written
 * once, here: internal/ring/abi.go is generated from it.
 *
 *   control memfd "rtl-control"  (one per target, lives as long as the payload)
 *     0      struct rtl_control
 *     2048   struct rtl_schedule          (session/periods_abi.h)
 *     4096   struct rtl_counters          (written by the payload only)
 *     8192   struct rtl_grace             (requests by the payload, verdicts by the tool)
 *     12288  the next environment buffer  (written by the tool before a command)
 *
 *   ring memfd "rtl-ring"        (one per session)
 *     0      struct rtl_ring
 *     4096   size bytes of records, in lines of 64 bytes
 *
 * Both are sealed against resizing by the target. Little-endian, x86-64 only.
 * Times are CLOCK_BOOTTIME nanoseconds unless a name says otherwise.
 */
#ifndef RTL_ABI_H
#define RTL_ABI_H

#include <stdint.h>

#define RTL_ABI_VERSION 5u
#define RTL_CONTROL_MAGIC 0x4c52544e4f435452ull /* "RTCONTRL" */
#define RTL_RING_MAGIC 0x474e49522d4c5452ull    /* "RTL-RING" */

#define RTL_CONTROL_NAME "rtl-control"
#define RTL_RING_NAME "rtl-ring"

/* The environment variable that names the address of the recorder that has started this
 * program (session/launch.h). */
#define RTL_LAUNCHED "RTL_LAUNCHED"

#define RTL_PAGE 4096
#define RTL_LINE 64
#define RTL_COUNTERS_OFFSET 4096
#define RTL_GRACE_OFFSET 8192
#define RTL_ENV_OFFSET 12288
#define RTL_ENV_MAX 53248 /* bytes: the control memfd is 64 KiB in all */
#define RTL_CONTROL_SIZE (RTL_ENV_OFFSET + RTL_ENV_MAX)
#define RTL_TEXT_MAX 512
#define RTL_BUILD_ID_MAX 20
#define RTL_DETACH_MOST_MS 18000 /* a detach is answered within this and the drain's time-out, from the last record taken on */
#define RTL_STRING_MAX 16384 /* bytes of one string record; longer names are cut, and say so */

/*
 * The kinds of record (kinds/kinds.def). A session always records dispatches; the
 * environment variable RTL_TRACE names the others that it records.
 */
#define RTL_KINDS_MAX 16
enum rtl_kind {
#define KIND(number, ID, object, name) RTL_KIND_##ID = (number),
#include "kinds/kinds.def"
};

/* The payload's states (docs/architecture.md). Only session/disarm.c and session/arm.c change them. */
enum rtl_state {
	RTL_STATE_IDLE = 0,     /* loaded, never attached, or undone */
	RTL_STATE_ARMING = 1,   /* preparing, patching, grace */
	RTL_STATE_ACTIVE = 2,   /* queues may be virtual, records flow */
	RTL_STATE_DRAINING = 3, /* queues raw again, waiting for timestamps */
	RTL_STATE_DORMANT = 4,  /* only the inventory of a detach is left */
	RTL_STATE_OFF = 5,      /* between two windows of a schedule: as DORMANT, but with a ring (session/periods_abi.h) */
};

/* Commands from the tool. Write env (if any), command, then bump command_seq
 * and FUTEX_WAKE it; answered when answer_seq == command_seq. DETACH takes no
 * env. */
enum rtl_command {
	RTL_COMMAND_NONE = 0,
	RTL_COMMAND_PING = 1,
	RTL_COMMAND_REATTACH = 2,
	RTL_COMMAND_DETACH = 3,
	RTL_COMMAND_START = 4, /* begins the session's schedule (session/periods_abi.h) */
	RTL_COMMAND_DISABLE = 5, /* ends the schedule's window, and begins no other; RTL_STATE_OFF says that it is done */
	RTL_COMMAND_ENABLE = 6,  /* the schedule goes on: its window begins, if it has one now */
};

/* Why the last session ended. */
enum rtl_end {
	RTL_END_NONE = 0,
	RTL_END_DETACH = 1,        /* the recorder asked */
	RTL_END_OTHER_TOOL = 2,    /* `rtl-attach detach` asked */
	RTL_END_RECORDER_DEAD = 3, /* heartbeat stopped */
	RTL_END_SHUT_DOWN = 4,     /* the application called hsa_shut_down */
	RTL_END_EXIT = 5,          /* the process is exiting */
	RTL_END_ARM_FAILED = 6,    /* arming was undone */
	RTL_END_PERIOD = 7,        /* a window of a schedule is over; others follow */
	RTL_END_SCHEDULE = 8,      /* all windows of the schedule are over */
};

/* One recorder per target. The tool takes it by CAS of owner 0 -> its own
 * word, then fills start_ticks and pidns; a holder whose process is gone
 * (owner pid with that start time does not exist) may be replaced by CAS. */
struct rtl_recorder {
	uint64_t owner;       /* pid in the tool's pid namespace << 32 | random non-zero nonce; 0: free */
	uint64_t start_ticks; /* field 22 of /proc/PID/stat of the holder */
	uint64_t pidns;       /* inode of the holder's pid namespace */
	uint64_t beat;        /* a counter, not a time: the payload times its changes itself */
	uint32_t stop_request;/* set by another tool: the recorder shall finish its trace and detach */
	uint32_t reserved[7];
};

struct rtl_control {
	/* Identity: written once, before the mapping can be found. */
	uint64_t magic;
	uint32_t abi_version;
	uint32_t size_bytes;    /* RTL_CONTROL_SIZE */
	uint32_t pid;           /* as the target sees itself */
	uint32_t control_tid;   /* 0: no control thread (start failed) */
	uint32_t build_id_len;
	uint8_t build_id[RTL_BUILD_ID_MAX];
	uint32_t reserved0[4];

	/* Mailbox. */
	uint32_t command_seq; /* futex word, written by the tool */
	uint32_t command;     /* enum rtl_command */
	uint32_t answer_seq;  /* futex word, written by the payload */
	int32_t result;       /* 0 or -errno of the command answered */
	uint32_t env_len;     /* bytes at RTL_ENV_OFFSET */
	uint32_t argument;    /* of DETACH: enum rtl_end, why */
	uint32_t skip_drain;  /* set by the tool at any time: a drain in progress ends now */
	uint32_t reserved1;

	/* State: written by the payload. */
	uint32_t state;      /* enum rtl_state; futex word */
	uint32_t generation; /* sessions begun, 1 for the first */
	uint32_t last_end;   /* enum rtl_end of the last session */
	uint32_t worker_tid; /* 0: no worker */
	uint64_t armed_ns;   /* when hooks became active in this session */
	uint64_t detached_ns;/* when the last session's slots were restored */
	uint64_t ring_size;  /* bytes of records; 0: no ring */
	uint64_t ring_inode; /* of the ring's memfd, to tell it from a forgery */
	int32_t ring_fd;     /* in the target; -1: none */
	int32_t control_fd;  /* in the target */
	uint32_t hooks_patched;  /* slots that hold our wrappers now */
	uint32_t hooks_buried;   /* our wrappers below another tool's: pass-through */
	uint32_t hooks_missing;  /* functions not found, or stubs that do not decode */
	uint32_t queues_kept;    /* queue states kept for a reattach: mapped, without memory behind */
	uint32_t queues_profiled;/* queues on which we turned profiling on */
	uint32_t signals_kept;   /* signals of ours on packets that never completed, or that may be on others */
	uint32_t copies_profiled;/* 1: we turned profiling of copies on, and it stays on */
	uint32_t reserved3;

	struct rtl_recorder recorder;

	int32_t error;               /* -errno of the last failure, 0: none */
	uint32_t reserved2;
	char error_text[RTL_TEXT_MAX]; /* NUL-terminated, UTF-8, one line */
};

/* Why an item (a dispatch, a copy, …) has no times. */
enum rtl_reason {
	RTL_REASON_NONE = 0,
	RTL_REASON_AFTER_DETACH = 1,   /* slot claimed while active, published after */
	RTL_REASON_NO_SIGNAL = 2,      /* the pool was empty */
	RTL_REASON_BACKLOG = 3,        /* the list to the worker was full */
	RTL_REASON_SHARED_SIGNAL = 4,  /* several packets in flight on one signal */
	RTL_REASON_REARMED = 5,        /* the signal was re-armed or reset before it fired */
	RTL_REASON_DESTROYED = 6,      /* the signal was destroyed before it fired */
	RTL_REASON_NOT_COMPLETED = 7,  /* still running when the drain ended */
	RTL_REASON_SIGNAL_TABLE = 8,   /* too many application signals at once */
	RTL_REASON_NO_TIMES = 9,       /* completed, but the hardware wrote no times */
	RTL_REASON_QUEUE_DESTROYED = 10,/* the queue was destroyed under it */
	RTL_REASON_COUNT = 11,
};
#define RTL_REASONS_MAX 16

/*
 * The account of one kind. When the session has ended, each item that began is timed,
 * untimed (for any reason but AFTER_DETACH, which is said of items that never began),
 * or was passed over because the ring was full, and is then counted in lost only.
 */
struct rtl_kind_counters {
	uint64_t begun;  /* items that began while the session recorded */
	uint64_t timed;
	uint64_t lost;   /* records that the tool never gets; records_lost counts them, too */
	uint64_t untimed[RTL_REASONS_MAX]; /* by enum rtl_reason */
};

struct rtl_counters {
	uint64_t packets;          /* published through virtual queues */
	uint64_t timed_pool;       /* dispatches timed with a signal of ours */
	uint64_t timed_app;        /* dispatches timed from the application's own signal */
	uint64_t records;          /* ring records written */
	uint64_t records_lost;     /* no room in the ring: discarded, or not even made, said in band; or the worker never got them */
	uint64_t queues_seen;      /* in an index call, or at least in a doorbell: those are not recorded */
	uint64_t queues_foreign;   /* intercept or soft queues of others: not recorded */
	uint64_t queues_refused;   /* no state left for them */
	uint64_t raw_claims;       /* slots claimed raw while active, before the queue flipped or on one that never did */
	uint64_t flips;
	uint64_t flip_aborts;
	uint64_t kicks;            /* published by the worker: no doorbell had come */
	uint64_t bells_unindexed;  /* doorbells of queues without any index call seen */
	uint64_t signals_created;
	uint64_t signals_quarantined; /* never completed, or on packets that are not known: kept from re-use */
	uint64_t names_resolved;
	uint64_t names_unresolved;
	uint64_t worker_rounds;
	uint64_t worker_cpu_ns;
	uint64_t grace_ns;         /* duration of the last grace */
	uint64_t grace_threads;    /* threads looked at */
	uint64_t grace_waited;     /* threads that had to be looked at more than once */
	uint64_t grace_asked;      /* threads that the tool was asked to stop */
	uint64_t drain_ns;         /* duration of the last drain */
	struct rtl_kind_counters kind[RTL_KINDS_MAX]; /* by enum rtl_kind; a kind that is not recorded: zeros */
	uint64_t queues_excluded;  /* of GPUs that are not recorded (RTL_GPUS): left as they are, and in no other counter */
	uint64_t lane_rounds;      /* grows when the worker has taken all records of calls that were begun when it grew last */
};

/* Grace: threads that only a stop can clear are handed to the tool, which
 * stops each singly, unwinds it, and answers. */
#define RTL_GRACE_RANGES 64
#define RTL_GRACE_ASK 64
enum rtl_verdict {
	RTL_VERDICT_NONE = 0,
	RTL_VERDICT_OUTSIDE = 1, /* no frame in any range */
	RTL_VERDICT_INSIDE = 2,
	RTL_VERDICT_GONE = 3,    /* the thread has ended */
	RTL_VERDICT_UNKNOWN = 4, /* could not be stopped or unwound */
};
struct rtl_range {
	uint64_t lo, hi; /* code addresses, hi exclusive */
};
struct rtl_grace {
	uint32_t ask_seq;    /* payload: bumped when tids[] is filled */
	uint32_t answer_seq; /* tool: == ask_seq when verdicts[] is filled; futex word */
	uint32_t count;
	uint32_t range_count;
	uint32_t tids[RTL_GRACE_ASK];     /* as the target's pid namespace sees them */
	uint32_t verdicts[RTL_GRACE_ASK]; /* enum rtl_verdict */
	struct rtl_range ranges[RTL_GRACE_RANGES];
};

/* Ring: one producer (the worker), one consumer (the collector). head and
 * tail count bytes and never wrap; both are multiples of RTL_LINE. */
struct rtl_ring {
	uint64_t magic;
	uint32_t abi_version;
	uint32_t generation;
	uint64_t size_bytes; /* power of two */
	uint64_t watermark_bytes;
	uint8_t pad0[32];
	uint64_t head; /* producer */
	uint8_t pad1[56];
	uint64_t tail; /* consumer */
	uint8_t pad2[56];
	uint32_t wake; /* futex word: bumped by the producer at the watermark and at the end */
	uint32_t ended;/* 1: the session's last record is written */
	uint8_t pad3[56];
};

/* Records: whole lines. The first line always begins with the header. Types below
 * RTL_KIND_TYPES: */
enum rtl_type {
	RTL_TYPE_PAD = 0,
	RTL_TYPE_WINDOW = 1,
	RTL_TYPE_LOST = 2,
	RTL_TYPE_STRING = 3,
	RTL_TYPE_LAUNCH = 4,
	RTL_TYPE_QUEUE = 5,
	RTL_TYPE_AGENT = 6,
	RTL_TYPE_CODE_OBJECT = 7,
	RTL_TYPE_KIND_ACCOUNT = 8,
	RTL_TYPE_END = 9,
	RTL_TYPE_PERIOD = 10,
	RTL_TYPE_COUNTERS = 11,
	RTL_TYPE_KIND_UNAVAILABLE = 12,
};

/* The record types of a kind: 16 numbers each, from RTL_KIND_TYPES on. A reader skips
 * a record of a type that it does not know, by its number of lines, and counts it. */
#define RTL_KIND_TYPES 64
#define RTL_KIND_TYPE(kind, n) (RTL_KIND_TYPES + 16 * (kind) + (n))
#define RTL_KIND_OF_TYPE(type) (((type) - RTL_KIND_TYPES) / 16)

struct rtl_header {
	uint16_t type;  /* enum rtl_type */
	uint16_t lines; /* of the whole record, at least 1 */
	uint32_t seq;   /* +1 per record; a jump is a hole */
};

/* The time in which a queue was virtual. Everything published in
 * [open.index, close.index) is a timed dispatch, an untimed record, or one of
 * the other packets counted at the close. */
enum rtl_window_kind { RTL_WINDOW_OPEN = 1, RTL_WINDOW_CLOSE = 2 };
struct rtl_window {
	struct rtl_header header;
	uint32_t queue;
	uint32_t kind;
	uint64_t time_ns;
	uint64_t index;      /* open: first virtual index; close: first raw index again */
	uint64_t dispatches; /* close: kernel dispatches published in the window */
	uint64_t others;     /* close: barrier and vendor packets published; open: packets in front that the hardware has not taken */
	uint64_t after;      /* close: slots claimed in the window, unpublished at its end */
	uint64_t raw;        /* open: slots claimed raw since the session's start */
};

struct rtl_lost {
	struct rtl_header header;
	uint64_t count; /* records discarded before this one */
	uint64_t from_ns;
	uint64_t until_ns;
	uint64_t reserved[4];
};

/* text follows the first 16 bytes, over as many lines as it needs, no NUL */
struct rtl_string {
	struct rtl_header header;
	uint32_t id;
	uint32_t len_bytes; /* of the text stored here */
	char text[48];
};

struct rtl_launch {
	struct rtl_header header;
	uint32_t id;
	uint32_t name; /* string id, 0: unresolved */
	uint32_t grid[3];
	uint16_t workgroup[3];
	uint16_t reserved0;
	uint32_t group_segment_bytes;
	uint32_t private_segment_bytes;
	uint64_t kernel_object;
	uint32_t agent; /* owner of the code, 0: unknown */
	uint32_t reserved1;
};

#define RTL_QUEUE_PROFILING_OURS 1u /* we turned profiling on; it stays on */
struct rtl_queue {
	struct rtl_header header;
	uint32_t id;
	uint32_t agent;     /* id of an agent record, 0: unknown */
	uint64_t address;   /* hsa_queue_t* in the target */
	uint64_t hsa_id;    /* hsa_queue_t.id */
	uint64_t doorbell;  /* doorbell_signal.handle */
	uint32_t size;      /* packets */
	uint32_t type;      /* hsa_queue_type_t */
	uint32_t flags;
	uint32_t reserved[3];
};

struct rtl_agent {
	struct rtl_header header;
	uint32_t id;
	uint32_t name;    /* string id, such as gfx90a */
	uint32_t product; /* string id, marketing name */
	uint32_t gpu;     /* ordinal among the GPU agents, from 0 */
	uint64_t handle;
	uint32_t driver_node; /* HSA_AMD_AGENT_INFO_DRIVER_NODE_ID */
	uint32_t bdf;
	uint32_t compute_units;
	uint32_t pci_domain; /* of bdf; 0 from a runtime that does not say it */
	uint32_t reserved[4];
};

struct rtl_code_object {
	struct rtl_header header;
	uint32_t id;
	uint32_t uri; /* string id */
	uint32_t agent;
	uint32_t reserved0;
	uint64_t executable;
	uint64_t load_base;
	uint64_t load_size;
	uint64_t reserved1[2];
};

/* The account of one recorded kind, when the session ends: the sums of its
 * rtl_kind_counters. Each recorded kind has one, also one of which nothing came. */
struct rtl_kind_account {
	struct rtl_header header;
	uint32_t kind; /* enum rtl_kind */
	uint32_t reserved0;
	uint64_t begun;
	uint64_t timed;
	uint64_t untimed; /* for all reasons but AFTER_DETACH */
	uint64_t lost;
	uint64_t reserved[2];
};

/* A kind that was asked for and cannot be recorded in this session. It has no account. */
struct rtl_kind_unavailable {
	struct rtl_header header;
	uint32_t kind;   /* enum rtl_kind */
	uint32_t reason; /* string id, 0: there was no room for it */
	uint32_t error;  /* errno */
	uint32_t reserved[11];
};

/* The last record of a session. */
struct rtl_end_record {
	struct rtl_header header;
	uint32_t end; /* enum rtl_end */
	uint32_t reserved0;
	uint64_t armed_ns;
	uint64_t detached_ns;
	uint64_t records_lost;
	uint64_t reserved[3];
};

struct rtl_status {
	uint32_t abi_version;
	uint32_t state;
	uint32_t generation;
	uint32_t control_tid;
};

#ifndef __cplusplus
_Static_assert(sizeof(struct rtl_recorder) == 64, "one cache line");
_Static_assert(sizeof(struct rtl_control) <= RTL_PAGE, "one page");
_Static_assert(sizeof(struct rtl_counters) <= RTL_PAGE, "one page");
_Static_assert(sizeof(struct rtl_grace) <= RTL_PAGE, "one page");
_Static_assert(sizeof(struct rtl_ring) <= RTL_PAGE, "one page");
_Static_assert(__builtin_offsetof(struct rtl_ring, head) == 64, "a line of its own");
_Static_assert(__builtin_offsetof(struct rtl_ring, tail) == 128, "a line of its own");
_Static_assert(__builtin_offsetof(struct rtl_ring, wake) == 192, "a line of its own");
#endif

#ifndef __cplusplus
#define RTL_ONE_LINE(s) _Static_assert(sizeof(s) == RTL_LINE, "one cache line")
RTL_ONE_LINE(struct rtl_window);
RTL_ONE_LINE(struct rtl_string);
RTL_ONE_LINE(struct rtl_launch);
RTL_ONE_LINE(struct rtl_queue);
RTL_ONE_LINE(struct rtl_agent);
RTL_ONE_LINE(struct rtl_code_object);
RTL_ONE_LINE(struct rtl_kind_account);
RTL_ONE_LINE(struct rtl_kind_unavailable);
RTL_ONE_LINE(struct rtl_end_record);
RTL_ONE_LINE(struct rtl_lost);
#else
#define RTL_ONE_LINE(s)
#endif

#include "session/periods_abi.h"

#endif
