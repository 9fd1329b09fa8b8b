/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the programs use of the kernel: types (fields are found by the kernel's own BTF when the
 * programs are loaded), helper functions by number (include/uapi/linux/bpf.h), and map declarations. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static __attribute__((always_inline)) inline

#define RELOCATED __attribute__((preserve_access_index))

struct pt_regs {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
struct thread_struct {
	u64 fsbase;
} RELOCATED;
struct upid {
	s32 nr;
} RELOCATED;
struct pid {
	u32 level;
	struct upid numbers[];
} RELOCATED;
struct task_struct {
	u32 __state;
	s32 on_cpu;
	s32 exit_state;
	s32 pid, tgid;
	struct pid *thread_pid;
	u64 nvcsw, nivcsw, start_boottime;
	struct thread_struct thread;
} RELOCATED;
struct bpf_perf_event_data {
	struct pt_regs regs;
	u64 sample_period, addr;
};
struct bpf_iter_meta;
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#define TASK_DEAD 0x80 /* include/linux/sched.h */
#define UPID_BYTES 16  /* of struct upid, with its padding and its namespace */

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*map_delete)(void *map, const void *key) = (void *)3;
static u32 (*this_cpu)(void) = (void *)8;
static u64 (*current_ids)(void) = (void *)14;
static long (*read_user)(void *to, u32 bytes, const void *from) = (void *)112;
static long (*read_kernel)(void *to, u32 bytes, const void *from) = (void *)113;
static u64 (*boottime_ns)(void) = (void *)125;
static long (*ring_output)(void *ring, void *data, u64 bytes, u64 flags) = (void *)130;
static struct task_struct *(*current_task)(void) = (void *)158;
static struct pt_regs *(*user_registers)(struct task_struct *task) = (void *)175;
static long (*read_user_of)(void *to, u32 bytes, const void *from, struct task_struct *task, u64 flags) = (void *)191;

#define BPF_NOEXIST 1
#define BPF_RB_NO_WAKEUP 1 /* the reader looks by itself: a wakeup for each record would preempt the target */

#define FIELD_UINT(name, value) int(*name)[value]
#define FIELD_TYPE(name, value) typeof(value) *name
enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_PERCPU_ARRAY = 6, MAP_LRU_HASH = 9, MAP_RINGBUF = 27 };
#define MAP(map, kind, key_type, value_type, entries) \
	struct { \
		FIELD_UINT(type, kind); \
		FIELD_UINT(max_entries, entries); \
		FIELD_TYPE(key, key_type); \
		FIELD_TYPE(value, value_type); \
	} map SEC(".maps")
