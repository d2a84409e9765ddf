/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * The one source of every layout that syscalls.bpf.c and the Rust side share.
 * `syscalls/layout.rs` repeats it; its test reads this file and fails when a
 * constant or a size differs.
 *
 * Times are CLOCK_MONOTONIC ns, ids those of tally's own pid namespace.
 */
#ifndef TALLY_SYSCALLS_SHARED_H
#define TALLY_SYSCALLS_SHARED_H

/* call_record.kind */
#define REC_CALL 1 /* a system call has returned, or never will (REC_OPEN) */
#define REC_NEW 2  /* a thread is followed from here on; args[0]: its global id; data: its name */
#define REC_FORK 3 /* a process was made; args[0]: the child's global id */
#define REC_EXEC 4 /* a process runs another program; data: thread's name, file, arguments */
#define REC_EXIT 5 /* a thread has ended */

/* call_record.flags */
#define REC_OPEN 1   /* the call had not returned when its thread ended */
#define REC_COMPAT 2 /* by the 32-bit entry: number and arguments are those of that ABI */
#define REC_BEFORE 4 /* the call began before its thread was followed */

/* One record of the ring. Ends after `nargs` arguments, or if there is data after the data. */
#define CALL_ARGS 6
#define CALL_COPIES 3
#define COPY_BYTES 512
#define DATA_BYTES 1536
struct call_record {
	unsigned long long start_ns; /* 0: not seen */
	unsigned long long end_ns;
	long long ret;
	unsigned int tid;
	unsigned int tgid;
	unsigned short nr;
	unsigned char kind;
	unsigned char nargs;
	unsigned short flags;
	unsigned short lens[CALL_COPIES]; /* bytes of each copy, or COPY_* */
	unsigned int spare;
	unsigned long long args[CALL_ARGS];
	unsigned char data[DATA_BYTES];
};

/* No bytes: the memory could not be read; the call failed, and nothing was written there. */
#define COPY_FAULT 0xffff
#define COPY_NONE 0xfffe

/* copy.how */
#define HOW_NONE 0
#define HOW_STRING 1   /* up to its 0, which is not copied */
#define HOW_FIXED 2    /* `most` bytes */
#define HOW_ARG 3      /* as many units as the argument `len` */
#define HOW_RET 4      /* as many units as the call returned */
#define HOW_POINTED 5  /* as many bytes as the u32 that the argument `len` points to */
#define HOW_ONLY_OK 16 /* only if the call did not fail */

/* What to read of the caller's memory. */
struct call_copy {
	unsigned char arg;
	unsigned char how;
	unsigned char len;
	unsigned char unit;
	unsigned short most; /* bytes, up to COPY_BYTES */
};

/* call_spec.flags */
#define SPEC_WANTED 1     /* to be shown */
#define SPEC_TRACKED 2    /* needed to know files, whoever is shown */
#define SPEC_NO_RETURN 4  /* handed out at its entry */
#define SPEC_EXEC 8       /* runs another program */
#define SPEC_FORK 16      /* returns in the child too */

/* Of one system call. */
struct call_spec {
	unsigned char flags;
	unsigned char nargs;
	struct call_copy copies[CALL_COPIES];
};

/* Numbers of system calls that have a spec; the last is that of all others. */
#define SPECS 512

/* What user space sets. */
struct call_control {
	unsigned long long ns_dev; /* device and inode of tally's pid namespace */
	unsigned long long ns_ino;
	unsigned long long min_ns; /* shorter calls are not handed out */
	unsigned int self_tgid;
	unsigned int all;          /* not 0: every process, not only targets */
	unsigned int sums;         /* not 0: only sums */
	unsigned int on;           /* not 0: targets are known */
};

/* Value of a target. */
#define TARGET_NOW 1
#define TARGET_AT_EXEC 2
/* In the key of a target: it is a thread, not a process. */
#define TARGET_THREAD (1ULL << 32)

/* Sums of one system call of one thread. */
struct sum_key {
	unsigned int tid;
	unsigned int nr; /* with SUM_COMPAT */
};
#define SUM_COMPAT 0x10000
struct call_sum {
	unsigned long long count;  /* calls that returned */
	unsigned long long errors;
	unsigned long long total_ns;
	unsigned long long min_ns;
	unsigned long long max_ns;
	unsigned int tgid;
	unsigned int spare;
};

/* Index of the per-CPU counters. */
#define COUNT_LOST 0    /* records that found the ring full */
#define COUNT_NO_SUM 1  /* calls that found no room for their sum */
#define COUNT_NO_ROOM 2 /* calls of threads that could not be followed */
#define COUNT_SLOTS 4

#endif
