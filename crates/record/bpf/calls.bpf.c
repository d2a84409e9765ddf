/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Entries and exits of chosen functions of any program, by uprobes.
 *
 * on_enter sits on first instructions. Exits are seen either by on_return (a
 * return probe: the kernel swaps the return address on the stack, which must
 * not meet an unwinder or a second stack) or by on_leave, which sits on the
 * return instructions themselves and touches nothing of the program.
 * on_session sees both ends of a call: then calls of others get no return
 * probe. on_count sits on first instructions only.
 *
 * A call is known by the place of its return address on the stack. A place
 * below the present one belongs to a call that was left without returning.
 *
 * The programs are here, their parts in calls/: what is known of a thread
 * (state.h, maps.h), of an event (event.h), where a call belongs (stacks.h,
 * frames.h, pages.h), and what its entry and exit do (begins.h, ends.h,
 * tracked.h).
 */
#include "kernel.h"
#include "calls_shared.h"

#include "calls/state.h"
#include "calls/maps.h"
#include "calls/event.h"
#include "calls/stacks.h"
#include "calls/frames.h"
#include "calls/pages.h"
#include "calls/ends.h"
#include "calls/begins.h"
#include "calls/tracked.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

INLINE void count_entry(u32 function)
{
	u64 *rate = bpf_map_lookup_elem(&call_rates, &function);

	if (rate)
		__sync_fetch_and_add(rate, 1);
}

/*
 * A goroutine's struct g is in a register of its own wherever Go's functions are entered and left, and begins with its
 * stack's bounds. What runs on another stack (a signal's) stays the thread's.
 * Source: go src/cmd/compile/abi-internal.md ("Special-purpose registers": R14, R28); src/runtime/runtime2.go, struct g.
 */
INLINE void by_goroutine(void *ctx, struct call_event *e)
{
	struct pt_regs___x86 *x86 = ctx;
	struct pt_regs___arm64 *arm = ctx;
	u64 bounds[2] = {};
	u64 g = 0;

	if (field_exists(x86->orig_ax))
		bpf_probe_read_kernel(&g, sizeof(g), &x86->r14);
	else
		bpf_probe_read_kernel(&g, sizeof(g), &arm->regs[28]);
	if (bpf_probe_read_user(bounds, sizeof(bounds), (void *)g) || e->sp < bounds[0] || e->sp >= bounds[1])
		return;
	e->sp += GOROUTINE_STACK - bounds[1];
	e->tid = GOROUTINE | (u32)(g >> 5);
}

/* Whether it is one of ours. */
INLINE int seen(void *ctx, u32 kind, s64 above, int tracked)
{
	struct call_control *c = control();
	u64 cookie = bpf_get_attach_cookie(ctx);
	struct call_event e = { .kind = kind | ((cookie >> 1) & 7) << 8, .function = cookie >> COOKIE_SHIFT };

	if (kind == CALL_EXIT && (cookie & COOKIE_CONDITION) && !is_taken(ctx, cookie))
		return 0;
	if (!c || !who(c, &e))
		return 0;
	e.sp = stack_pointer(ctx) - above;
	if (!tracked && (cookie & COOKIE_GOROUTINE))
		by_goroutine(ctx, &e);
	e.time_ns = bpf_ktime_get_ns();
	if (kind == CALL_ENTER)
		count_entry(e.function);
	if (!tracked)
		put(&e);
	else if (kind == CALL_ENTER)
		enter_tracked(c, &e, cookie);
	else
		exit_tracked(c, &e);
	return 1;
}

/* After the return the stack pointer is above the place of the return address. */
INLINE s64 popped(void)
{
	struct pt_regs___x86 *x86 = 0;

	return field_exists(x86->orig_ax) ? 8 : 0;
}

/* Two of each: most of the code is of no use in MODE_EVENTS. */
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

/* Not 0 at an entry: no return probe for this call. */
INLINE int session(void *ctx, int tracked)
{
	if (bpf_session_is_return(ctx) & 1) {
		seen(ctx, CALL_EXIT, popped(), tracked);
		return 0;
	}
	return !seen(ctx, CALL_ENTER, 0, tracked);
}

SEC("uprobe")
int on_session(void *ctx)
{
	return session(ctx, 0);
}

SEC("uprobe")
int on_session_track(void *ctx)
{
	return session(ctx, 1);
}

/* While links are exchanged, of the two that see an entry one counts it. */
SEC("uprobe")
int on_count(void *ctx)
{
	struct call_control *c = control();
	u64 cookie = bpf_get_attach_cookie(ctx);
	struct call_event e = {};

	if (c && ((cookie >> 1) & 1) == c->generation && who(c, &e))
		count_entry(cookie >> COOKIE_SHIFT);
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

	if (begin(&e, CALL_EXEC)) {
		close_all(&e);
		put(&e);
	}
	return 0;
}

SEC("tp_btf/sched_process_exit")
int call_exit(u64 *ctx)
{
	struct call_control *c = control();
	struct call_event e = {};

	if (!c || !begin(&e, CALL_OPEN))
		return 0;
	/* In the other modes what has no end is open at the end of the recording. */
	if (c->mode == MODE_TOTALS)
		close_all(&e);
	else
		forget_pages();
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
