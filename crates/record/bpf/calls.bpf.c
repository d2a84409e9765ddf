/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Entries and exits of chosen functions of any program, by uprobes.
 *
 * on_enter sits on first instructions. Exits are seen either by on_return (a
 * return probe: the kernel swaps the return address on the stack, which must
 * not meet an unwinder or a second stack) or by on_leave, which sits on the
 * return instructions themselves and touches nothing of the program.
 *
 * A call is known by the place of its return address on the stack. A place
 * below the present one belongs to a call that was left without returning.
 */
#include "kernel.h"
#include "calls_shared.h"

struct request { unsigned int __data_len; } CORE;

struct bpf_pidns_info { u32 pid; u32 tgid; };

static u64 (*bpf_get_attach_cookie)(void *ctx) = (void *)174;
static long (*bpf_get_ns_current_pid_tgid)(u64 dev, u64 ino, struct bpf_pidns_info *info, u32 size) = (void *)120;

struct frame {
	u64 sp;
	u64 start_ns;
	u64 inner_ns;
	u32 function;
	u16 inside; /* the same function is open around it */
	u16 jumps; /* COOKIE_TAIL */
};

struct thread_calls {
	u32 depth;
	u32 shown; /* MODE_SLOW: the entries of so many outer calls were handed out */
	struct call_event last; /* MODE_TOTALS, MODE_SLOW: to skip doubles */
	struct frame frames[FRAMES];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_calls);
} call_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} call_ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, u32);
} call_targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct call_totals);
} call_sums SEC(".maps");

/* Entries by function, for the watch over rates. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} call_rates SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct call_control);
} call_controls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNT_SLOTS);
	__type(key, u32);
	__type(value, u64);
} call_counts SEC(".maps");

char LICENSE[] SEC("license") = "Dual MIT/GPL";

INLINE void count(u32 which)
{
	u64 *slot = bpf_map_lookup_elem(&call_counts, &which);

	if (slot)
		(*slot)++;
}

INLINE struct call_control *control(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&call_controls, &zero);
}

/* Whose event this is; 0 = not one of ours. */
INLINE int who(struct call_control *c, struct call_event *e)
{
	struct bpf_pidns_info info = {};

	if (bpf_get_ns_current_pid_tgid(c->ns_dev, c->ns_ino, &info, sizeof(info)))
		return 0;
	e->tid = info.pid;
	e->tgid = info.tgid;
	return c->any || bpf_map_lookup_elem(&call_targets, &e->tgid);
}

INLINE void put(struct call_event *e)
{
	if (bpf_ringbuf_output(&call_ring, e, sizeof(*e), BPF_RB_NO_WAKEUP))
		count(COUNT_LOST);
}

INLINE u64 stack_pointer(void *ctx)
{
	struct pt_regs___x86 *x86 = ctx;
	struct pt_regs___arm64 *arm = ctx;

	u64 sp = 0;

	/* Not read directly: the verifier wants offsets into the context to be constants in the instruction. */
	if (field_exists(x86->orig_ax))
		bpf_probe_read_kernel(&sp, sizeof(sp), &x86->sp);
	else
		bpf_probe_read_kernel(&sp, sizeof(sp), &arm->sp);
	return sp;
}

/*
 * Whether a conditional jump will be taken. Without branches.
 * Source: Intel SDM volume 1, appendix B (condition codes of Jcc).
 */
INLINE int is_taken(void *ctx, u64 cookie)
{
	struct pt_regs___x86 *x86 = ctx;
	u64 number = (cookie >> COOKIE_CONDITION_SHIFT) & 15;
	u64 flags = 0;

	if (field_exists(x86->orig_ax))
		bpf_probe_read_kernel(&flags, sizeof(flags), &x86->flags);
	u64 c = flags & 1, p = (flags >> 2) & 1, z = (flags >> 6) & 1, s = (flags >> 7) & 1, o = (flags >> 11) & 1;
	u64 holds = o | c << 1 | z << 2 | (c | z) << 3 | s << 4 | p << 5 | (s ^ o) << 6 | (z | (s ^ o)) << 7;

	return ((holds >> (number >> 1)) ^ number) & 1;
}

/* Without branches: each would double what the verifier has to walk through. */
INLINE u64 bucket_of(u64 ns)
{
	u64 n = ns | 15;
	u64 power;

	n |= n >> 1;
	n |= n >> 2;
	n |= n >> 4;
	n |= n >> 8;
	n |= n >> 16;
	n |= n >> 32;
	n -= (n >> 1) & 0x5555555555555555ULL;
	n = (n & 0x3333333333333333ULL) + ((n >> 2) & 0x3333333333333333ULL);
	n = (n + (n >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	/* The highest bit set, at least 3; below 16 ns nothing is shifted away. */
	power = ((n * 0x0101010101010101ULL) >> 56) - 1;
	return ((power - 3) << 4) + ((ns >> ((power - 4 + ((ns - 16) >> 63)) & 63)) & 15);
}

/* The mask tells the verifier what the callers know: i < FRAMES. */
INLINE struct frame *frame_at(struct thread_calls *t, u64 i)
{
	barrier_var(i);
	i &= FRAMES - 1;
	barrier_var(i);
	return &t->frames[i & (FRAMES - 1)];
}

/* Whether the same function is open further down: then its time is counted there. */
INLINE int is_open(struct thread_calls *t, u32 function)
{
	for (u32 i = 0; i < FRAMES; i++) {
		if (i >= t->depth)
			return 0;
		if (frame_at(t, i)->function == function)
			return 1;
	}
	return 0;
}

/* Hands out the entries of calls that by now are slow. Those around a slow call are as slow. */
INLINE void show_slow(struct thread_calls *t, struct call_control *c, struct call_event *e)
{
	struct call_event enter = *e;

	enter.kind = CALL_ENTER;
	for (u32 i = t->shown; i < FRAMES; i++) {
		struct frame *f = frame_at(t, i);

		if (i >= t->depth || e->time_ns - f->start_ns < c->min_ns)
			break;
		enter.time_ns = f->start_ns;
		enter.sp = f->sp;
		enter.function = f->function;
		put(&enter);
		t->shown = i + 1;
	}
}

INLINE void add_up(struct frame *f, u64 ns, u32 kind)
{
	u32 function = f->function;
	struct call_totals *sum = bpf_map_lookup_elem(&call_sums, &function);
	u64 bucket = bucket_of(ns);

	if (!sum)
		return;
	__sync_fetch_and_add(&sum->count, 1);
	__sync_fetch_and_add(&sum->finished_ns, ns);
	__sync_fetch_and_add(&sum->self_ns, ns > f->inner_ns ? ns - f->inner_ns : 0);
	if (kind == CALL_UNWOUND)
		__sync_fetch_and_add(&sum->unwound, 1);
	if (!f->inside)
		__sync_fetch_and_add(&sum->total_ns, ns);
	if (sum->min_ns == 0 || ns + 1 < sum->min_ns)
		sum->min_ns = ns + 1;
	if (ns > sum->max_ns)
		sum->max_ns = ns;
	barrier_var(bucket);
	if (bucket < BUCKETS)
		__sync_fetch_and_add(&sum->buckets[bucket], 1);
}

/* The call at the top of the stack ended. */
INLINE void finish(struct thread_calls *t, struct call_control *c, struct call_event *e, u32 kind)
{
	u32 at = t->depth - 1;
	struct frame *f = frame_at(t, at);
	u64 ns = e->time_ns - f->start_ns;

	t->depth = at;
	if (at > 0)
		frame_at(t, at - 1)->inner_ns += ns;
	if (c->mode == MODE_TOTALS) {
		add_up(f, ns, kind);
	} else if (at < t->shown) {
		struct call_event end = *e;

		end.kind = kind;
		end.sp = f->sp;
		end.function = f->function;
		put(&end);
		t->shown = at;
	}
}

/* Most calls ended at once by a longjmp or an exception; more wait for the next event. */
#define MOST_AT_ONCE 32

/* Ends the calls that lie below a place on the stack: they were left without returning. */
INLINE void leave_below(struct thread_calls *t, struct call_control *c, struct call_event *e)
{
	for (u32 i = 0; i < MOST_AT_ONCE; i++) {
		if (t->depth == 0 || frame_at(t, t->depth - 1)->sp >= e->sp)
			break;
		finish(t, c, e, CALL_UNWOUND);
	}
}

/* The same moment seen through the old and the new link, while links are exchanged. */
INLINE int is_double(struct thread_calls *t, struct call_event *e)
{
	int same = t->last.function == e->function && t->last.sp == e->sp &&
		   (t->last.kind & 0xff) == (e->kind & 0xff) && t->last.kind != e->kind;

	t->last = *e;
	return same;
}

INLINE void enter_tracked(struct call_control *c, struct call_event *e, u64 cookie)
{
	struct thread_calls *t = bpf_task_storage_get(&call_threads, bpf_get_current_task_btf(), 0,
						      BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct frame *f;

	if (!t) {
		count(COUNT_NO_STORAGE);
		return;
	}
	if (is_double(t, e))
		return;
	if (t->depth > 0 && (cookie & COOKIE_LOOPS)) {
		f = frame_at(t, t->depth - 1);
		if (f->sp == e->sp && f->function == e->function)
			return;
	}
	if (t->depth > 0 && frame_at(t, t->depth - 1)->sp <= e->sp) {
		if (c->mode == MODE_SLOW)
			show_slow(t, c, e);
		leave_below(t, c, e);
		if (t->depth > 0 && frame_at(t, t->depth - 1)->sp == e->sp) {
			/* The same place: the one before jumped here at its end, or was left by longjmp. */
			finish(t, c, e, frame_at(t, t->depth - 1)->jumps ? CALL_EXIT : CALL_UNWOUND);
		}
	}
	if (t->depth >= FRAMES) {
		count(COUNT_TOO_DEEP);
		return;
	}
	f = frame_at(t, t->depth);
	f->inside = c->mode == MODE_TOTALS && is_open(t, e->function);
	f->sp = e->sp;
	f->jumps = cookie & COOKIE_TAIL;
	f->inner_ns = 0;
	f->function = e->function;
	if (t->shown > t->depth)
		t->shown = t->depth;
	t->depth++;
	f->start_ns = bpf_ktime_get_ns();
}

INLINE void exit_tracked(struct call_control *c, struct call_event *e)
{
	struct thread_calls *t = bpf_task_storage_get(&call_threads, bpf_get_current_task_btf(), 0, 0);
	struct frame *f;

	if (!t || is_double(t, e))
		return;
	if (c->mode == MODE_SLOW)
		show_slow(t, c, e);
	leave_below(t, c, e);
	if (t->depth > 0) {
		f = frame_at(t, t->depth - 1);
		if (f->sp == e->sp && f->function == e->function) {
			finish(t, c, e, CALL_EXIT);
			return;
		}
	}
	/* The jump of a switch, within the function; or the return of what a function jumped to at its end. */
	if (e->kind & (COOKIE_MAYBE << 7))
		return;
	count(COUNT_STRAY);
}

INLINE void seen(void *ctx, u32 kind, s64 above, int tracked)
{
	struct call_control *c = control();
	u64 cookie = bpf_get_attach_cookie(ctx);
	struct call_event e = { .kind = kind | ((cookie >> 1) & 7) << 8, .function = cookie >> COOKIE_SHIFT };

	if (kind == CALL_EXIT && (cookie & COOKIE_CONDITION) && !is_taken(ctx, cookie))
		return;
	if (!c || !who(c, &e))
		return;
	e.sp = stack_pointer(ctx) - above;
	e.time_ns = bpf_ktime_get_ns();
	if (kind == CALL_ENTER) {
		u32 function = e.function;
		u64 *rate = bpf_map_lookup_elem(&call_rates, &function);

		if (rate)
			__sync_fetch_and_add(rate, 1);
	}
	if (!tracked)
		put(&e);
	else if (kind == CALL_ENTER)
		enter_tracked(c, &e, cookie);
	else
		exit_tracked(c, &e);
}

/* After the return the stack pointer is above the place of the return address. */
INLINE s64 popped(void)
{
	struct pt_regs___x86 *x86 = 0;

	return field_exists(x86->orig_ax) ? 8 : 0;
}

/* Two of each: the verifier walks long through what MODE_EVENTS does not need. */
SEC("uprobe")
int on_enter(void *ctx)
{
	seen(ctx, CALL_ENTER, 0, 0);
	return 0;
}

SEC("uprobe")
int on_return(void *ctx)
{
	seen(ctx, CALL_EXIT, popped(), 0);
	return 0;
}

SEC("uprobe")
int on_leave(void *ctx)
{
	seen(ctx, CALL_EXIT, 0, 0);
	return 0;
}

SEC("uprobe")
int on_enter_track(void *ctx)
{
	seen(ctx, CALL_ENTER, 0, 1);
	return 0;
}

SEC("uprobe")
int on_return_track(void *ctx)
{
	seen(ctx, CALL_EXIT, popped(), 1);
	return 0;
}

SEC("uprobe")
int on_leave_track(void *ctx)
{
	seen(ctx, CALL_EXIT, 0, 1);
	return 0;
}

INLINE int begin(struct call_event *e, u32 kind)
{
	struct call_control *c = control();

	if (!c || !who(c, e))
		return 0;
	e->kind = kind;
	e->time_ns = bpf_ktime_get_ns();
	return 1;
}

/* Kernel functions: loaded for kprobe_multi, or once for each function as fentry and fexit. */
INLINE void kernel_seen(void *ctx, u32 kind)
{
	struct call_event e = {};

	if (!begin(&e, kind))
		return;
	e.function = bpf_get_attach_cookie(ctx);
	put(&e);
}

SEC("kprobe")
int on_kernel_enter(void *ctx)
{
	kernel_seen(ctx, CALL_KERNEL);
	return 0;
}

SEC("kprobe")
int on_kernel_leave(void *ctx)
{
	kernel_seen(ctx, CALL_KERNEL_END);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int call_fork(u64 *ctx)
{
	struct task_struct *child = (void *)ctx[1];
	struct call_event e = {};
	u32 level = 0;
	u32 one = 1;

	if (!begin(&e, CALL_FORK) || child->tgid != child->pid)
		return 0;
	struct pid *pid = child->thread_pid;
	/* The child's number in tally's namespace, as far as the parent's tells: the innermost level both share. */
	struct task_struct *me = bpf_get_current_task_btf();
	struct pid *own = me->group_leader->thread_pid;

	e.function = child->tgid;
	level = own->level;
	if (level > 0 && level < 32) {
		struct upid up;

		for (u32 i = 0; i < 32; i++) {
			if (i > level)
				break;
			bpf_probe_read_kernel(&up, sizeof(up), &own->numbers[i]);
			if ((u32)up.nr != e.tgid)
				continue;
			bpf_probe_read_kernel(&up, sizeof(up), &pid->numbers[i]);
			e.function = up.nr;
		}
	}
	bpf_map_update_elem(&call_targets, &e.function, &one, BPF_ANY);
	put(&e);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int call_exec(u64 *ctx)
{
	struct call_event e = {};

	if (begin(&e, CALL_EXEC))
		put(&e);
	return 0;
}

SEC("tp_btf/sys_enter")
int call_sys_enter(u64 *ctx)
{
	struct call_event e = {};

	if (!begin(&e, CALL_SYSTEM))
		return 0;
	e.function = ctx[1];
	put(&e);
	return 0;
}

SEC("tp_btf/sys_exit")
int call_sys_exit(u64 *ctx)
{
	struct call_event e = {};

	if (!begin(&e, CALL_SYSTEM_END))
		return 0;
	e.sp = ctx[1];
	put(&e);
	return 0;
}

SEC("tp_btf/page_fault_user")
int call_fault(u64 *ctx)
{
	struct call_event e = {};

	if (!begin(&e, CALL_FAULT))
		return 0;
	e.sp = ctx[0];
	put(&e);
	return 0;
}

/* Current is the one that leaves; who arrives asks for itself by its storage. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct call_event);
} call_away SEC(".maps");

SEC("tp_btf/sched_switch")
int call_switch(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	struct call_event e = {};
	struct call_event *away;

	if (begin(&e, CALL_OFF)) {
		away = bpf_task_storage_get(&call_away, prev, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (away)
			*away = e;
	}
	away = bpf_task_storage_get(&call_away, next, 0, 0);
	if (away && away->time_ns) {
		u64 now = bpf_ktime_get_ns();

		e = *away;
		e.sp = now - away->time_ns;
		e.time_ns = now;
		away->time_ns = 0;
		put(&e);
	}
	return 0;
}

SEC("tp_btf/block_rq_issue")
int call_block(u64 *ctx)
{
	struct request *request = (void *)ctx[0];
	struct call_event e = {};

	if (!begin(&e, CALL_BLOCK))
		return 0;
	e.function = request->__data_len;
	put(&e);
	return 0;
}
