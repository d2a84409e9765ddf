/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * The one source of every layout that off_cpu.bpf.c and the Rust side share.
 * `off_cpu/layout.rs` repeats it field by field; its test reads this file and
 * fails when a constant or a size differs.
 *
 * All times are CLOCK_MONOTONIC ns. All ids are as seen in tally's own pid
 * namespace; 0 = not visible there (or none).
 */
#ifndef TALLY_SHARED_H
#define TALLY_SHARED_H

/* Where a thread's wall clock goes. Index of totals and carries. */
#define KIND_ON 0        /* running */
#define KIND_RUNNABLE 1  /* woken, waiting for a CPU */
#define KIND_PREEMPTED 2 /* still runnable, another thread runs instead */
#define KIND_SLEEP 3     /* interruptible wait (S) */
#define KIND_DISK 4      /* uninterruptible wait (D) */
#define KIND_STOPPED 5   /* stopped, traced, parked or frozen */
#define KIND_IDLE 6      /* TASK_IDLE kernel thread (D|NOLOAD): nothing to do */
#define KIND_COUNT 8     /* slots; a power of two for the verifier */

/* Types of ring buffer records. */
#define REC_SAMPLE 1 /* the end of an interval off the CPU; struct off_record */
#define REC_WAKER 2  /* who ended it, just before; struct off_record */
#define REC_END 3    /* a thread's exact totals; struct end_record */
#define REC_EXEC 4   /* a thread's waits before its exec are complete; struct exec_record */
#define REC_SITE 5   /* sums of one more place of a thread are in the map; struct site_record */

/* off_record.flags and thread flags. */
#define FLAG_OPEN_LEFT 1  /* the interval began before tally attached */
#define FLAG_OPEN_RIGHT 2 /* the interval was still open when tally left */
#define FLAG_KTHREAD 4    /* a kernel thread: no user registers or stack */
#define FLAG_WOKEN 8      /* the time of the wake-up is known */
#define FLAG_NO_SLOT 16   /* no room to keep this thread's user stack */
#define FLAG_STALE 32     /* the kept user stack was another wait's: left out */
#define FLAG_EXITED 64    /* end_record: the thread ended itself */
#define FLAG_NEW 128      /* first run of a thread born under tally's eyes */

#define KSTACK_FRAMES 64
#define USER_FRAMES 32 /* by frame pointers */
#define REGS_BYTES 272          /* the larger pt_regs prefix (aarch64) */
#define STACK_MAX_BYTES 24576   /* most user stack kept per thread */
#define WAKER_STACK_BYTES 8192  /* most user stack copied of a waker */
#define COMM_BYTES 16
#define ARGUMENT_BYTES 64

/*
 * Waits for a CPU by length: bucket i counts those of 2^(10+i) up to 2^(11+i)
 * ns, the first all shorter ones too, the last all longer ones.
 */
#define QUEUE_BUCKETS 20
#define QUEUE_FIRST_LOG2 10
#define QUEUE_WORDS 40 /* QUEUE_BUCKETS once woken, then QUEUE_BUCKETS preempted */

/*
 * Waits of one thread at one place, since the last sample of them. Place: the user's instruction and stack pointer, the
 * system call and its first argument (futex, descriptor). It nearly always stands for one call path, and costs nothing.
 * If it has several, user space names up to SITE_SLOTS words of the stack in which these differ, return addresses. Each
 * value of these is a place of its own.
 */
#define SITE_SLOTS 2
struct site_sums {
	unsigned long long print; /* of kind and place; the lowest byte is the thread's life; 0 = none */
	unsigned long long since_ns; /* the first of these waits began */
	unsigned long long wait_ns; /* blocked (or preempted), exact */
	unsigned long long runnable_ns; /* waiting for a CPU afterwards, exact */
	unsigned long long longest_ns; /* of the waits */
	unsigned long long entry; /* `base` ^ `splits` if it is all there is to the place; else 0 */
	unsigned int count; /* waits */
	unsigned int unsampled; /* the next wait above this many makes a sample, however short */
	unsigned int ahead; /* 256ths of half a period that the next sample comes earlier: not at each n-th wait */
	unsigned int kind; /* KIND_* */
	unsigned int lengths[QUEUE_BUCKETS]; /* waits by length, as in end_record.queue */
	unsigned long long arg; /* the first argument of the system call */
	unsigned long long stack_print; /* of kind and place without `arg`: the same stack nearly always; 0 = none */
	unsigned long long base; /* `print` without words of the stack */
	unsigned long long words; /* fingerprint of the words of the stack; 0 = none */
	unsigned long long splits; /* control.splits when it was looked up */
	unsigned int syscall; /* + 1; 0 = none */
	unsigned int tgid;
	unsigned short slots[SITE_SLOTS]; /* which words: their index from the stack pointer, + 1; 0 = none */
	unsigned int samples; /* made of this place */
};

/* Key of a thread's sums of a place while it is at another. */
struct site_key {
	unsigned long long print;
	unsigned int tid;
	unsigned int spare;
};

/* A sleeper or a waker: header, kernel stack, registers, then stack bytes. */
struct off_record {
	unsigned int type;
	unsigned int size; /* of this record, user stack included */
	unsigned long long time_ns; /* sample: switch-in; waker: the wake-up */
	unsigned long long since_ns; /* sleeper's switch-out: joins waker to sample */
	unsigned long long wait_ns; /* length of the wait (blocked or preempted) */
	unsigned long long wait_weight_ns; /* what this sample stands for (site.wait_ns); 0 = none */
	unsigned long long runnable_ns; /* wake-up to switch-in */
	unsigned long long runnable_weight_ns;
	unsigned int tid; /* of the sleeper, also in REC_WAKER */
	unsigned int tgid;
	unsigned int other_tid; /* waker; for KIND_PREEMPTED who ran instead */
	unsigned int other_tgid;
	unsigned int kind; /* KIND_* of the wait */
	unsigned int flags;
	unsigned int cpu;
	unsigned int kstack_bytes;
	unsigned int regs_bytes; /* 0 = no user registers */
	unsigned int stack_bytes; /* user stack from the stack pointer upwards */
	char other_comm[COMM_BYTES]; /* REC_WAKER: of the waker; sample: of who ran instead */
	unsigned int ran_tid; /* with runnable_weight_ns, or preempted: who had the CPU until now */
	unsigned int ran_tgid;
	char ran_comm[COMM_BYTES]; /* empty = not known */
	struct site_sums site; /* sample: this wait and those since the last sample of its place */
	unsigned long long kstack[KSTACK_FRAMES]; /* leaf first */
	unsigned long long user_chain[USER_FRAMES]; /* of a waker, by frame pointers: leaf first, 0 after the last */
	unsigned char regs[REGS_BYTES]; /* struct pt_regs as the kernel has it */
	unsigned char stack[STACK_MAX_BYTES];
};

/* A thread's sums from start_ns to end_ns; total[] adds up to the difference. */
struct end_record {
	unsigned int type;
	unsigned int size;
	unsigned long long start_ns;
	unsigned long long end_ns;
	unsigned long long total[KIND_COUNT];
	unsigned long long carry[KIND_COUNT]; /* part of total in no sample */
	unsigned long long switches;
	unsigned int tid;
	unsigned int tgid;
	unsigned int flags;
	unsigned int preemptions; /* of `switches`, those it did not ask for */
	unsigned long long migrations; /* times it got another CPU than it had */
	unsigned long long minor_faults;
	unsigned long long major_faults;
	char comm[COMM_BYTES];
	unsigned int longest_us[2]; /* wait for a CPU: once woken, preempted */
	unsigned int queue[QUEUE_WORDS];
	unsigned int life; /* as in the lowest byte of site_sums.print */
	unsigned int spare;
	char argument[ARGUMENT_BYTES]; /* the first of its program, if that began while recording; empty = not known */
};

struct exec_record {
	unsigned int type;
	unsigned int size;
	unsigned long long time_ns;
	unsigned int tid;
	unsigned int tgid;
	unsigned int life; /* the one that has ended */
	unsigned int spare;
};

struct site_record {
	unsigned int type;
	unsigned int size;
	unsigned long long print;
	unsigned int tid;
	unsigned int spare;
};

/* Whom `whom` follows. */
#define WHOM_PROCESSES 0 /* those in `targets`, and what they fork */
#define WHOM_THREADS 1   /* those in `targets` */
#define WHOM_ALL 2
#define WHOM_CGROUP 3    /* tasks of the cgroups in `targets` (their kernfs ids), and of those below */

/* control.end_ns: targets are followed already, but no clock runs. */
#define NOT_BEGUN 1

/* What user space sets, while running. */
struct control {
	unsigned long long period_ns; /* off-CPU ns per sample of a thread */
	unsigned long long end_ns; /* not 0: nothing counts after this moment, or NOT_BEGUN */
	unsigned int start_at_exec; /* this tgid becomes a target with its exec */
	unsigned int stack_bytes; /* user stack to copy unless `stack_want` says */
	unsigned long long unwoken_period_ns; /* the same as period_ns, for waits whose wake-up no program saw */
	unsigned long long splits; /* another number whenever places were divided by words of their stacks */
};

/* Index of the per-CPU counters. */
#define COUNT_UNSEEN 0  /* switch-ins the kernel did not show, counted all the same */
#define COUNT_SAMPLES 1
#define COUNT_WAKERS 2
#define COUNT_COPIES 3        /* user stacks copied at switch-out */
#define COUNT_LOST_SAMPLES 4  /* ring full: the weight went back to carry */
#define COUNT_LOST_ENDS 5     /* ring full: a thread's totals lost */
#define COUNT_LOST_WAKERS 6
#define COUNT_NO_SLOT 7
#define COUNT_NO_STORAGE 8    /* a thread that could not be followed */
#define COUNT_LEFT_OUT 9      /* ring full: the record went without its user stack */
#define COUNT_FIRSTS 10       /* samples taken for a place not sampled before */
#define COUNT_NO_SITE 11      /* no room for a place's sums: kept by thread and kind, without stack */
#define COUNT_OWN_NS 12       /* ns that these programs ran */
#define COUNT_LEAVING 13      /* threads on their way to their last switch: less than 0 on some CPUs, right as a sum */
#define COUNT_MAX 16

#endif
