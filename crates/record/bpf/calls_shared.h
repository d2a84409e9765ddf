/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * The one source of every layout that calls.bpf.c and the Rust side share.
 * `calls/layout.rs` repeats it; its test reads this file and fails when a
 * constant or a size differs.
 *
 * Times are CLOCK_MONOTONIC ns, ids those of tally's own pid namespace.
 */
#ifndef TALLY_CALLS_SHARED_H
#define TALLY_CALLS_SHARED_H

/* What control.mode asks for. */
#define MODE_EVENTS 0 /* every entry and exit, to be matched by the reader */
#define MODE_SLOW 1   /* entries and exits of calls of at least min_ns */
#define MODE_TOTALS 2 /* only sums by function */

/* call_event.kind */
#define CALL_ENTER 1
#define CALL_EXIT 2     /* by returning */
#define CALL_UNWOUND 3  /* MODE_SLOW: left by longjmp or an exception */
#define CALL_FORK 4     /* function: the child's process id */
#define CALL_EXEC 5
#define CALL_SYSTEM 6   /* entry of a system call; function: its number */
#define CALL_SYSTEM_END 7
#define CALL_FAULT 8    /* a page fault at address sp */
#define CALL_OFF 9      /* off the CPU for sp ns, up to now */
#define CALL_BLOCK 10   /* a block request was issued; function: its bytes */
#define CALL_KERNEL 11  /* entry of a kernel function; function: its number */
#define CALL_KERNEL_END 12
#define CALL_OPEN 13 /* within the kernel: open when its thread ended */

/* One record of the ring. */
struct call_event {
	unsigned long long time_ns;
	unsigned long long sp; /* address of the return address */
	unsigned int tid; /* GOROUTINE and bits of its address */
	unsigned int tgid;
	unsigned int function;
	unsigned int kind; /* CALL_* | (generation << 1 | COOKIE_LOOPS | COOKIE_MAYBE) << 7 */
};

#define GOROUTINE 0x80000000
/* Places on a goroutine's stack are told as if that ended here: wherever it is moved to, they stay the same. */
#define GOROUTINE_STACK 0x400000000000

/* An attach cookie: function << COOKIE_SHIFT | condition << 8 | COOKIE_* | generation << 1 */
#define COOKIE_SHIFT 16
#define COOKIE_TAIL 1 /* may end by a jump that is not probed */
#define COOKIE_LOOPS 4 /* jumps back to its probed first instruction */
#define COOKIE_MAYBE 8 /* a jump that leaves only if the stack pointer is as at entry */
#define COOKIE_CONDITION 16 /* a jump that leaves only if x86's condition of the four bits at 8 holds */
#define COOKIE_CONDITION_SHIFT 8
#define COOKIE_GOROUTINE 64 /* Go's: called by a goroutine, not by a thread */
/* MODE_TOTALS: what the filters do at the function. */
#define COOKIE_CALLER 32  /* only calls that lead to it count */
#define COOKIE_NOT 4096   /* calls in it do not count */
#define COOKIE_ONLY 8192  /* only calls in it count */
#define COOKIE_START 16384 /* from its call on, the thread's calls count */
#define COOKIE_STOP 32768 /* ... do not */
#define COOKIE_RULES(cookie) ((cookie) >> 12 & 3) /* of those, NOT and ONLY */

/* Buckets of durations: 16 to each power of two, as profile's histogram. */
#define BUCKETS 704

/* Sums of one function. */
struct call_totals {
	unsigned long long count;    /* finished calls */
	unsigned long long finished_ns; /* of all finished calls */
	unsigned long long total_ns; /* recursion counted once */
	unsigned long long self_ns;
	unsigned long long min_ns;   /* plus 1; 0 = none yet */
	unsigned long long max_ns;
	unsigned long long unwound;  /* of the finished, left without returning */
	unsigned long long entered;  /* calls begun that count; 0 where that is known at their end only */
	unsigned long long open;     /* calls open when their thread ended; their time is in total_ns and self_ns */
	unsigned long long buckets[BUCKETS];
};

/* What user space sets, while running. */
struct call_control {
	unsigned long long min_ns;
	unsigned long long ns_dev; /* device and inode of tally's pid namespace */
	unsigned long long ns_ino;
	unsigned long long mode; /* MODE_* */
	unsigned long long any;  /* not 0: every process, not only `targets` */
	unsigned long long any_only;   /* MODE_TOTALS: some function has COOKIE_ONLY */
	unsigned long long starts_off; /* nothing counts before a function of COOKIE_START */
	unsigned long long depth;      /* calls nested deeper do not count; 0: all do */
	unsigned long long callers;    /* some function has COOKIE_CALLER */
	unsigned long long generation; /* entries alone are counted by links of this one */
	unsigned long long ready; /* 0 while probes are put in place, or taken away: then ends of calls are seen without their entries */
};

/* Index of the per-CPU counters. */
#define COUNT_LOST 0      /* ring full: an entry or exit not handed out */
#define COUNT_TOO_DEEP 1  /* calls for which there was no room: not timed */
#define COUNT_NO_STORAGE 2 /* events of threads that could not be followed */
#define COUNT_STRAY 3     /* exits of calls whose entry was not seen */
#define COUNT_STACKS 4    /* stacks whose open calls were forgotten: more than STACKS */
#define COUNT_SLOTS 8

/* Open calls kept in a thread's table in the kernel; those around them are on pages. */
#define FRAMES 512
/* Of all, on so many stacks. */
#define STACKS 64
/* Open calls on a page, and pages of all threads. */
#define PAGE_FRAMES 64
#define PAGES 16384
/* A call further away on the stack than this is on another stack. */
#define STACK_STEP 16384

#endif
