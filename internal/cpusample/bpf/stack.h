/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Copies of what a thread's stack is made of: registers, the top of its memory, the chain of Python frames.
 * Nothing is unwound here. */
#pragma once
#include "records.h"

MAP(targets, MAP_HASH, u32, struct target, TARGETS_MAX);
MAP(losses, MAP_HASH, u32, struct loss, TARGETS_MAX);
MAP(threads, MAP_HASH, u32, struct thread, THREADS_MAX);
MAP(thread_states, MAP_HASH, u32, u64, THREADS_MAX); /* CPython's, by thread */
MAP(sleeps, MAP_LRU_HASH, u32, struct sleep, THREADS_MAX);
MAP(sent, MAP_LRU_HASH, u64, u8, 16384);             /* keys of stacks that the tool has */
MAP(room, MAP_PERCPU_ARRAY, u32, struct stack, 4);
struct {
	FIELD_UINT(type, MAP_RINGBUF);
	FIELD_UINT(max_entries, 1 << 24);
} events SEC(".maps");

/* A clock event may come while a switch is handled, and programs that may sleep give way to each other: each has a place of its own. */
enum room { ROOM_CLOCK, ROOM_SWITCH, ROOM_TASKS, ROOM_BEGIN };

#define LOSE(process, what) LOSE_SOME(process, what, 1)
#define LOSE_SOME(process, what, n) \
	do { \
		struct loss *l_ = map_lookup(&losses, &(process)); \
		if (l_) \
			__sync_fetch_and_add(&l_->what, n); \
	} while (0)

INLINE struct stack *room_for(u32 which) { return map_lookup(&room, &which); }

/* own_tid is a thread's id in its process's pid namespace. */
INLINE u32 own_tid(struct task_struct *task, u32 level) {
	u32 nr = 0;
	if (!level || level > 32)
		return task->pid;
	struct pid *pid = task->thread_pid;
	if (!pid)
		return 0;
	u64 numbers = (u64)pid + __builtin_preserve_field_info(pid->numbers, 0 /* byte offset */);
	read_kernel(&nr, sizeof nr, (void *)(numbers + level * UPID_BYTES));
	return nr;
}

INLINE void save_registers(struct stack *s, const struct pt_regs *r) {
	u64 *to = s->registers;
	to[0] = r->ax, to[1] = r->dx, to[2] = r->cx, to[3] = r->bx, to[4] = r->si, to[5] = r->di, to[6] = r->bp, to[7] = r->sp;
	to[8] = r->r8, to[9] = r->r9, to[10] = r->r10, to[11] = r->r11, to[12] = r->r12, to[13] = r->r13, to[14] = r->r14;
	to[15] = r->r15, to[16] = r->ip;
}

/* copy copies memory of the current thread, or, in a program that may sleep, of another one. */
INLINE long copy(void *to, u32 bytes, u64 from, struct task_struct *other) {
	if (other)
		return read_user_of(to, bytes, (void *)from, other, 0);
	return read_user(to, bytes, (void *)from);
}

/* save_memory copies the stack from the stack pointer to the end of what is mapped, or STACK_MAX. A function that has just
 * made room for its frame may have its first page still to come. */
INLINE void save_memory(struct stack *s, u64 sp, struct task_struct *other) {
	u32 first = PAGE - (sp & (PAGE - 1)), n = 0;
	s->bytes = s->skipped = s->padding = 0;
	if (first > PAGE)
		return;
	if (copy(s->memory, first, sp, other))
		s->skipped = first;
	else
		n = first;
	u64 at = sp + first;
	for (int i = 0; i < STACK_MAX / PAGE; i++) {
		asm volatile("" : "+r"(n)); /* the verifier wants the bound of this very register */
		if (n > STACK_MAX - PAGE || copy(s->memory + n, PAGE, at, other))
			break;
		n += PAGE;
		at += PAGE;
	}
	s->bytes = n;
}

INLINE u64 python_state(const struct python *p, u32 tid, struct task_struct *other) {
	u64 at = 0;
	if (p->tss) { /* glibc keeps what pthread_setspecific sets behind the thread pointer */
		u64 pointer = other ? other->thread.fsbase : current_task()->thread.fsbase;
		return copy(&at, sizeof at, pointer + p->tss, other) ? 0 : at;
	}
	u64 *known = map_lookup(&thread_states, &tid);
	return known ? *known : 0;
}

/* save_calls copies the chain of Python frames, the innermost first. */
INLINE void save_calls(struct stack *s, const struct python *p, u32 tid, struct task_struct *other) {
	s->calls = 0;
	if (!p->on)
		return;
	u64 at = python_state(p, tid, other), frame = 0;
	if (!at || (p->tstate_cframe && copy(&at, sizeof at, at + p->tstate_cframe, other)) ||
	    copy(&frame, sizeof frame, at + p->tstate_frame, other))
		return;
	u32 bytes = p->frame_bytes;
	if (bytes == 0 || bytes > FRAME_MAX)
		return;
	u8 b[FRAME_MAX] = {};
	u32 n = 0;
	for (u32 i = 0; i < CALLS_MAX && frame; i++) {
		u32 want = bytes;
		asm volatile("" : "+r"(want));
		if (want == 0 || want > FRAME_MAX || copy(b, want, frame, other))
			break;
		s->call[i].code = *(u64 *)(b + (p->f_code & 0x78));
		u64 instr = *(u64 *)(b + (p->f_instr & 0x78));
		if (b[p->f_mark & 0x7f] == p->mark_is)
			instr = (p->shims ? frame : instr) | 1ull << 63;
		s->call[i].instr = instr;
		n = i + 1;
		frame = *(u64 *)(b + (p->f_prev & 0x78));
	}
	s->calls = n;
}

#define MIX(key, value) ((key) = ((key) ^ (value)) * 1099511628211ull) /* FNV-1a, by words */

/* key_of is the key of a stack: of the registers that a function keeps for its caller, and of the Python frames. The
 * memory is not in it: it has times and counters. */
INLINE u64 key_of(const struct stack *s, const struct pt_regs *r, u64 seed, u32 tid) {
	u64 key = 14695981039346656037ull ^ seed;
	MIX(key, tid);
	MIX(key, r->ip);
	MIX(key, r->sp);
	MIX(key, r->bp);
	MIX(key, r->bx);
	MIX(key, r->r12);
	MIX(key, r->r13);
	MIX(key, r->r14);
	MIX(key, r->r15);
	MIX(key, r->orig_ax);
	for (u32 i = 0; i < CALLS_MAX && i < s->calls; i++) {
		MIX(key, s->call[i].code);
		MIX(key, s->call[i].instr);
	}
	return key | 1; /* 0: no stack */
}

/* send puts a stack into the ring. */
INLINE long send(struct stack *s) {
	u32 n = s->bytes;
	asm volatile("" : "+r"(n));
	if (n > STACK_MAX)
		return -1;
	return ring_output(&events, s, __builtin_offsetof(struct stack, memory) + n, BPF_RB_NO_WAKEUP);
}

/* send_once sends the stack with which a thread does not run, unless the tool has one with this key. It returns the
 * key; 0: the stack is not known. */
INLINE u64 send_once(u32 slot, const struct target *t, const struct event *e, const struct pt_regs *r, struct task_struct *other) {
	struct stack *s = room_for(slot);
	if (!s)
		return 0;
	save_registers(s, r);
	save_calls(s, &t->python, e->tid, other);
	u64 key = key_of(s, r, t->seed, e->tid);
	if (map_lookup(&sent, &key))
		return key;
	s->event = *e;
	s->event.kind = KIND_STACK;
	s->key = key;
	save_memory(s, r->sp, other);
	if (send(s)) {
		u32 pid = e->pid;
		LOSE(pid, stacks);
		return 0;
	}
	u8 is = 1;
	map_update(&sent, &key, &is, 0);
	return key;
}
