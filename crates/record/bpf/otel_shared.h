/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Layouts that otel.bpf.c and the Rust side share. `runtimes/otel/layout.rs` repeats them.
 *
 * All times are CLOCK_MONOTONIC ns. `pid` and `tid` are as seen in tally's pid namespace, `tgid` is the initial one's.
 */
#ifndef TALLY_OTEL_SHARED_H
#define TALLY_OTEL_SHARED_H

#define OTEL_CHANGE 1 /* a look found another context than the look before */
#define OTEL_ASK 2    /* a process that is not known runs */

#define OTEL_ATTRIBUTES 640 /* bytes of attributes that are kept; a record should have no more in all */

/* Where a process keeps its threads' contexts. Value of `otel_processes`, by tgid. */
struct otel_process {
	unsigned long long mm; /* the address space described */
	long long offset; /* of the variable from the thread pointer; with `module` from the module's block */
	unsigned int module; /* its number among those with thread-local variables; 0 = none is needed */
	unsigned int step; /* bytes of an entry of the table of modules: glibc 16, musl 8 */
};

/* A record of the ring. 80 bytes, then the attributes. */
struct otel_record {
	unsigned int kind; /* OTEL_* */
	unsigned int attribute_bytes; /* those that follow */
	unsigned long long time_ns; /* the look that found it */
	unsigned long long before_ns; /* the thread's look before; 0 = there was none */
	unsigned long long mm; /* OTEL_ASK */
	unsigned int pid;
	unsigned int tid;
	unsigned int tgid;
	unsigned int has_context;
	unsigned char trace[16];
	unsigned char span[8];
	unsigned long long off_ns; /* that the thread was off the CPU in the context before */
	unsigned char attributes[OTEL_ATTRIBUTES + 8];
};

/* Index of the per-CPU counters. */
#define OTEL_LOST 0       /* changes that the ring had no room for */
#define OTEL_UNREADABLE 1 /* looks at a pointer that leads nowhere */
#define OTEL_INVALID 2    /* looks at a record whose `valid` is neither 0 nor 1 */
#define OTEL_CUT 3        /* changes with more attributes than are kept */
#define OTEL_COUNTS 4

#endif
