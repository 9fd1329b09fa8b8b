/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the programs and the tool share: settings, maps and the records in the ring. bpf2go makes Go types of them. */
#pragma once
#include "kernel.h"

#define CALLS_MAX 96     /* Python frames of a stack */
#define STACK_MAX 28672  /* bytes of a stack; with the rest below 32 KiB, the most that a per-CPU map value has */
#define PAGE 4096
#define TARGETS_MAX 1024
#define THREADS_MAX 16384

enum kind {
	KIND_SAMPLE = 1, /* struct stack: of a thread that runs, on a clock event */
	KIND_STACK = 2,  /* struct stack: what later records call by its key */
	KIND_WAIT = 3,   /* struct wait: a time in which a thread did not run; it runs again */
	KIND_ASLEEP = 4, /* struct wall: a thread that did not run when the wall clock ticked */
	KIND_EXIT = 5,   /* struct total: a thread has ended */
};

/* The clocks and states of a sample, as rtl_cpu_sample has them. */
enum clock { CLOCK_CPU = 0, CLOCK_WALL = 1 };
enum mode { MODE_USER = 0, MODE_KERNEL = 1 };

/* Places in CPython's structures, which differ by version. */
struct python {
	u32 on;            /* 0: the process has no interpreter that is known */
	u32 tss;           /* a thread's state: behind the thread pointer; 0: by thread_states */
	u32 tstate_cframe; /* 0: the thread state has the frame itself */
	u32 tstate_frame;
	u32 f_code, f_prev, f_instr, f_mark; /* in a frame */
	u32 mark_is;                         /* f_mark of the first frame of a call of the evaluation loop */
	u32 frame_bytes;                     /* how much of a frame must be read, up to FRAME_MAX */
	u32 shims;                           /* 1: the marked frame is of no function */
	u32 padding;
};
#define FRAME_MAX 128

/* A process that is observed. */
struct target {
	struct python python;
	u32 level;                           /* of its pid namespace below the first one */
	u32 scheduling;                      /* 1: waits */
	u64 cpu_from, cpu_until;             /* when its clocks count, CLOCK_BOOTTIME */
	u64 wall_from, wall_until;
	u64 seed;                            /* in the keys of its stacks: another one for each recording */
};

/* Events of a process that are missing, by cause. */
struct loss {
	u64 samples, stacks, waits; /* the ring was full */
	u64 threads;                /* no room in the table of threads */
	u64 unreported;             /* the kernel did not report a switch or a waking: what followed shows it */
};

struct event {
	u32 kind;
	u32 pid, tid; /* in the first pid namespace */
	u32 own_tid;  /* in the process's namespace */
	u64 time;
	u32 cpu;
	u32 detail;   /* KIND_SAMPLE: clock, mode << 8; KIND_WAIT: 1: it has begun before the recording */
};

/* A Python frame. The highest bit of instr: it is the first of a call of the evaluation loop; if it is of no function the
 * rest is its own address. */
struct call {
	u64 code, instr;
};

struct stack {
	struct event event;
	u64 key;
	u32 calls, bytes;
	u32 skipped; /* bytes from the stack pointer on that are not in memory: the thread has not used them yet */
	u32 padding;
	u64 registers[17]; /* in DWARF's order */
	struct call call[CALLS_MAX];
	u8 memory[STACK_MAX]; /* bytes of it, from the stack pointer and skipped on */
};

struct wait {
	struct event event; /* time: when the thread ran again */
	u64 out, woken, key;
	u64 argument0, argument1;
	u32 state; /* 0: preempted */
	s32 syscall; /* -1: none */
	u32 waker_pid, waker_tid, waker_own_tid;
	s32 waker_syscall; /* below 0: an interrupt came upon it */
};

struct wall {
	struct event event;
	u64 key;
};

struct total {
	struct event event;
	u64 short_waits, short_ns;
};

/* Who woke a thread. */
struct waker {
	u64 time; /* 0: nobody */
	u32 pid, tid, own_tid;
	s32 syscall; /* below 0: an interrupt came upon it */
};

/* What is known of a thread. */
struct thread {
	struct wait wait; /* the latest one */
	struct waker early; /* who woke it before it had stopped running */
	struct total total;
	u64 preempted;    /* when it was last preempted, in a wait that has a row and a stack */
	u64 switches;     /* how often it had stopped running, when that was seen last; 0: not seen */
	u32 off;          /* 1: it does not run now */
	u32 padding;
};

/* The stack of a thread that has not run since the wall clock has seen it. */
struct sleep {
	u64 born, switches;
	struct wall wall;
};
