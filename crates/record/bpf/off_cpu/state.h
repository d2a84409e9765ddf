/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* Settings of the program, and the state of a thread and its place. */
#ifndef TALLY_OFF_CPU_STATE_H
#define TALLY_OFF_CPU_STATE_H

/* Set before load. */
const volatile u32 has_prev_state = 1; /* sched_switch's 4th argument: 5.18 */
const volatile u32 has_task_pt_regs = 1; /* 5.15 */
const volatile u32 pid_ns_inum = 0; /* tally's pid namespace; 0 = initial */
const volatile u32 whom = WHOM_PROCESSES; /* a constant: the kernel need not check what is never run */
const volatile u32 self_tgid = 0; /* tally: never recorded */
const volatile u32 regs_bytes = 168; /* of struct pt_regs */
const volatile u32 stacks_later = 0; /* on_switch_later runs, not on_switch */
const volatile u32 few_stacks = 0; /* few beyond those by period: preempted code has no places */

/* Code that few switches run lies outside of that which all run. */
#define SELDOM static __attribute__((noinline))
/*
 * The same, looked at by the verifier on its own: once, and not again for each way that leads to a call. Its arguments are
 * numbers and memory of ours, which may be missing; the kernel's pointers can't be passed (5.12).
 */
#define SELDOM_APART __attribute__((noinline))
#define is_seldom(condition) __builtin_expect(!!(condition), 0)

#define COPY_REFRESH_NS 1000000
#define BPF_F_USER_STACK (1ULL << 8) /* uapi linux/bpf.h */

/* A thread may copy its stack once per this time, and so often at once. */
#define COPY_EVERY_NS 20000
#define COPY_BURST 64
/* Places may get their first sample once per this time, and so many at once. */
#define FIRST_EVERY_NS 4000000
#define FIRST_BURST 2000
/* The same with few_stacks. */
#define FEW_FIRST_EVERY_NS 40000000
#define FEW_FIRST_BURST 64
/* Stacks of a place that come before those by period, each after about twice as many waits: is it one stack? */
#define EARLY_SAMPLES 6
#define PAGE_BYTES 4096
#define COPY_STEPS 7

/* What every switch reads and writes comes first, on as few cache lines as it fits. */
struct thread_state {
	u64 since_ns; /* when the present state began; 0 = not yet seen */
	u64 wake_ns; /* first wake-up since switch-out; 0 = none */
	u64 early_wake_ns; /* a wake-up that overtook the switch-out */
	u32 kind;
	u32 flags;
	u32 other_tid;
	u32 other_tgid;
	u32 pending; /* PENDING_*: of the sample in the slot */
	u32 cpu; /* it ran on last, + 1; 0 = not known */
	u32 weighed; /* wait_weight_ns holds for this wait */
	u16 done; /* totals were handed out */
	u8 has_place; /* sites[0] is the place of the wait at hand */
	u8 life;
	u64 wait_weight_ns; /* decided at wake-up */
	u64 runtime_ns; /* the scheduler's own counts at the last switch-out: of time on a CPU, */
	u64 run_delay_ns; /* and of time spent waiting for one */
	u64 last_wait_ns;
	u64 switches;
	u64 start_ns;
	u64 total[KIND_COUNT];
	u32 longest_us[2];
	u32 queue[QUEUE_WORDS];
	struct site_sums sites[2]; /* the last places it waited at, and was preempted at */
	/* What few switches touch. */
	u64 carry[KIND_COUNT];
	u64 migrations;
	u64 minor_before; /* faults when its clock began */
	u64 major_before;
	u64 copy_ns;
	u64 copy_paid_ns; /* copies are paid for up to here */
	u64 copy_print;
	u64 stack_end; /* first address found unreadable above the stack */
	u32 tid;
	u32 tgid;
	u32 slot; /* index + 1; 0 = none yet */
	u32 copy_bytes;
	u32 preemptions;
	u32 draw; /* of the next sample of waits without a place: see threshold_of */
	u32 leaving; /* counted in COUNT_LEAVING */
	u32 handed_out; /* at the recording's end: totals went out, or are about to */
	char other_comm[COMM_BYTES]; /* of who runs instead: of a preempted thread only */
	char argument[ARGUMENT_BYTES]; /* see end_record */
};

/* A slot's sample waits for the return to user mode, or is at it. */
#define PENDING_NONE 0
#define PENDING_WAITS 1
#define PENDING_GOES 2

/* How to read user memory. */
#define READ_NOW 0 /* of the current task, pages at hand only */
#define READ_OF_TASK 1 /* of any task, may sleep */
#define READ_OWN 2 /* of the current task, may sleep */

/* The part of a print that is the thread's life. */
#define LIFE_MASK 0xff

#define LARGEST_KERNEL_STACK 65536

/* Where a thread is in its user code. */
struct place {
	u64 ip;
	u64 sp;
	u64 print; /* see place_of */
	u64 code_print; /* the same of pc and sp alone */
	u64 arg;
	u32 syscall; /* + 1; 0 = none */
};

#endif
