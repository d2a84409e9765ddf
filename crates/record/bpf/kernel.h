/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * The few kernel types and helpers the off-CPU program needs, written by hand:
 * field offsets are relocated at load time (CO-RE), so order and completeness
 * do not matter. `___old` flavours name fields older kernels have instead.
 */
#ifndef TALLY_KERNEL_H
#define TALLY_KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define CORE __attribute__((preserve_access_index))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

struct ns_common { unsigned int inum; } CORE;
struct pid_namespace { struct ns_common ns; } CORE;
struct upid { int nr; struct pid_namespace *ns; } CORE;
struct pid { unsigned int level; struct upid numbers[1]; } CORE;
struct signal_struct { struct { int counter; } live; } CORE;
struct pt_regs___x86 { unsigned long r14, ip, sp, di, orig_ax, flags; } CORE;
struct pt_regs___arm64 { u64 regs[31]; u64 sp; u64 pc; int syscallno; } CORE;

struct kernfs_node { u64 id; } CORE; /* 5.5 */
struct cgroup { struct kernfs_node *kn; } CORE;
struct cgroup_subsys_state { struct cgroup *cgroup; struct cgroup_subsys_state *parent; } CORE;
struct css_set { struct cgroup_subsys_state *subsys[1]; } CORE;
enum cgroup_subsys_id { perf_event_cgrp_id = 7 };

struct rq { u64 clock; } CORE;
struct cfs_rq { struct rq *rq; } CORE; /* only where tasks are scheduled in groups */
/* Fields 5.0; only where the kernel keeps schedstat. */
struct sched_info { u64 run_delay; u64 last_queued; } CORE;
struct sched_entity { u64 sum_exec_runtime; struct cfs_rq *cfs_rq; } CORE;

struct mm_struct { unsigned long arg_start, arg_end; } CORE;

struct task_struct {
	unsigned int flags;
	unsigned int __state;
	void *stack; /* the kernel's */
	unsigned int on_cpu; /* an int before 7.x, then one byte: the loader adapts the width of unsigned ones only */
	struct sched_entity se;
	struct sched_info sched_info;
	int pid;
	int tgid;
	int exit_state;
	unsigned long min_flt;
	unsigned long maj_flt;
	struct pid *thread_pid;
	struct signal_struct *signal;
	struct css_set *cgroups;
	struct mm_struct *mm;
	struct task_struct *group_leader;
	char comm[16];
} CORE;

/* Before 5.14. */
struct task_struct___old { long state; } CORE;

struct bpf_iter_meta { struct seq_file *seq; u64 session_id; u64 seq_num; } CORE;
struct bpf_iter__task { struct bpf_iter_meta *meta; struct task_struct *task; } CORE;

#define PF_KTHREAD 0x00200000

#define TASK_INTERRUPTIBLE 0x1
#define TASK_UNINTERRUPTIBLE 0x2
#define TASK_STOPPED_BITS (0x4 | 0x8 | 0x40 | 0x8000)
#define TASK_DEAD_BITS (0x10 | 0x20 | 0x80)
#define TASK_NOLOAD 0x400
#define TASK_NEW 0x800
#define TASK_RTLOCK_WAIT 0x1000

/* Map types and flags: include/uapi/linux/bpf.h */
#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_PROG_ARRAY 3
#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_MAP_TYPE_LRU_HASH 9
#define BPF_MAP_TYPE_QUEUE 22
#define BPF_MAP_TYPE_RINGBUF 27
#define BPF_MAP_TYPE_TASK_STORAGE 29
#define BPF_F_NO_PREALLOC 1
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1
#define BPF_RB_NO_WAKEUP 1
#define BPF_RB_AVAIL_DATA 0
#define BPF_RB_RING_SIZE 1
#define BPF_ANY 0

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*bpf_get_prandom_u32)(void) = (void *)7;
static u32 (*bpf_get_smp_processor_id)(void) = (void *)8;
static long (*bpf_tail_call)(void *ctx, void *programs, u32 index) = (void *)12;
static long (*bpf_map_push_elem)(void *map, const void *value, u64 flags) = (void *)87;
static long (*bpf_map_pop_elem)(void *map, void *value) = (void *)88;
static long (*bpf_seq_write)(struct seq_file *m, const void *data, u32 len) = (void *)127;
static long (*bpf_probe_read_user)(void *dst, u32 size, const void *from) = (void *)112;
static long (*bpf_probe_read_user_str)(void *dst, u32 size, const void *from) = (void *)114;
static long (*bpf_probe_read_kernel)(void *dst, u32 size, const void *from) = (void *)113;
static void *(*bpf_ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*bpf_ringbuf_submit)(void *data, u64 flags) = (void *)132;
static u64 (*bpf_ringbuf_query)(void *ring, u64 flags) = (void *)134;
static long (*bpf_ringbuf_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;
static long (*bpf_get_task_stack)(struct task_struct *task, void *buf, u32 size, u64 flags) = (void *)141;
static void *(*bpf_task_storage_get)(void *map, struct task_struct *task, void *value, u64 flags) = (void *)156;
static struct task_struct *(*bpf_get_current_task_btf)(void) = (void *)158;
static long (*bpf_copy_from_user)(void *dst, u32 size, const void *from) = (void *)148;
static long (*bpf_task_pt_regs)(struct task_struct *task) = (void *)175;
static long (*bpf_copy_from_user_task)(void *dst, u32 size, const void *from, struct task_struct *task, u64 flags) = (void *)191;

static long (*bpf_loop)(u32 count, void *step, void *context, u64 flags) = (void *)181;

/* Known to the verifier by its name and size. 6.18. */
struct bpf_task_work { u64 opaque; };

/*
 * The kernel's bpf_task_work_schedule_resume_impl (6.18): `at` runs when
 * `task` returns to user mode, and may sleep. No helper but a kernel function:
 * the loader turns this number into a call of it where the kernel has it.
 */
#define KFUNC_AT_USER 0x7a11
static long (*bpf_task_work_at_user)(struct task_struct *task, struct bpf_task_work *work, void *map, void *at,
				     void *none) = (void *)KFUNC_AT_USER;

#define enum_value(type, name) __builtin_preserve_enum_value(*(typeof(enum type) *)name, 1)
#define field_exists(expr) __builtin_preserve_field_info(expr, 2)
#define barrier_var(var) asm volatile("" : "+r"(var))

#endif
