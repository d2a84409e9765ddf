/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* Open calls of a thread: its frames, and the stacks they are on. */
#ifndef TALLY_CALLS_STATE_H
#define TALLY_CALLS_STATE_H

struct request { unsigned int __data_len; } CORE;

struct bpf_pidns_info { u32 pid; u32 tgid; };

static u64 (*bpf_get_current_pid_tgid)(void) = (void *)14;
static u64 (*bpf_get_attach_cookie)(void *ctx) = (void *)174;
static long (*bpf_get_ns_current_pid_tgid)(u64 dev, u64 ino, struct bpf_pidns_info *info, u32 size) = (void *)120;

/*
 * The kernel's bpf_session_is_return (6.13). No helper but a kernel function:
 * the loader turns this number into a call of it where the kernel has it.
 */
#define KFUNC_IS_RETURN 0x7a12
static u64 (*bpf_session_is_return)(void *ctx) = (void *)KFUNC_IS_RETURN;

/* Numbers of frames are plus 1; 0 = none. */
struct frame {
	u64 sp;
	u64 start_ns;
	u64 inner_ns;
	u32 function;
	u16 around; /* on the same stack; of a free one, the next free one */
	u16 inner;  /* MODE_SLOW: the one that it called */
	u8 inside;  /* the same function is open around it */
	u8 jumps;   /* COOKIE_TAIL */
	u8 rules;   /* COOKIE_RULES: they are to be taken back */
	u8 state;   /* FRAME_* */
	u32 pad;
};

#define FRAME_USED 1
#define FRAME_WRITTEN 2 /* by the filters */
#define FRAME_LEADS 4   /* to a function of COOKIE_CALLER */
#define FRAME_KEPT 8    /* MODE_TOTALS: it called one that took min_ns */

/* A stack that the thread is, or was, on: its own, a signal's, a coroutine's. */
struct stack {
	u64 root;          /* place of its outermost call */
	u64 from_start_ns; /* the call that was open when it was begun: its start */
	u16 from;          /* ... and its frame */
	u16 top;           /* innermost frame; 0: nothing is open there */
	u16 first;         /* outermost frame */
	u16 shown;         /* MODE_SLOW: innermost frame whose entry was handed out; SHOWN_PAGED */
	u16 depth;         /* frames in the table */
	u16 paged;         /* pages of the frames around those */
	u16 leading;       /* of those pages, so many are of calls of FRAME_LEADS */
	u16 pad;
};

/* All on the stack's pages, and none in the table. */
#define SHOWN_PAGED 0xffff

/* Functions of the same low bits of their number, open in this thread: 0 is known without looking. */
#define KINDS 256

struct thread_calls {
	struct call_event last; /* to skip doubles */
	u32 written;    /* open frames that count */
	u16 free, used; /* frames once used, from the first on */
	u16 only, muted;
	u8 begun, stopped;
	u8 current, stacks_used, next_dropped;
	u8 has_paged; /* or had */
	u8 pad[6];
	struct stack stacks[STACKS];
	u16 open[KINDS];
	struct frame frames[FRAMES];
};

#endif
