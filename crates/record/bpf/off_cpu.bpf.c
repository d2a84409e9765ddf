/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Where every nanosecond of a thread's wall clock goes, counted in the kernel.
 *
 * Each followed thread owns a clock in its task storage. A switch closes one
 * interval and opens the next; totals are exact, always. So are the sums of
 * the waits at each place (struct site_sums), which the thread keeps for the
 * place it is at, and the map `sites` for the others. Stacks are expensive, so
 * an interval only becomes a sample
 *   - when its place has none yet, as long as there are few such, or
 *   - when the waits at its place since the last sample add up to a period.
 * A sample takes all sums of its place with it. Those that no sample took are
 * read from the map once the thread has ended. Hence: sum of weights + sums in
 * the map + carry (waits without room for a place) = total, by thread and kind.
 *
 * The user stack of a sleeper can only be read while it is current. Kernels
 * since 6.18 run a callback at its return to user mode: there, once a wait has
 * become a sample, the stack is copied, whatever pages it needs. Until then the
 * sample waits in the thread's slot (on_switch_later).
 * Older kernels must copy before one knows how long the wait will be
 * (on_switch). So each thread keeps its last copy in a slot, with a fingerprint
 * of the registers it was taken at; a wait at the same registers reuses the
 * copy, and a sample carries it only if the fingerprint still holds.
 *
 * Programs are tp_btf and iter only: kprobes and fentry can not be loaded
 * everywhere.
 */
#include "kernel.h"
#include "shared.h"

/* Set before load. */
const volatile u32 has_prev_state = 1; /* sched_switch's 4th argument: 5.18 */
const volatile u32 has_task_pt_regs = 1; /* 5.15 */
const volatile u32 pid_ns_inum = 0; /* tally's pid namespace; 0 = initial */
const volatile u32 whom = WHOM_PROCESSES; /* a constant: the kernel need not check what is never run */
const volatile u32 self_tgid = 0; /* tally: never recorded */
const volatile u32 regs_bytes = 168; /* of struct pt_regs */
const volatile u32 stacks_later = 0; /* on_switch_later runs, not on_switch */

/* Code that few switches run lies outside of that which all run. */
#define SELDOM static __attribute__((noinline))
#define is_seldom(condition) __builtin_expect(!!(condition), 0)

#define COPY_REFRESH_NS 1000000
#define BPF_F_USER_STACK (1ULL << 8) /* uapi linux/bpf.h */

/* A thread may copy its stack once per this time, and so often at once. */
#define COPY_EVERY_NS 20000
#define COPY_BURST 64
/* Places may get their first sample once per this time, and so many at once. */
#define FIRST_EVERY_NS 4000000
#define FIRST_BURST 2000
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
	u64 runtime_ns; /* the scheduler's own count at the last switch-out */
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
	u32 leaving; /* counted in COUNT_LEAVING */
	u32 handed_out; /* at the recording's end: totals went out, or are about to */
	char other_comm[COMM_BYTES]; /* of who runs instead: of a preempted thread only */
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

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_state);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} ring SEC(".maps");

/*
 * Ends have a ring of their own: stacks that fill the other one shall not cost a
 * thread its totals. Room for 20,000 threads that end at once.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} ends SEC(".maps");

/* One record a thread: kept user stack, and room to build its samples. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, u32);
	__type(value, struct off_record);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 256);
	__uint(value_size, 4);
} free_slots SEC(".maps");

/* The callbacks of the slots. */
struct slot_work {
	struct bpf_task_work work;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, u32);
	__type(value, struct slot_work);
} slot_works SEC(".maps");

/* Room for a waker's record, and for sleepers without a slot. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct off_record);
} scratch SEC(".maps");

/* Room for the flushing iterator, which may sleep and migrate. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct off_record);
} flush_room SEC(".maps");

/* A process's id, or a thread's with this bit. */
#define THREAD_KEY (1ULL << 32)
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, u32);
} targets SEC(".maps");

/* tgid -> bytes of user stack its unwinds need. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, u32);
} stack_want SEC(".maps");

/* Sums of the places that threads are not at. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct site_key);
	__type(value, struct site_sums);
} sites SEC(".maps");

/* First samples of places are paid for up to this time, ns. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} firsts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct control);
} controls SEC(".maps");

/* What a CPU needs at a switch: its clock of the scheduler against CLOCK_MONOTONIC, and where registers are. */
struct cpu_facts {
	u64 offset_ns; /* to be added to the scheduler's */
	u64 compared_ns; /* when they were compared, by the scheduler's; 0 = never */
	u64 misses; /* comparisons that steady clocks do not show */
	u64 regs_offset; /* of a thread's user registers from the start of its kernel stack; 0 = not known yet */
	u64 late; /* comparisons in a row whose reading came late */
	u64 least_ns; /* least offset of those */
	u64 spare[2];
};

/* By CPU. An array of CPUs is too small for pages of its own, which a per-CPU array has: address look-ups cost as well. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256); /* user space puts the number of CPUs here */
	__type(key, u32);
	__type(value, struct cpu_facts);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNT_MAX);
	__type(key, u32);
	__type(value, u64);
} counts SEC(".maps");

INLINE void count_more(u32 which, u64 more)
{
	u64 *n = bpf_map_lookup_elem(&counts, &which);

	if (n)
		*n += more;
}

INLINE void count(u32 which)
{
	count_more(which, 1);
}

/* One ordinary run in so many is timed. */
#define OWN_TIMED_LOG2 6

INLINE int is_timed(u64 now)
{
	return !(now * 0x9e3779b97f4a7c15ULL >> (64 - OWN_TIMED_LOG2));
}

/* A program has run since `began`, and so did as many that were not timed as make up `runs`. */
SELDOM int count_own_time(u64 began, u64 runs)
{
	u32 which = COUNT_OWN_NS;
	u64 *ns = bpf_map_lookup_elem(&counts, &which);
	u64 now = bpf_ktime_get_ns();

	/* `began` may be another CPU's clock's. */
	if (ns && now > began)
		*ns += (now - began) * runs;
	return 0;
}

/* Runs that make a sample are long and few: each is timed. */
INLINE void end_of_run(u64 began, int is_long)
{
	if (is_seldom(is_long))
		count_own_time(began, 1);
	else if (is_seldom(is_timed(began)))
		count_own_time(began, 1 << OWN_TIMED_LOG2);
}

INLINE struct control *control_now(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&controls, &zero);
}

/* --- identity --------------------------------------------------------- */

/* A thread's id in tally's pid namespace, 0 if it has none there. */
INLINE u32 visible_id(struct task_struct *task)
{
	struct pid *pid;
	u32 level;

	if (!pid_ns_inum)
		return task->pid;
	pid = task->thread_pid;
	if (!pid)
		return 0;
	level = pid->level;
	for (u32 i = 0; i < 6; i++) {
		struct upid upid = {};
		u32 inum = 0;

		if (i > level)
			break;
		if (bpf_probe_read_kernel(&upid, sizeof(upid), (void *)&pid->numbers[0] + i * sizeof(upid)))
			break;
		if (bpf_probe_read_kernel(&inum, sizeof(inum), &upid.ns->ns.inum))
			break;
		if (inum == pid_ns_inum)
			return upid.nr;
	}
	return 0;
}

INLINE u32 visible_process(struct task_struct *task)
{
	if (!pid_ns_inum)
		return task->tgid;
	return visible_id(task->group_leader);
}

INLINE u32 task_state(struct task_struct *task)
{
	struct task_struct___old *old = (void *)task;

	if (field_exists(task->__state))
		return task->__state;
	return old->state;
}

#define CGROUP_DEPTH 24

/* True if the task's cgroup, as perf events have it, is one of `targets` or lies below one. */
INLINE int is_in_cgroup(struct task_struct *task)
{
	struct cgroup_subsys_state *css = 0;
	struct css_set *set = task->cgroups;
	u64 at = enum_value(cgroup_subsys_id, perf_event_cgrp_id) * sizeof(css);

	if (!set || bpf_probe_read_kernel(&css, sizeof(css), (void *)&set->subsys[0] + at))
		return 0;
	for (u32 i = 0; i < CGROUP_DEPTH && css; i++) {
		struct cgroup *cgroup = 0;
		struct kernfs_node *node = 0;
		u64 id = 0;

		if (bpf_probe_read_kernel(&cgroup, sizeof(cgroup), &css->cgroup) ||
		    bpf_probe_read_kernel(&node, sizeof(node), &cgroup->kn) ||
		    bpf_probe_read_kernel(&id, sizeof(id), &node->id))
			return 0;
		if (bpf_map_lookup_elem(&targets, &id))
			return 1;
		if (bpf_probe_read_kernel(&css, sizeof(css), &css->parent))
			return 0;
	}
	return 0;
}

INLINE int is_target(struct task_struct *task)
{
	u64 key;

	if (whom == WHOM_ALL)
		return task->pid != 0 && visible_process(task) != self_tgid;
	if (whom == WHOM_CGROUP)
		return task->pid != 0 && visible_process(task) != self_tgid && is_in_cgroup(task);
	if (whom == WHOM_THREADS)
		key = visible_id(task) | THREAD_KEY;
	else
		key = visible_process(task);
	return bpf_map_lookup_elem(&targets, &key) != 0;
}

/* A clock for a thread without one, if it is a target. */
SELDOM int make_clock(struct task_struct *task)
{
	struct thread_state *t;

	if (!task || !is_target(task))
		return 0;
	t = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t) {
		count(COUNT_NO_STORAGE);
		return 0;
	}
	t->tid = visible_id(task);
	t->tgid = visible_process(task);
	/* Another than that of a thread that had this number shortly before. */
	t->life = (bpf_ktime_get_ns() >> 10) & LIFE_MASK;
	t->minor_before = task->min_flt;
	t->major_before = task->maj_flt;
	if (task->flags & PF_KTHREAD)
		t->flags = FLAG_KTHREAD;
	return 1;
}

/* The thread's clock; made when it is a target and has none. */
INLINE struct thread_state *thread_clock(struct task_struct *task)
{
	struct thread_state *t = bpf_task_storage_get(&threads, task, 0, 0);

	if (t || !make_clock(task))
		return t;
	return bpf_task_storage_get(&threads, task, 0, 0);
}

INLINE u32 kind_of(u32 state)
{
	if (state & TASK_NOLOAD && state & TASK_UNINTERRUPTIBLE)
		return KIND_IDLE;
	if (state & TASK_STOPPED_BITS)
		return KIND_STOPPED;
	if (state & (TASK_UNINTERRUPTIBLE | TASK_RTLOCK_WAIT))
		return KIND_DISK;
	if (state & TASK_INTERRUPTIBLE)
		return KIND_SLEEP;
	return KIND_PREEMPTED;
}

/* --- weights ----------------------------------------------------------- */

/* `by` if `value` has more than `by` bits, else 0. Without a branch: the verifier would follow both ways from there on. */
INLINE u64 bits_if_more(u64 value, u32 by)
{
	return ((s64)((1ULL << by) - 1 - value) >> 63) & by;
}

/* The bucket, of QUEUE_BUCKETS, of a length. */
INLINE u32 length_bucket(u64 ns)
{
	u64 left = ns >> QUEUE_FIRST_LOG2, bucket, bits;

	if (is_seldom(left >> QUEUE_BUCKETS))
		return QUEUE_BUCKETS - 1;
	bucket = bits_if_more(left, 16);
	left >>= bucket;
	bits = bits_if_more(left, 8);
	bucket += bits;
	left >>= bits;
	bits = bits_if_more(left, 4);
	bucket += bits;
	left >>= bits;
	bits = bits_if_more(left, 2);
	bucket += bits;
	left >>= bits;
	return bucket + (left >> 1);
}

/* Counts a wait for a CPU: once woken (0), or preempted (1). */
INLINE void count_wait(struct thread_state *t, u32 which, u64 ns)
{
	u32 bucket = length_bucket(ns);

	/* A division takes as long as all else here. */
	if (is_seldom(ns > t->longest_us[which] * 1000ULL)) {
		u64 us = (ns + 999) / 1000;

		t->longest_us[which] = us > 0xffffffff ? 0xffffffff : us;
	}
	if (bucket < QUEUE_BUCKETS)
		t->queue[which * QUEUE_BUCKETS + bucket] += 1;
}

/* Counts the wait for a CPU that ends now, if there was one. */
INLINE void count_ended(struct thread_state *t, u64 now)
{
	if (t->wake_ns)
		count_wait(t, 0, now - t->wake_ns);
	if (is_seldom(t->kind == KIND_PREEMPTED))
		count_wait(t, 1, now - t->since_ns);
}

/* Without a place: adds an interval to its total; answers the weight of the sample it makes. */
INLINE u64 weigh_by_kind(struct thread_state *t, u32 kind, u64 ns, u64 period)
{
	u64 carry;

	kind &= KIND_COUNT - 1;
	if (kind == KIND_IDLE)
		return 0;
	if (ns >= period)
		return ns;
	carry = t->carry[kind] + ns;
	if (carry >= period) {
		t->carry[kind] = carry - period;
		return period;
	}
	t->carry[kind] = carry;
	return 0;
}

/* The sums that the interval at hand adds to; 0 = none. */
INLINE struct site_sums *site_now(struct thread_state *t)
{
	if (t->kind == KIND_PREEMPTED && t->has_place)
		return &t->sites[1];
	return t->has_place ? &t->sites[0] : 0;
}

/*
 * The ring fills faster than it is emptied: no more samples for now. Sums lose nothing by that, and the samples in the
 * ring keep their stacks.
 */
INLINE int is_ring_filled(void)
{
	return bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) * 2 > bpf_ringbuf_query(&ring, BPF_RB_RING_SIZE);
}

INLINE int may_sample_first(u64 now)
{
	u32 zero = 0;
	u64 *paid = bpf_map_lookup_elem(&firsts, &zero);

	if (!paid || *paid + FIRST_EVERY_NS > now)
		return 0;
	if (*paid + FIRST_BURST * (u64)FIRST_EVERY_NS < now)
		*paid = now - FIRST_BURST * (u64)FIRST_EVERY_NS;
	*paid += FIRST_EVERY_NS;
	count(COUNT_FIRSTS);
	return 1;
}

/*
 * Adds the wait at hand to its total and the sums of its place; answers the weight of the sample that it is to make, 0
 * if none.
 */
INLINE u64 weigh(struct thread_state *t, u64 ns, u64 period, u64 now)
{
	struct site_sums *site = site_now(t);
	u32 kind = t->kind & (KIND_COUNT - 1), bucket;

	t->total[kind] += ns;
	if (is_seldom(!site))
		return weigh_by_kind(t, kind, ns, period);
	if (!site->count)
		site->since_ns = t->since_ns;
	site->wait_ns += ns;
	site->count += 1;
	if (site->longest_ns < ns)
		site->longest_ns = ns;
	bucket = length_bucket(ns);
	if (bucket < QUEUE_BUCKETS)
		site->lengths[bucket] += 1;
	if (is_seldom(site->wait_ns >= period))
		return is_ring_filled() ? 0 : site->wait_ns;
	if (is_seldom(!site->sampled) && period != ~0ULL && !is_ring_filled() && may_sample_first(now)) {
		site->sampled = 1;
		return site->wait_ns;
	}
	return 0;
}

/* The same for the time from the wake-up to the switch-in, or from birth to the first. */
INLINE u64 weigh_runnable(struct thread_state *t, u64 ns, u64 period)
{
	struct site_sums *site = site_now(t);

	t->total[KIND_RUNNABLE] += ns;
	if (is_seldom(!site))
		return weigh_by_kind(t, KIND_RUNNABLE, ns, period);
	site->runnable_ns += ns;
	return is_seldom(site->runnable_ns >= period) && !is_ring_filled() ? site->runnable_ns : 0;
}

/* A sample took the sums with it. */
INLINE void clear_sums(struct site_sums *site)
{
	site->wait_ns = 0;
	site->runnable_ns = 0;
	site->longest_ns = 0;
	site->count = 0;
	__builtin_memset(site->lengths, 0, sizeof(site->lengths));
}

INLINE void add_sums(struct site_sums *site, struct site_sums *more)
{
	if (!site->count || more->since_ns < site->since_ns)
		site->since_ns = more->since_ns;
	site->wait_ns += more->wait_ns;
	site->runnable_ns += more->runnable_ns;
	site->count += more->count;
	if (site->longest_ns < more->longest_ns)
		site->longest_ns = more->longest_ns;
	for (u32 i = 0; i < QUEUE_BUCKETS; i++)
		site->lengths[i] += more->lengths[i];
}

/* Sums for which there is no room at their place. */
INLINE void carry_sums(struct thread_state *t, struct site_sums *site)
{
	t->carry[site->kind & (KIND_COUNT - 1)] += site->wait_ns;
	t->carry[KIND_RUNNABLE] += site->runnable_ns;
	count(COUNT_NO_SITE);
}

/* Whoever reads a thread's sums after its end is told where they are; untold ones are found at the recording's end. */
INLINE void tell_site(struct site_key *key)
{
	struct site_record *told = bpf_ringbuf_reserve(&ring, sizeof(*told), 0);

	if (!told)
		return;
	told->type = REC_SITE;
	told->size = sizeof(*told);
	told->print = key->print;
	told->tid = key->tid;
	told->spare = 0;
	bpf_ringbuf_submit(told, BPF_RB_NO_WAKEUP);
}

/* Into the map, where whoever reads a thread's sums after its end finds them. */
SELDOM int store_site(struct thread_state *t, struct site_sums *site)
{
	struct site_key key = {};
	struct site_sums *kept;

	if (!t || !site || !site->print)
		return 0;
	key.print = site->print;
	key.tid = t->tid;
	kept = bpf_map_lookup_elem(&sites, &key);
	if (kept)
		__builtin_memcpy(kept, site, sizeof(*kept));
	else if (bpf_map_update_elem(&sites, &key, site, BPF_ANY))
		carry_sums(t, site);
	else
		tell_site(&key);
	site->print = 0;
	return 0;
}

/* The thread is at another place: its sums come from the map, or begin. */
SELDOM int load_site(struct thread_state *t, struct site_sums *site, u64 print)
{
	struct site_key key = {};
	struct site_sums *kept;

	if (!t || !site)
		return 0;
	store_site(t, site);
	key.print = print;
	key.tid = t->tid;
	kept = bpf_map_lookup_elem(&sites, &key);
	if (kept) {
		__builtin_memcpy(site, kept, sizeof(*site));
		return 1;
	}
	clear_sums(site);
	site->print = print;
	site->sampled = 0;
	site->tgid = t->tgid;
	return 0;
}

/* What a sample that found no room had taken goes back. */
SELDOM int give_back(struct thread_state *t, struct off_record *rec)
{
	struct site_key key = {};
	struct site_sums *kept = 0;

	if (!t || !rec)
		return 0;
	if (!rec->site.print) {
		t->carry[rec->kind & (KIND_COUNT - 1)] += rec->wait_weight_ns;
		t->carry[KIND_RUNNABLE] += rec->runnable_weight_ns;
		return 0;
	}
	if (t->sites[0].print == rec->site.print) {
		add_sums(&t->sites[0], &rec->site);
		t->sites[0].sampled = 0;
		return 0;
	}
	if (t->sites[1].print == rec->site.print) {
		add_sums(&t->sites[1], &rec->site);
		t->sites[1].sampled = 0;
		return 0;
	}
	key.print = rec->site.print;
	key.tid = t->tid;
	kept = bpf_map_lookup_elem(&sites, &key);
	if (kept) {
		add_sums(kept, &rec->site);
		kept->sampled = 0;
	} else {
		carry_sums(t, &rec->site);
	}
	return 0;
}

/* --- user registers and stack ------------------------------------------ */

/*
 * Same fingerprint = the same place: pc, sp, system call and its first
 * argument (file, futex). Registers as such are read afresh for each sample;
 * what must still hold is the copied stack. Callee-saved registers are left
 * out: loop counters live there.
 */
INLINE void place_at(void *regs, struct place *place)
{
	struct pt_regs___x86 *x86 = regs;
	u64 h;
	s64 nr;

	if (field_exists(x86->orig_ax)) {
		place->ip = x86->ip;
		place->sp = x86->sp;
		place->arg = x86->di;
		nr = x86->orig_ax;
	} else {
		struct pt_regs___arm64 *arm = regs;

		place->ip = arm->pc;
		place->sp = arm->sp;
		place->arg = arm->regs[0];
		nr = arm->syscallno;
	}
	/* A page fault's registers hold anything. */
	if (nr < 0)
		place->arg = 0;
	place->syscall = nr < 0 ? 0 : nr + 1;
	h = (place->ip * 0x9e3779b97f4a7c15ULL ^ place->sp) * 0x9e3779b97f4a7c15ULL;
	place->code_print = h;
	h = ((h ^ place->arg) * 0x9e3779b97f4a7c15ULL ^ place->syscall) * 0x9e3779b97f4a7c15ULL;
	place->print = h | 1;
}

INLINE int place_of(struct task_struct *task, struct place *place)
{
	if (!has_task_pt_regs)
		return 0;
	place_at((void *)bpf_task_pt_regs(task), place);
	return 1;
}

/* Kernels that run on_switch_later let registers be read by their distance from the stack: without a call. */
INLINE int place_from(struct task_struct *task, struct cpu_facts *facts, struct place *place)
{
	if (!stacks_later || !facts || is_seldom(!facts->regs_offset))
		return place_of(task, place);
	place_at(task->stack + facts->regs_offset, place);
	return 1;
}

/*
 * The same distance for all threads with user code. Not for a CPU's idle task: its registers were seen outside of its
 * stack.
 */
INLINE void find_registers(struct cpu_facts *facts, struct task_struct *task)
{
	u64 distance;

	if (facts->regs_offset || !task->pid || task->flags & PF_KTHREAD)
		return;
	distance = (u64)bpf_task_pt_regs(task) - (u64)task->stack;
	if (distance < LARGEST_KERNEL_STACK)
		facts->regs_offset = distance;
}

/* Of kind and place without the argument; 0 = no place in user code. */
INLINE u64 stack_print_of(struct place *place, u32 kind)
{
	u64 print = (place->code_print ^ place->syscall) * 0x9e3779b97f4a7c15ULL;

	if (!place->sp)
		return 0;
	if (kind == KIND_PREEMPTED && !place->syscall)
		print = place->sp * 0x9e3779b97f4a7c15ULL;
	return (print ^ (u64)kind << 8) | 1;
}

/*
 * The thread waits from now on, or is preempted: at which place. User code is preempted anywhere: there the stack
 * pointer alone is the place, one of a few. A kernel thread has one place for each kind of wait, and so has a thread
 * that has not run yet. Before the interval is opened: a waker adds to the sums at once.
 */
INLINE void enter_site(struct thread_state *t, struct task_struct *task, u32 kind,
		       struct cpu_facts *facts)
{
	struct site_sums *site = &t->sites[0];
	struct place place = {};
	u64 print;

	t->has_place = has_task_pt_regs && kind != KIND_IDLE && kind != KIND_ON;
	if (!t->has_place)
		return;
	if (kind == KIND_PREEMPTED)
		site = &t->sites[1];
	if (kind == KIND_RUNNABLE || t->flags & FLAG_KTHREAD)
		print = 1ULL << 63;
	else if (place_from(task, facts, &place)) {
		print = place.print;
		if (kind == KIND_PREEMPTED && !place.syscall)
			print = place.sp * 0x9e3779b97f4a7c15ULL;
	} else {
		t->has_place = 0;
		return;
	}
	print = ((print ^ (u64)kind << 8) & ~(u64)LIFE_MASK) | t->life;
	if (!is_seldom(site->print != print))
		return;
	if (load_site(t, site, print))
		return;
	site->kind = kind;
	site->arg = place.arg;
	site->stack_print = stack_print_of(&place, kind);
	site->syscall = place.syscall;
	/* It has no stack. */
	if (kind == KIND_RUNNABLE)
		site->sampled = 1;
}

/* The registers as they are, for the record. */
INLINE u32 read_regs(struct task_struct *task, u8 *to)
{
	u32 bytes = regs_bytes;

	if (!has_task_pt_regs || bytes > REGS_BYTES)
		return 0;
	return bpf_probe_read_kernel(to, bytes, (void *)bpf_task_pt_regs(task)) ? 0 : bytes;
}

/* How much user stack to copy from sp, clamped to what is known readable. */
INLINE u32 wanted_bytes(struct thread_state *t, struct control *c, u64 sp)
{
	u32 *own = bpf_map_lookup_elem(&stack_want, &t->tgid);
	u64 want = own ? *own : c->stack_bytes;

	if (want > STACK_MAX_BYTES)
		want = STACK_MAX_BYTES;
	if (t->stack_end > sp && t->stack_end - sp < want)
		want = t->stack_end - sp;
	return want;
}

/* Copies page by page; a page that fails ends the copy, not spoils it. */
INLINE u32 copy_stack(u8 *to, u64 sp, u64 want, struct task_struct *task, int how, u64 *end)
{
	u64 done = 0;

	for (u32 i = 0; i < COPY_STEPS; i++) {
		u64 at = sp + done;
		u64 step = PAGE_BYTES - (at & (PAGE_BYTES - 1));
		u64 offset = done;
		long err;

		if (done >= want)
			break;
		if (step > want - done)
			step = want - done;
		barrier_var(offset);
		barrier_var(step);
		if (offset > STACK_MAX_BYTES - PAGE_BYTES || step > PAGE_BYTES || step == 0)
			break;
		if (how == READ_OF_TASK)
			err = bpf_copy_from_user_task(to + offset, step, (void *)at, task, 0);
		else if (how == READ_OWN)
			err = bpf_copy_from_user(to + offset, step, (void *)at);
		else
			err = bpf_probe_read_user(to + offset, step, (void *)at);
		if (err) {
			if (end)
				*end = at;
			break;
		}
		done += step;
	}
	return done;
}

INLINE struct off_record *thread_slot(struct thread_state *t)
{
	u32 index = t->slot;

	if (!index)
		return 0;
	index -= 1;
	return bpf_map_lookup_elem(&slots, &index);
}

INLINE struct off_record *thread_slot_made(struct thread_state *t)
{
	u32 index = 0;

	if (!t->slot && !(t->flags & FLAG_NO_SLOT)) {
		if (bpf_map_pop_elem(&free_slots, &index)) {
			t->flags |= FLAG_NO_SLOT;
			count(COUNT_NO_SLOT);
			return 0;
		}
		t->slot = index + 1;
	}
	return thread_slot(t);
}

/* Token bucket in time. */
INLINE int may_copy(struct thread_state *t, u64 now)
{
	if (t->copy_paid_ns + COPY_EVERY_NS > now)
		return 0;
	if (t->copy_paid_ns + COPY_BURST * COPY_EVERY_NS < now)
		t->copy_paid_ns = now - COPY_BURST * COPY_EVERY_NS;
	t->copy_paid_ns += COPY_EVERY_NS;
	return 1;
}

INLINE int sample_is_near(struct thread_state *t, u64 period)
{
	u64 likely = 4 * t->last_wait_ns;
	struct site_sums *site = site_now(t);

	return site && (!site->sampled || site->wait_ns + likely >= period || site->runnable_ns + likely >= period);
}

/* Keeps the leaving thread's user stack, unless the kept one is still it. */
INLINE void keep_stack(struct thread_state *t, struct task_struct *task, struct control *c, u64 now, int sleepable)
{
	struct off_record *slot;
	struct place place;
	u32 want;

	if (t->flags & FLAG_KTHREAD || !place_of(task, &place))
		return;
	if (place.print == t->copy_print && now - t->copy_ns < COPY_REFRESH_NS)
		return;
	/* In a storm of short waits copy only now and then, or when a sample is near. */
	if (!sleepable && !may_copy(t, now) && !sample_is_near(t, c->period_ns))
		return;
	slot = thread_slot_made(t);
	if (!slot)
		return;
	want = wanted_bytes(t, c, place.sp);
	t->copy_bytes = copy_stack(slot->stack, place.sp, want, task, sleepable ? READ_OF_TASK : READ_NOW, &t->stack_end);
	t->copy_ns = now;
	t->copy_print = place.print;
	count(COUNT_COPIES);
}

/* --- records ------------------------------------------------------------ */

INLINE void fill_head(struct off_record *rec, struct thread_state *t, u64 now)
{
	rec->time_ns = now;
	rec->since_ns = t->since_ns;
	rec->tid = t->tid;
	rec->tgid = t->tgid;
	rec->kind = t->kind;
	rec->flags = t->flags;
	rec->cpu = bpf_get_smp_processor_id();
	rec->regs_bytes = 0;
	rec->stack_bytes = 0;
	rec->user_chain[0] = 0;
}

INLINE void fill_kstack(struct off_record *rec, struct task_struct *task)
{
	long bytes = bpf_get_task_stack(task, rec->kstack, sizeof(rec->kstack), 0);

	rec->kstack_bytes = bytes > 0 ? bytes : 0;
}

/*
 * A thread of a Go program wakes others on a stack of its own, and only frame
 * pointers lead to that of the goroutine: the copy is of one of the two.
 */
INLINE void fill_user_chain(struct off_record *rec, struct task_struct *me)
{
	long bytes = bpf_get_task_stack(me, rec->user_chain, sizeof(rec->user_chain), BPF_F_USER_STACK);

	if (bytes < 0)
		bytes = 0;
	if (bytes < sizeof(rec->user_chain) && bytes % 8 == 0)
		rec->user_chain[bytes / 8 & (USER_FRAMES - 1)] = 0;
}

/* Where the ring has no room for the user stack, all else goes. */
INLINE long send_record(struct off_record *rec)
{
	u64 size = sizeof(*rec) - STACK_MAX_BYTES + rec->stack_bytes;

	barrier_var(size);
	if (size > sizeof(*rec))
		return -1;
	rec->size = size;
	if (!bpf_ringbuf_output(&ring, rec, size, BPF_RB_NO_WAKEUP))
		return 0;
	count(COUNT_LEFT_OUT);
	rec->stack_bytes = 0;
	rec->flags |= FLAG_NO_SLOT;
	rec->size = sizeof(*rec) - STACK_MAX_BYTES;
	return bpf_ringbuf_output(&ring, rec, sizeof(*rec) - STACK_MAX_BYTES, BPF_RB_NO_WAKEUP);
}

/* The sample of the interval that ends now, but for its user stack. */
INLINE void fill_sample(struct thread_state *t, struct task_struct *task, struct off_record *rec, u64 now,
			u64 wait_weight, u64 runnable_weight)
{
	struct site_sums *site = site_now(t);

	fill_head(rec, t, now);
	rec->type = REC_SAMPLE;
	rec->wait_ns = (t->wake_ns ? t->wake_ns : now) - t->since_ns;
	rec->wait_weight_ns = wait_weight;
	rec->runnable_ns = t->wake_ns ? now - t->wake_ns : 0;
	rec->runnable_weight_ns = runnable_weight;
	rec->other_tid = t->other_tid;
	rec->other_tgid = t->other_tgid;
	rec->other_comm[0] = 0;
	if (t->kind == KIND_PREEMPTED)
		__builtin_memcpy(rec->other_comm, t->other_comm, COMM_BYTES);
	if (t->wake_ns)
		rec->flags |= FLAG_WOKEN;
	if (site) {
		rec->wait_weight_ns = site->wait_ns;
		rec->runnable_weight_ns = site->runnable_ns;
		__builtin_memcpy(&rec->site, site, sizeof(rec->site));
		clear_sums(site);
		site->sampled = 1;
	} else {
		rec->site.print = 0;
	}
	fill_kstack(rec, task);
	if (!(t->flags & FLAG_KTHREAD) && has_task_pt_regs)
		rec->regs_bytes = read_regs(task, rec->regs);
}

/* On a full ring the weights go back. */
INLINE void send_sample(struct thread_state *t, struct off_record *rec)
{
	if (send_record(rec)) {
		count(COUNT_LOST_SAMPLES);
		give_back(t, rec);
	} else {
		count(COUNT_SAMPLES);
	}
}

/* Takes the stack kept at the switch-out, if it is this wait's. */
INLINE void take_kept_stack(struct thread_state *t, struct task_struct *task, struct off_record *rec)
{
	struct place place;

	if (!rec->regs_bytes || !place_of(task, &place))
		return;
	if (place.print == t->copy_print)
		rec->stack_bytes = t->slot ? t->copy_bytes : 0;
	else
		rec->flags |= FLAG_STALE;
}

/*
 * Copies the stack that belongs to the registers of the task. With READ_OWN
 * pages at hand first: where reading may sleep, the thread may lose its CPU.
 */
INLINE void copy_stack_now(struct thread_state *t, struct task_struct *task, struct control *c,
			   struct off_record *rec, int how)
{
	struct place place;
	u32 want;

	if (!rec->regs_bytes || !place_of(task, &place))
		return;
	count(COUNT_COPIES);
	want = wanted_bytes(t, c, place.sp);
	if (how == READ_OWN) {
		rec->stack_bytes = copy_stack(rec->stack, place.sp, want, task, READ_NOW, 0);
		if (rec->stack_bytes == want)
			return;
	}
	rec->stack_bytes = copy_stack(rec->stack, place.sp, want, task, how, &t->stack_end);
}

/* --- samples that wait for the return to user mode ------------------------ */

INLINE void free_slot(struct thread_state *t)
{
	u32 index = t->slot - 1;

	if (!t->slot)
		return;
	t->slot = 0;
	bpf_map_push_elem(&free_slots, &index, BPF_ANY);
}

SELDOM int at_return_to_user(void *map, u32 *key, struct slot_work *value)
{
	struct task_struct *me = bpf_get_current_task_btf();
	struct thread_state *t = bpf_task_storage_get(&threads, me, 0, 0);
	struct control *c = control_now();
	struct off_record *rec;
	u64 began = bpf_ktime_get_ns();
	u32 pending;

	if (!t || !c)
		return 0;
	pending = t->pending;
	t->pending = PENDING_GOES;
	rec = thread_slot(t);
	if (rec && pending == PENDING_WAITS) {
		copy_stack_now(t, me, c, rec, READ_OWN);
		if (!t->done)
			send_sample(t, rec);
	}
	free_slot(t);
	t->pending = PENDING_NONE;
	count_own_time(began, 1);
	return 0;
}

/* Keeps the sample in the thread's slot until its stack can be read. */
SELDOM int send_later(struct thread_state *t, struct task_struct *task, u64 now, u64 wait_weight,
		       u64 runnable_weight)
{
	u32 cpu_room = 0, has_work, index;
	struct off_record *rec;
	struct slot_work *work;

	if (!t || !task)
		return 0;
	has_work = t->slot;
	rec = thread_slot_made(t);
	if (rec) {
		fill_sample(t, task, rec, now, wait_weight, runnable_weight);
		/* Set first: where an irq_work runs at once, the callback is next. */
		t->pending = PENDING_WAITS;
		if (has_work)
			return 0;
		index = t->slot - 1;
		work = bpf_map_lookup_elem(&slot_works, &index);
		if (work && !bpf_task_work_at_user(task, &work->work, &slot_works, at_return_to_user, 0))
			return 0;
		/* The thread that had the slot is still leaving its callback. Filled once: the sums are in it. */
		t->pending = PENDING_NONE;
		rec->flags |= FLAG_NO_SLOT;
		count(COUNT_NO_SLOT);
		send_sample(t, rec);
		free_slot(t);
		return 0;
	}
	t->flags &= ~FLAG_NO_SLOT;
	rec = bpf_map_lookup_elem(&scratch, &cpu_room);
	if (!rec)
		return 0;
	fill_sample(t, task, rec, now, wait_weight, runnable_weight);
	rec->flags |= FLAG_NO_SLOT;
	send_sample(t, rec);
	return 0;
}

/* With the stack kept at the switch-out. */
SELDOM int send_now(struct thread_state *t, struct task_struct *task, u64 now, u64 wait_weight, u64 runnable_weight)
{
	struct off_record *rec;
	u32 cpu_room = 0;

	if (!t || !task)
		return 0;
	rec = thread_slot(t);
	if (!rec)
		rec = bpf_map_lookup_elem(&scratch, &cpu_room);
	if (!rec)
		return 0;
	fill_sample(t, task, rec, now, wait_weight, runnable_weight);
	take_kept_stack(t, task, rec);
	send_sample(t, rec);
	return 0;
}

/* Written where it is to be read: with its counts it is large for a stack. */
INLINE long send_end(struct thread_state *t, struct task_struct *task, u64 now, u32 flags)
{
	struct end_record *end;

	if (t->leaving)
		count_more(COUNT_LEAVING, -1);
	store_site(t, &t->sites[0]);
	store_site(t, &t->sites[1]);
	end = bpf_ringbuf_reserve(&ends, sizeof(*end), 0);
	if (!end) {
		count(COUNT_LOST_ENDS);
		return -1;
	}
	end->type = REC_END;
	end->size = sizeof(*end);
	end->start_ns = t->start_ns;
	end->end_ns = now;
	__builtin_memcpy(end->total, t->total, sizeof(end->total));
	__builtin_memcpy(end->carry, t->carry, sizeof(end->carry));
	end->switches = t->switches;
	end->tid = t->tid;
	end->tgid = t->tgid;
	end->flags = t->flags | flags;
	end->preemptions = t->preemptions;
	end->migrations = t->migrations;
	end->minor_faults = task->min_flt - t->minor_before;
	end->major_faults = task->maj_flt - t->major_before;
	bpf_probe_read_kernel(end->comm, COMM_BYTES, task->comm);
	__builtin_memcpy(end->longest_us, t->longest_us, sizeof(end->longest_us));
	__builtin_memcpy(end->queue, t->queue, sizeof(end->queue));
	end->life = t->life;
	end->spare = 0;
	bpf_ringbuf_submit(end, BPF_RB_NO_WAKEUP);
	return 0;
}

/* --- the clock ----------------------------------------------------------- */

/* The clocks of two CPUs differ by up to a microsecond: no interval ends before it began. No branch, as above. */
INLINE u64 not_before(u64 now, u64 since)
{
	s64 late = since - now;

	barrier_var(late);
	return now + (late & ~(late >> 63));
}

/* Both clocks are read again after this time. */
#define COMPARE_EVERY_NS 2000000
/* How much earlier than before a second reading may come after the first. */
#define READINGS_APART_NS 20000
#define MISSES_ALLOWED 16
#define LATE_ALLOWED 64

/*
 * CLOCK_MONOTONIC at `raw` of the scheduler's clock. Some time lies between the scheduler's reading and ours, and more
 * where a hypervisor stops the CPU: the least counts. The clocks drift apart by less than one in 16,384 as a rule, and by
 * one in 2,048 while time is set right. Where they show more than that, the scheduler's is not used.
 */
SELDOM u64 compare_clocks(struct cpu_facts *facts, u64 raw, struct task_struct *prev)
{
	u64 now = bpf_ktime_get_ns();
	s64 may_drift, more;

	if (!facts || !prev)
		return now;
	if (stacks_later)
		find_registers(facts, prev);
	if (facts->misses > MISSES_ALLOWED)
		return now;
	if (!facts->compared_ns)
		facts->offset_ns = now - raw;
	may_drift = facts->compared_ns ? (s64)(raw - facts->compared_ns) >> 11 : 0;
	more = now - raw - facts->offset_ns;
	if (may_drift < 0 || more < -(may_drift + READINGS_APART_NS))
		facts->misses += 1;
	if (more <= may_drift >> 3) {
		facts->offset_ns += more;
		facts->late = 0;
	} else {
		facts->offset_ns += may_drift >> 3;
		if (!facts->late || now - raw < facts->least_ns)
			facts->least_ns = now - raw;
		facts->late += 1;
	}
	/* So many are not late by chance. */
	if (facts->late >= LATE_ALLOWED) {
		facts->offset_ns = facts->least_ns;
		facts->late = 0;
	}
	facts->compared_ns = facts->misses > MISSES_ALLOWED ? 0 : raw;
	return raw + facts->offset_ns;
}

/* When this switch took place. The scheduler has just read its clock for it; to read another takes 100 ns. */
INLINE u64 switch_time(struct cpu_facts *facts, struct task_struct *prev)
{
	u64 raw;

	if (!field_exists(prev->se.cfs_rq) || !field_exists(prev->se.cfs_rq->rq)) {
		if (stacks_later)
			find_registers(facts, prev);
		return bpf_ktime_get_ns();
	}
	raw = prev->se.cfs_rq->rq->clock;
	if (is_seldom(raw - facts->compared_ns > COMPARE_EVERY_NS))
		return compare_clocks(facts, raw, prev);
	return raw + facts->offset_ns;
}

INLINE void open_interval(struct thread_state *t, u32 kind, u64 now)
{
	if (!t->start_ns)
		t->start_ns = now;
	t->since_ns = now;
	t->wake_ns = 0;
	t->weighed = 0;
	/* Last: from here on a waker on another CPU may end it. */
	asm volatile("" ::: "memory");
	t->kind = kind;
}

/*
 * While the stack of a sample is being read (which may have to wait for a page)
 * there is no room for another: all goes to the carry.
 */
INLINE u64 period_of(struct thread_state *t, struct control *c)
{
	return t->pending == PENDING_GOES ? ~0ULL : c->period_ns;
}

/*
 * A switch-in that was never seen: a kernel may keep switches away from some
 * tasks from every tracer (seen on a hosted VM, in perf's own events too). The
 * scheduler's runtime says how long the thread has run since; what lies before
 * is off the CPU. It adds to the sums of its place and makes no sample itself.
 */
SELDOM int switch_in_unseen(struct thread_state *t, struct task_struct *task, u64 now)
{
	u64 ran, in, wait_end;

	if (!t || !task)
		return 0;
	ran = task->se.sum_exec_runtime - t->runtime_ns;
	if (ran > now - t->since_ns)
		ran = now - t->since_ns;
	in = now - ran;
	wait_end = t->wake_ns && t->wake_ns < in ? t->wake_ns : in;
	if (t->weighed) {
		wait_end = t->wake_ns;
		if (t->has_place)
			t->sites[0].sampled = 0;
		else
			t->carry[t->kind & (KIND_COUNT - 1)] += t->wait_weight_ns;
	} else {
		weigh(t, wait_end - t->since_ns, ~0ULL, now);
	}
	if (in > wait_end) {
		weigh_runnable(t, in - wait_end, ~0ULL);
		count_wait(t, 0, in - wait_end);
	}
	if (t->kind == KIND_PREEMPTED)
		count_wait(t, 1, wait_end - t->since_ns);
	open_interval(t, KIND_ON, in > wait_end ? in : wait_end);
	count(COUNT_UNSEEN);
	return 0;
}

INLINE void note_other(struct thread_state *t, struct task_struct *other)
{
	t->other_tid = visible_id(other);
	t->other_tgid = visible_process(other);
}

SELDOM int note_preemption(struct thread_state *t, struct task_struct *next)
{
	if (!t || !next)
		return 0;
	t->preemptions += 1;
	note_other(t, next);
	bpf_probe_read_kernel(t->other_comm, COMM_BYTES, next->comm);
	return 0;
}

/* Off the CPU again before its return to user mode. */
SELDOM int send_early(struct thread_state *t, struct task_struct *task, struct control *c)
{
	struct off_record *rec;

	if (!t || !task || !c)
		return 0;
	rec = thread_slot(t);
	t->pending = PENDING_NONE;
	if (rec) {
		copy_stack_now(t, task, c, rec, READ_NOW);
		send_sample(t, rec);
	}
	return 0;
}

SELDOM int end_thread(struct thread_state *t, struct task_struct *task, u64 now)
{
	if (!t || !task)
		return 0;
	if (!t->start_ns)
		t->start_ns = now;
	free_slot(t);
	t->done = 1;
	send_end(t, task, now, FLAG_EXITED);
	return 0;
}

INLINE void switch_out(struct task_struct *prev, struct task_struct *next, u32 state, struct control *c,
		       struct cpu_facts *facts, u64 now, int later)
{
	u32 kind = kind_of(state);
	struct thread_state *t;

	/* A dead thread without a clock gets none. */
	if (is_seldom(state & TASK_DEAD_BITS))
		t = bpf_task_storage_get(&threads, prev, 0, 0);
	else
		t = thread_clock(prev);
	if (!t || t->done)
		return;
	if (later && is_seldom(t->pending == PENDING_WAITS))
		send_early(t, prev, c);
	now = not_before(now, t->since_ns);
	if (is_seldom(t->since_ns && t->kind != KIND_ON)) {
		switch_in_unseen(t, prev, now);
		now = not_before(now, t->since_ns);
	}
	if (t->since_ns)
		t->total[KIND_ON] += now - t->since_ns;
	t->runtime_ns = prev->se.sum_exec_runtime;
	t->switches += 1;
	t->cpu = bpf_get_smp_processor_id() + 1;
	t->flags &= FLAG_KTHREAD | FLAG_NO_SLOT;
	if (is_seldom(state & TASK_DEAD_BITS)) {
		end_thread(t, prev, now);
		return;
	}
	t->other_tid = 0;
	t->other_tgid = 0;
	if (is_seldom(kind == KIND_PREEMPTED)) {
		note_preemption(t, next);
	}
	enter_site(t, prev, kind, facts);
	/* Until it is open, wakers only note that they were early. */
	open_interval(t, kind, now);
	if (!later)
		keep_stack(t, prev, c, now, 0);
}

/* Answers 1 if it made a sample. */
INLINE int switch_in(struct task_struct *next, struct control *c, u64 now, int later)
{
	struct thread_state *t = thread_clock(next);
	u64 wait_weight, runnable_weight = 0;

	if (!t || t->done)
		return 0;
	if (is_seldom(t->cpu && t->cpu != bpf_get_smp_processor_id() + 1))
		t->migrations += 1;
	if (is_seldom(!t->since_ns || t->kind == KIND_ON)) {
		open_interval(t, KIND_ON, now);
		return 0;
	}
	if (!t->wake_ns && t->kind >= KIND_SLEEP && t->early_wake_ns)
		t->wake_ns = t->since_ns;
	t->early_wake_ns = 0;
	if (t->kind == KIND_RUNNABLE)
		t->wake_ns = t->since_ns;
	now = not_before(now, t->wake_ns ? t->wake_ns : t->since_ns);
	if (t->kind == KIND_RUNNABLE)
		wait_weight = 0;
	else if (t->weighed)
		wait_weight = t->wait_weight_ns;
	else
		wait_weight = weigh(t, (t->wake_ns ? t->wake_ns : now) - t->since_ns, period_of(t, c), now);
	if (t->wake_ns)
		runnable_weight = weigh_runnable(t, now - t->wake_ns, period_of(t, c));
	count_ended(t, now);
	t->last_wait_ns = now - t->since_ns;
	if (is_seldom(wait_weight | runnable_weight)) {
		if (later && !(t->flags & FLAG_KTHREAD))
			send_later(t, next, now, wait_weight, runnable_weight);
		else
			send_now(t, next, now, wait_weight, runnable_weight);
	}
	t->flags &= FLAG_KTHREAD | FLAG_NO_SLOT;
	open_interval(t, KIND_ON, now);
	return (wait_weight | runnable_weight) != 0;
}

/* Hands out a thread's open interval and totals as of control.end_ns. */
INLINE int flush_thread(struct task_struct *task, int sleepable, int late)
{
	struct control *c = control_now();
	struct off_record *rec;
	struct thread_state *t;
	u64 now, wait_weight = 0, runnable_weight = 0;
	u32 zero = 0;

	if (!c || !task || !c->end_ns)
		return 0;
	t = bpf_task_storage_get(&threads, task, 0, 0);
	if (!t || t->done || !t->since_ns || t->handed_out)
		return 0;
	t->handed_out = 1;
	now = c->end_ns;
	if (now < t->since_ns)
		now = t->since_ns;
	if (sleepable && t->pending == PENDING_WAITS) {
		t->pending = PENDING_NONE;
		rec = thread_slot(t);
		if (rec) {
			copy_stack_now(t, task, c, rec, READ_OF_TASK);
			send_sample(t, rec);
		}
	} else if (t->pending == PENDING_GOES) {
		rec = thread_slot(t);
		if (rec)
			give_back(t, rec);
	}
	if (t->kind != KIND_ON && task->on_cpu && !late)
		switch_in_unseen(t, task, now);
	if (t->kind == KIND_ON) {
		t->total[KIND_ON] += now - t->since_ns;
	} else {
		if (t->kind == KIND_RUNNABLE)
			t->wake_ns = t->since_ns;
		if (t->wake_ns > now)
			t->wake_ns = now;
		if (t->kind != KIND_RUNNABLE)
			wait_weight = t->weighed ? t->wait_weight_ns
				: weigh(t, (t->wake_ns ? t->wake_ns : now) - t->since_ns, c->period_ns, now);
		if (t->wake_ns)
			runnable_weight = weigh_runnable(t, now - t->wake_ns, c->period_ns);
		count_ended(t, now);
		rec = sleepable ? 0 : thread_slot(t);
		/* The iterator may be at work, and another CPU at such a switch. */
		if (!rec && late)
			rec = bpf_map_lookup_elem(&scratch, &zero);
		else if (!rec)
			rec = bpf_map_lookup_elem(&flush_room, &zero);
		if (rec && (wait_weight | runnable_weight)) {
			t->flags |= FLAG_OPEN_RIGHT;
			fill_sample(t, task, rec, now, wait_weight, runnable_weight);
			if (sleepable)
				copy_stack_now(t, task, c, rec, READ_OF_TASK);
			else
				take_kept_stack(t, task, rec);
			send_sample(t, rec);
		}
	}
	t->done = 1;
	send_end(t, task, now, FLAG_OPEN_RIGHT);
	return 0;
}

/* The last switch of a thread that was no longer on the list of threads at the recording's end, but on a CPU. */
SELDOM int end_late(struct task_struct *task, u64 end_ns)
{
	if (!task || end_ns <= NOT_BEGUN)
		return 0;
	return flush_thread(task, 0, 1);
}

INLINE int switched(u64 *ctx, int later)
{
	struct task_struct *prev = (void *)ctx[1];
	struct task_struct *next = (void *)ctx[2];
	struct control *c = control_now();
	u32 state, cpu = bpf_get_smp_processor_id();
	struct cpu_facts *facts = bpf_map_lookup_elem(&cpus, &cpu);
	u64 now;
	int is_long = 0;

	if (is_seldom(!c || !facts))
		return 0;
	if (has_prev_state)
		state = ctx[3];
	else
		state = task_state(prev);
	if (is_seldom(c->end_ns))
		return state & TASK_DEAD_BITS ? end_late(prev, c->end_ns) : 0;
	/* A preempted thread is runnable, whatever it was about to do. */
	if (ctx[0] & 1)
		state &= TASK_DEAD_BITS;
	now = switch_time(facts, prev);
	if (prev->pid)
		switch_out(prev, next, state, c, facts, now, later);
	if (next->pid)
		is_long = switch_in(next, c, now, later);
	end_of_run(now, is_long);
	return 0;
}

SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx)
{
	return switched(ctx, 0);
}

SEC("tp_btf/sched_switch")
int on_switch_later(u64 *ctx)
{
	return switched(ctx, 1);
}

/* The waker's own stacks, only for a wait that became a sample. */
SELDOM int send_waker(struct thread_state *t, u64 now, struct control *c)
{
	struct task_struct *me = bpf_get_current_task_btf();
	u32 cpu_room = 1;
	struct place place;
	struct off_record *rec;

	if (!t || !c)
		return 0;
	rec = bpf_map_lookup_elem(&scratch, &cpu_room);
	if (!rec)
		return 0;
	fill_head(rec, t, now);
	rec->type = REC_WAKER;
	rec->other_tid = t->other_tid;
	rec->other_tgid = t->other_tgid;
	bpf_probe_read_kernel(rec->other_comm, COMM_BYTES, me->comm);
	rec->flags = me->flags & PF_KTHREAD ? FLAG_KTHREAD : 0;
	fill_kstack(rec, me);
	if (!rec->flags && me->pid && place_of(me, &place)) {
		u32 want = c->stack_bytes;

		if (want > WAKER_STACK_BYTES)
			want = WAKER_STACK_BYTES;
		rec->regs_bytes = read_regs(me, rec->regs);
		fill_user_chain(rec, me);
		rec->stack_bytes = copy_stack(rec->stack, place.sp, want, me, READ_NOW, 0);
	}
	if (send_record(rec))
		count(COUNT_LOST_WAKERS);
	else
		count(COUNT_WAKERS);
	return 0;
}

SEC("tp_btf/sched_waking")
int on_waking(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct control *c = control_now();
	struct thread_state *t;
	u64 now;

	if (!c || c->end_ns)
		return 0;
	t = bpf_task_storage_get(&threads, task, 0, 0);
	if (!t || t->done || !t->since_ns)
		return 0;
	now = not_before(bpf_ktime_get_ns(), t->since_ns);
	if (t->kind == KIND_ON) {
		/* Waking overtook the switch-out, or undoes a wait not begun. */
		t->early_wake_ns = now;
		note_other(t, bpf_get_current_task_btf());
		return 0;
	}
	if (t->wake_ns || t->kind == KIND_PREEMPTED || t->kind == KIND_RUNNABLE)
		return 0;
	t->wake_ns = now;
	note_other(t, bpf_get_current_task_btf());
	t->wait_weight_ns = weigh(t, now - t->since_ns, period_of(t, c), now);
	t->weighed = 1;
	if (is_seldom(t->wait_weight_ns))
		send_waker(t, now, c);
	end_of_run(now, t->wait_weight_ns != 0);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int on_wakeup_new(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct control *c = control_now();
	struct thread_state *t;

	if (!c || c->end_ns)
		return 0;
	t = thread_clock(task);
	if (!t || t->since_ns)
		return 0;
	t->flags |= FLAG_NEW;
	enter_site(t, task, KIND_RUNNABLE, 0);
	open_interval(t, KIND_RUNNABLE, bpf_ktime_get_ns());
	note_other(t, bpf_get_current_task_btf());
	return 0;
}

/* --- samples of the CPU ------------------------------------------------- */

/* What runs at a sample that is made; nothing if it is empty. It has to return 1. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} next_program SEC(".maps");

/*
 * At a hit of an event opened for a whole CPU: 1 = make the sample, 0 = not
 * of a followed thread. An event opened for tasks costs each switch of theirs
 * more than all of the above.
 */
SEC("perf_event")
int only_followed(void *ctx)
{
	struct thread_state *t = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);

	if (!t || !t->since_ns || t->done)
		return 0;
	bpf_tail_call(ctx, &next_program, 0);
	return 1;
}

/* --- which processes ------------------------------------------------------ */

SEC("tp_btf/sched_process_fork")
int on_fork(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0];
	struct task_struct *child = (void *)ctx[1];
	struct control *c = control_now();
	u64 key, child_key, thread = 0;
	u32 one = 1;

	if (!c || c->end_ns > NOT_BEGUN || whom >= WHOM_ALL)
		return 0;
	if (whom == WHOM_THREADS) {
		key = visible_id(parent) | THREAD_KEY;
		child_key = visible_id(child);
		thread = THREAD_KEY;
	} else {
		key = visible_process(parent);
		child_key = visible_process(child);
	}
	if (!child_key)
		return 0;
	child_key |= thread;
	if (key != child_key && bpf_map_lookup_elem(&targets, &key) &&
	    bpf_map_update_elem(&targets, &child_key, &one, BPF_ANY))
		count(COUNT_NO_STORAGE);
	return 0;
}

/* Places of the program before are none of the next one's. */
INLINE void end_life(struct thread_state *t)
{
	struct exec_record *exec;

	store_site(t, &t->sites[0]);
	store_site(t, &t->sites[1]);
	exec = bpf_ringbuf_reserve(&ends, sizeof(*exec), 0);
	if (exec) {
		exec->type = REC_EXEC;
		exec->size = sizeof(*exec);
		exec->time_ns = bpf_ktime_get_ns();
		exec->tid = t->tid;
		exec->tgid = t->tgid;
		exec->life = t->life;
		exec->spare = 0;
		bpf_ringbuf_submit(exec, BPF_RB_NO_WAKEUP);
	}
	t->life = (t->life + 1) & LIFE_MASK;
}

SEC("tp_btf/sched_process_exec")
int on_exec(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct control *c = control_now();
	struct thread_state *t;

	if (!c || c->end_ns > NOT_BEGUN)
		return 0;
	if (c->start_at_exec && c->start_at_exec == visible_process(task)) {
		u64 key = c->start_at_exec;
		u32 one = 1;

		c->start_at_exec = 0;
		bpf_map_update_elem(&targets, &key, &one, BPF_ANY);
		if (c->end_ns)
			return 0;
		t = thread_clock(task);
		if (t && !t->since_ns)
			open_interval(t, KIND_ON, bpf_ktime_get_ns());
		return 0;
	}
	t = bpf_task_storage_get(&threads, task, 0, 0);
	if (!t)
		return 0;
	end_life(t);
	/* An exec off the main thread takes over the main thread's id. */
	t->tid = visible_id(task);
	if (whom == WHOM_THREADS) {
		u64 key = t->tid | THREAD_KEY;
		u32 one = 1;

		bpf_map_update_elem(&targets, &key, &one, BPF_ANY);
	}
	t->stack_end = 0;
	t->copy_print = 0;
	return 0;
}

/*
 * From here on the thread ends, but for its last switch: that comes milliseconds later where CPUs are scarce, and meanwhile
 * the thread leaves the list that `flush` walks.
 */
INLINE void note_leaving(struct task_struct *task)
{
	struct thread_state *t;

	t = bpf_task_storage_get(&threads, task, 0, 0);
	if (!t || t->done || !t->since_ns || t->leaving)
		return;
	t->leaving = 1;
	count(COUNT_LEAVING);
}

SEC("tp_btf/sched_process_exit")
int on_exit(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct control *c = control_now();
	u64 key;

	if (!c)
		return 0;
	note_leaving(task);
	if (whom >= WHOM_ALL)
		return 0;
	if (whom == WHOM_THREADS)
		key = visible_id(task) | THREAD_KEY;
	else if (task->signal->live.counter)
		return 0;
	else
		key = visible_process(task);
	bpf_map_delete_elem(&targets, &key);
	return 0;
}

/* --- threads that already wait, and threads that still wait ---------------- */

INLINE int seed_thread(struct task_struct *task, int sleepable)
{
	struct control *c = control_now();
	struct thread_state *t;
	u32 state, kind;

	if (!c || !task)
		return 0;
	t = thread_clock(task);
	if (!t || t->since_ns || task->exit_state)
		return 0;
	state = task_state(task);
	t->flags |= FLAG_OPEN_LEFT;
	t->runtime_ns = task->se.sum_exec_runtime;
	kind = kind_of(state);
	if (task->on_cpu)
		kind = KIND_ON;
	else if (kind == KIND_PREEMPTED)
		kind = KIND_RUNNABLE;
	enter_site(t, task, kind, 0);
	open_interval(t, kind, bpf_ktime_get_ns());
	if (sleepable && !stacks_later && !task->on_cpu)
		keep_stack(t, task, c, t->since_ns, 1);
	return 0;
}

SEC("iter/task")
int seed(struct bpf_iter__task *ctx)
{
	return seed_thread(ctx->task, 0);
}

SEC("iter.s/task")
int seed_copying(struct bpf_iter__task *ctx)
{
	return seed_thread(ctx->task, 1);
}

/* A few bytes a thread end the reader's read() after some: it empties the ring. */
INLINE int flush_and_mark(struct bpf_iter__task *ctx, int sleepable)
{
	/* Both read at once: no sums of the context pointer, which the verifier refuses. */
	struct task_struct *task = ctx->task;
	struct seq_file *seq = ctx->meta->seq;
	u64 mark = 0;

	if (!task)
		return 0;
	bpf_seq_write(seq, &mark, sizeof(mark));
	return flush_thread(task, sleepable, 0);
}

SEC("iter/task")
int flush(struct bpf_iter__task *ctx)
{
	return flush_and_mark(ctx, 0);
}

SEC("iter.s/task")
int flush_copying(struct bpf_iter__task *ctx)
{
	return flush_and_mark(ctx, 1);
}

char _license[] SEC("license") = "Dual BSD/GPL";
