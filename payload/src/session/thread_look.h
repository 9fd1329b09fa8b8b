/* thread_look.h: whether a thread may be inside some code ranges, without stopping it. With
 * the session's lock. */
#ifndef RTL_THREAD_LOOK_H
#define RTL_THREAD_LOOK_H

#include <stddef.h>
#include <stdint.h>

#include "abi.h"

struct pending_thread {
	int tid;         /* as system calls have it */
	int listed;      /* as /proc lists it: the same, unless /proc shows an outer pid namespace */
	uint64_t cpu_ns; /* when first seen running, 0: not yet */
	uint32_t ran;    /* times that its CPU clock has advanced by RAN_NS outside a handler */
	uint32_t waited; /* looks that found it unsure */
};

struct look_for {
	const struct rtl_range *ranges; /* the code */
	uint32_t count;
	uint64_t handler_return; /* see thread_handler_return() */
};

enum thread_where { THREAD_OUTSIDE, THREAD_UNSURE, THREAD_GONE };

/* Looks at a thread by /proc/PID/task/TID/syscall: "running", or numbers that end in its
 * stack pointer and program counter. A running thread is outside when it has run for long
 * enough since the first look. */
enum thread_where thread_look(struct pending_thread *s, const struct look_for *f);

/* The address that signal handlers return to: glibc gives it to the kernel with every
 * handler. A word of that value on a stack begins a signal frame. 0: no handler has it. */
uint64_t thread_handler_return(void);

/* A file of a thread that /proc lists, terminated. Bytes read, or -errno. */
long thread_read_file(int listed, const char *name, char *buf, size_t size);

#endif
