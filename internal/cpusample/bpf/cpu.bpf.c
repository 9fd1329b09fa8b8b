/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the threads of processes do, seen from the kernel: on_cpu_clock and on_wall_clock on clock events of each
 * processor, on_switch and on_waking on the scheduler's, on_begin and on_wall_tick for all threads at once. Nothing is
 * put into the processes, and none of them is stopped. */
#include "stack.h"

volatile const u64 least_wait_ns = 0;    /* shorter waits are only counted */
volatile const u64 least_preempt_ns = 0; /* of a thread that is preempted, one stack in this time */

/* on_clock handles a clock event, on the thread that runs. */
INLINE int on_clock(struct bpf_perf_event_data *context, enum clock clock) {
	u64 ids = current_ids();
	u32 pid = ids >> 32, tid = ids;
	struct target *t = map_lookup(&targets, &pid);
	if (!t)
		return 0;
	u64 now = boottime_ns();
	if (clock == CLOCK_CPU ? now < t->cpu_from || now >= t->cpu_until : now < t->wall_from || now >= t->wall_until)
		return 0;
	struct stack *s = room_for(ROOM_CLOCK);
	if (!s)
		return 0;
	struct task_struct *task = current_task();
	enum mode mode = (context->regs.cs & 3) == 3 ? MODE_USER : MODE_KERNEL;
	struct pt_regs r;
	if (mode == MODE_USER)
		r = context->regs;
	else if (read_kernel(&r, sizeof r, user_registers(task)))
		return 0;
	s->event = (struct event){KIND_SAMPLE, pid, tid, own_tid(task, t->level), now, this_cpu(), clock | mode << 8};
	s->key = 0;
	save_registers(s, &r);
	save_calls(s, &t->python, tid, 0);
	save_memory(s, r.sp, 0);
	if (send(s))
		LOSE(pid, samples);
	return 0;
}

SEC("perf_event") int on_cpu_clock(struct bpf_perf_event_data *context) { return on_clock(context, CLOCK_CPU); }

SEC("perf_event") int on_wall_clock(struct bpf_perf_event_data *context) { return on_clock(context, CLOCK_WALL); }

/* end_thread sends what was counted of a thread that ends, and forgets it. */
INLINE void end_thread(u32 pid, u32 tid, u32 own) {
	struct thread *known = map_lookup(&threads, &tid);
	if (!known)
		return;
	struct total *total = &known->total;
	total->event = (struct event){KIND_EXIT, pid, tid, own, boottime_ns(), 0, 0};
	if (total->short_waits && ring_output(&events, total, sizeof *total, BPF_RB_NO_WAKEUP))
		LOSE(pid, waits);
	map_delete(&threads, &tid);
}

INLINE u64 switches_of(struct task_struct *task) { return task->nvcsw + task->nivcsw; }

/* note_out notes that the current thread stops running. Its memory can be read here. */
INLINE void note_out(struct task_struct *task, struct target *t, u32 pid, u32 state) {
	u32 tid = task->pid;
	struct wait w = {};
	w.event = (struct event){KIND_WAIT, pid, tid, own_tid(task, t->level), 0, 0, 0};
	w.out = boottime_ns();
	w.state = state;
	w.syscall = -1;
	struct thread *known = map_lookup(&threads, &tid);
	struct pt_regs r;
	if (!read_kernel(&r, sizeof r, user_registers(task))) {
		w.syscall = (s32)r.orig_ax;
		w.argument0 = r.di;
		w.argument1 = r.si;
		if (state || !known || w.out - known->preempted >= least_preempt_ns) {
			struct event e = w.event;
			e.time = w.out;
			w.key = send_once(ROOM_SWITCH, t, &e, &r, 0);
		}
	}
	u64 switches = switches_of(task);
	if (known) {
		if (known->off)
			LOSE(pid, unreported);
		if (known->switches && switches - known->switches > 1)
			LOSE_SOME(pid, unreported, switches - known->switches - 1); /* it has stopped and gone on in between */
		known->switches = switches;
		known->wait = w;
		known->off = 1;
		return;
	}
	struct stack *s = room_for(ROOM_SWITCH); /* the program's own stack has no room for it */
	if (!s)
		return;
	struct thread *new = (struct thread *)s->memory;
	__builtin_memset(new, 0, sizeof *new);
	new->wait = w;
	new->switches = switches;
	new->off = 1;
	if (map_update(&threads, &tid, new, 0))
		LOSE(pid, threads);
}

INLINE void set_waker(struct wait *w, const struct waker *by) {
	w->waker_pid = by->pid;
	w->waker_tid = by->tid;
	w->waker_own_tid = by->own_tid;
	w->waker_syscall = by->syscall;
}

/* A thread that is about to wait can be woken before it has stopped running. Then it stops within this time. */
#define EARLY_NS 100000

/* take_early takes such a waking, if no other one has ended the wait. */
INLINE void take_early(struct thread *known) {
	struct wait *w = &known->wait;
	if (known->off && w->state && !w->woken && known->early.time && w->out - known->early.time < EARLY_NS) {
		set_waker(w, &known->early);
		w->woken = w->out;
	}
	known->early.time = 0;
}

/* note_in sends the wait of a thread that begins to run. */
INLINE void note_in(u32 pid, u32 tid) {
	struct thread *known = map_lookup(&threads, &tid);
	if (!known)
		return;
	struct wait *w = &known->wait;
	take_early(known);
	if (!known->off || (w->state && !w->woken && !w->event.detail))
		LOSE(pid, unreported);
	if (!known->off) {
		known->switches++; /* that has been counted now */
		return;
	}
	u64 now = boottime_ns(), took = now - w->out;
	known->off = 0;
	if (took < least_wait_ns) {
		known->total.short_waits++;
		known->total.short_ns += took;
		return;
	}
	if (!w->state && w->key)
		known->preempted = w->out; /* not before: a short one, which has no row, must not take the place of the next */
	w->event.time = now;
	w->event.cpu = this_cpu();
	if (ring_output(&events, w, sizeof *w, BPF_RB_NO_WAKEUP))
		LOSE(pid, waits);
}

/* sched_switch(preempted, previous, next, state of the previous one) */
SEC("tp_btf/sched_switch") int on_switch(u64 *arguments) {
	struct task_struct *previous = (void *)arguments[1], *next = (void *)arguments[2];
	u32 pid = previous->tgid, state = arguments[3];
	struct target *t = map_lookup(&targets, &pid);
	if (t && t->scheduling) {
		if (state & TASK_DEAD)
			end_thread(pid, previous->pid, own_tid(previous, t->level));
		else
			note_out(previous, t, pid, arguments[0] & 1 ? 0 : state);
	}
	pid = next->tgid;
	t = map_lookup(&targets, &pid);
	if (t && t->scheduling)
		note_in(pid, next->pid);
	return 0;
}

/* sched_waking(task), on the thread that wakes it. */
SEC("tp_btf/sched_waking") int on_waking(u64 *arguments) {
	struct task_struct *task = (void *)arguments[0];
	u32 tid = task->pid;
	struct thread *known = map_lookup(&threads, &tid);
	if (!known || (known->off ? !known->wait.state || known->wait.woken : !task->__state))
		return 0;
	struct task_struct *waker = current_task();
	u64 ids = current_ids();
	u32 pid = ids >> 32;
	struct target *t = map_lookup(&targets, &pid);
	struct waker by = {boottime_ns(), pid, ids, t ? own_tid(waker, t->level) : 0, -1};
	struct pt_regs r;
	if (!read_kernel(&r, sizeof r, user_registers(waker)))
		by.syscall = (s32)r.orig_ax;
	if (known->off) {
		set_waker(&known->wait, &by);
		known->wait.woken = by.time;
	} else {
		known->early = by;
	}
	return 0;
}

/* A thread that does not run has all its registers on its kernel stack. */
INLINE int is_off(struct task_struct *task) { return !task->on_cpu && !task->exit_state && !(task->__state & TASK_DEAD); }

/* on_begin notes the threads that do not run when the recording begins: those that sleep through all of it make no event. */
SEC("iter.s/task") int on_begin(struct bpf_iter__task *context) {
	struct task_struct *task = context->task;
	if (!task)
		return 0;
	u32 pid = task->tgid, tid = task->pid;
	struct target *t = map_lookup(&targets, &pid);
	if (!t || !t->scheduling || map_lookup(&threads, &tid) || !is_off(task))
		return 0;
	struct wait w = {};
	w.event = (struct event){KIND_WAIT, pid, tid, own_tid(task, t->level), 0, 0, 1};
	w.out = boottime_ns();
	w.state = task->__state;
	w.syscall = -1;
	struct pt_regs r;
	if (read_kernel(&r, sizeof r, user_registers(task)))
		return 0;
	w.syscall = (s32)r.orig_ax;
	w.argument0 = r.di;
	w.argument1 = r.si;
	struct event e = w.event;
	e.time = w.out;
	w.key = send_once(ROOM_BEGIN, t, &e, &r, task);
	struct stack *s = room_for(ROOM_BEGIN);
	if (!s)
		return 0;
	struct thread *new = (struct thread *)s->memory;
	__builtin_memset(new, 0, sizeof *new);
	new->wait = w;
	new->switches = switches_of(task);
	new->off = 1;
	map_update(&threads, &tid, new, BPF_NOEXIST);
	return 0;
}

/* on_wall_tick samples the threads that do not run; on_wall_clock samples those that do. */
SEC("iter.s/task") int on_wall_tick(struct bpf_iter__task *context) {
	struct task_struct *task = context->task;
	if (!task)
		return 0;
	u32 pid = task->tgid, tid = task->pid;
	struct target *t = map_lookup(&targets, &pid);
	if (!t || !is_off(task))
		return 0;
	struct sleep now = {task->start_boottime, switches_of(task), {{KIND_ASLEEP, pid, tid, 0, boottime_ns(), 0, 0}, 0}};
	struct wall *w = &now.wall;
	if (w->event.time < t->wall_from || w->event.time >= t->wall_until)
		return 0;
	w->event.own_tid = own_tid(task, t->level);
	struct sleep *known = map_lookup(&sleeps, &tid);
	if (known && known->born == now.born && known->switches == now.switches) {
		w->key = known->wall.key; /* it has not run since */
	} else {
		struct pt_regs r;
		if (read_kernel(&r, sizeof r, user_registers(task)))
			return 0;
		w->key = send_once(ROOM_TASKS, t, &w->event, &r, task);
		if (w->key)
			map_update(&sleeps, &tid, &now, 0);
	}
	if (ring_output(&events, w, sizeof *w, BPF_RB_NO_WAKEUP))
		LOSE(pid, samples);
	return 0;
}

char licence[] SEC("license") = "Dual MIT/GPL"; /* reading the kernel's memory needs a licence compatible with the GPL */
