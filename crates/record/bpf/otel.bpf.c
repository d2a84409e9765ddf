/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * OpenTelemetry's thread context: which request a thread works on, looked at by a timer and where the thread leaves
 * its CPU.
 *
 * A program that publishes its context has a thread-local pointer to a record (OTEP 4947). At both moments the thread
 * stands still, as the standard demands. While a thread is off the CPU its context can't change: the end of its wait
 * counts as a look, too. Only changes go to user space.
 *
 * Neither program runs from an NMI: the timer's event is a clock of software, and switches run with interrupts off. So
 * one never interrupts the other on a CPU.
 */
#include "kernel.h"
#include "otel_shared.h"

const volatile u32 pid_ns_inum = 0; /* tally's pid namespace; 0 = initial */

#include "visible_ids.h"

#define ASK_FIRST_NS 10000000ULL
#define ASK_LAST_NS 5000000000ULL

struct mm_struct;
struct thread_struct { unsigned long fsbase; } CORE;
struct task_struct___otel { struct mm_struct *mm; int pid; int tgid; struct thread_struct thread; } CORE;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, struct otel_process);
} otel_processes SEC(".maps");

/* The last look at a thread. */
struct otel_thread {
	u64 mm;
	u64 time_ns;
	u64 print; /* of the context; 0 = none */
	u64 out_ns; /* when it left its CPU; 0 = it is on one */
	u64 off_ns; /* off the CPU in this context */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, u32);
	__type(value, struct otel_thread);
} otel_threads SEC(".maps");

/* When an unknown process was asked about. */
struct otel_asked {
	u64 mm;
	u64 next_ns;
	u64 step_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct otel_asked);
} otel_askers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} otel_ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct otel_record);
} otel_scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, OTEL_COUNTS);
	__type(key, u32);
	__type(value, u64);
} otel_counts SEC(".maps");

INLINE void count(u32 which)
{
	u64 *counter = bpf_map_lookup_elem(&otel_counts, &which);

	if (counter)
		*counter += 1;
}

INLINE u64 read_word(u64 address)
{
	u64 word = 0;

	bpf_probe_read_user(&word, 8, (void *)address);
	return word;
}

INLINE void send(struct otel_record *r, u64 attribute_bytes)
{
	u64 size = sizeof(*r) - sizeof(r->attributes) + attribute_bytes;

	barrier_var(size);
	if (size > sizeof(*r))
		return;
	if (bpf_ringbuf_output(&otel_ring, r, size, BPF_RB_NO_WAKEUP))
		count(OTEL_LOST);
}

INLINE void fill_ids(struct otel_record *r, struct task_struct *task)
{
	r->pid = visible_process(task);
	r->tid = visible_id(task);
	r->tgid = task->tgid;
}

/* Asks user space where this process has its contexts: less and less often. */
INLINE void ask(struct otel_record *r, struct task_struct *task, u64 mm, u64 now)
{
	u32 tgid = task->tgid;
	struct otel_asked *asked = bpf_map_lookup_elem(&otel_askers, &tgid);
	struct otel_asked first = { .mm = mm, .next_ns = now + ASK_FIRST_NS, .step_ns = ASK_FIRST_NS };

	if (asked && asked->mm == mm) {
		if (now < asked->next_ns)
			return;
		if (asked->step_ns < ASK_LAST_NS)
			asked->step_ns *= 2;
		asked->next_ns = now + asked->step_ns;
	} else {
		bpf_map_update_elem(&otel_askers, &tgid, &first, BPF_ANY);
	}
	r->kind = OTEL_ASK;
	r->attribute_bytes = 0;
	r->time_ns = now;
	r->mm = mm;
	fill_ids(r, task);
	send(r, 0);
}

/* Address of the thread's record; 0 = it has none. */
INLINE u64 record_of(struct otel_process *of, u64 thread_pointer)
{
	u64 block = thread_pointer;

	if (of->module) {
		/* Source: glibc sysdeps/x86_64/nptl/tls.h, tcbhead_t; musl src/internal/pthread_impl.h: dtv is the second word. */
		block = read_word(read_word(thread_pointer + 8) + (u64)of->module * of->step);
		if (!block || block == ~0ULL)
			return 0;
	}
	return read_word(block + of->offset);
}

/* The fixed part of a record. Source: OTEP 4947, "Thread-Local Context Record" */
struct fixed_part {
	u64 trace[2];
	u64 span;
	unsigned char valid;
	unsigned char flags;
	unsigned short attribute_bytes;
	u32 spare;
};

/* Reads the context into `r`: its print, 0 = there is none. `cut` is set where there are more attributes than kept. */
INLINE u64 read_context(struct otel_record *r, u64 address, u64 *attribute_bytes, u32 *cut)
{
	struct fixed_part fixed = {};
	u64 bytes, print;

	*attribute_bytes = 0;
	if (!address)
		return 0;
	if (bpf_probe_read_user(&fixed, 28, (void *)address)) {
		count(OTEL_UNREADABLE);
		return 0;
	}
	if (fixed.valid != 1) {
		if (fixed.valid)
			count(OTEL_INVALID);
		return 0;
	}
	__builtin_memcpy(r->trace, fixed.trace, 16);
	__builtin_memcpy(r->span, &fixed.span, 8);
	bytes = fixed.attribute_bytes;
	if (bytes > OTEL_ATTRIBUTES) {
		bytes = OTEL_ATTRIBUTES;
		*cut = 1;
	}
	barrier_var(bytes);
	if (bytes > OTEL_ATTRIBUTES)
		return 0;
	if (bytes && bpf_probe_read_user(r->attributes, bytes, (void *)(address + 28))) {
		count(OTEL_UNREADABLE);
		bytes = 0;
	}
	/* The rest of a longer one is no part of the print. */
	*(u64 *)(r->attributes + bytes) = 0;
	print = (fixed.trace[0] ^ fixed.span) * 0x9e3779b97f4a7c15ULL + fixed.trace[1] + bytes;
	for (u32 at = 0; at < OTEL_ATTRIBUTES / 8; at++) {
		if (at * 8 >= bytes)
			break;
		print = (print ^ ((u64 *)r->attributes)[at]) * 0x9e3779b97f4a7c15ULL;
		print ^= print >> 29;
	}
	*attribute_bytes = bytes;
	return print | 1;
}

INLINE void look(void)
{
	struct task_struct *me = bpf_get_current_task_btf();
	struct task_struct___otel *task = (void *)me;
	u64 mm = (u64)task->mm, now, print, bytes;
	struct otel_thread found = {}, *before;
	struct otel_process *of;
	struct otel_record *r;
	u32 zero = 0, tgid = me->tgid, tid = me->pid, cut = 0;

	if (!mm || me->flags & PF_KTHREAD)
		return;
	r = bpf_map_lookup_elem(&otel_scratch, &zero);
	if (!r)
		return;
	now = bpf_ktime_get_ns();
	of = bpf_map_lookup_elem(&otel_processes, &tgid);
	if (!of || of->mm != mm) {
		ask(r, me, mm, now);
		return;
	}
	print = read_context(r, record_of(of, task->thread.fsbase), &bytes, &cut);
	before = bpf_map_lookup_elem(&otel_threads, &tid);
	if (before && before->mm == mm) {
		u64 before_ns = before->time_ns;

		before->time_ns = now;
		if (before->print == print)
			return;
		before->print = print;
		r->before_ns = before_ns;
		r->off_ns = before->off_ns;
		before->off_ns = 0;
	} else {
		found.mm = mm;
		found.time_ns = now;
		found.print = print;
		bpf_map_update_elem(&otel_threads, &tid, &found, BPF_ANY);
		r->before_ns = 0;
		r->off_ns = 0;
	}
	if (cut)
		count(OTEL_CUT);
	r->kind = OTEL_CHANGE;
	r->attribute_bytes = bytes;
	r->time_ns = now;
	r->has_context = print != 0;
	fill_ids(r, me);
	send(r, bytes);
}

SEC("perf_event")
int otel_sample(void *ctx)
{
	look();
	return 0;
}

SEC("tp_btf/sched_switch")
int otel_switch(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1];
	struct task_struct *next = (void *)ctx[2];
	struct otel_thread *known;
	u32 out = prev->pid, in = next->pid;
	u64 now;

	look();
	now = bpf_ktime_get_ns();
	known = bpf_map_lookup_elem(&otel_threads, &out);
	if (known)
		known->out_ns = now;
	/* Off the CPU it could not change its context. */
	known = bpf_map_lookup_elem(&otel_threads, &in);
	if (known) {
		if (known->out_ns)
			known->off_ns += now - known->out_ns;
		known->out_ns = 0;
		known->time_ns = now;
	}
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
