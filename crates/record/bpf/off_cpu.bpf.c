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
 * At very high rates of switches user space detaches on_waking for most of the
 * time: it costs as much as a switch. The scheduler's own count of the time that
 * a thread was queued then divides waits into blocked and runnable (find_wake);
 * places give their samples in the windows in between, where wakers are seen.
 *
 * Programs are tp_btf and iter only: kprobes and fentry can not be loaded
 * everywhere.
 *
 * The programs are here, their parts in off_cpu/: what a thread's state and
 * the maps are (state.h, maps.h, counts.h), who is followed (threads.h), how an
 * interval is weighed (lengths.h, weights.h, sites.h), where a thread is
 * (places.h, user_stack.h), how a sample is made and sent (sample.h, send.h,
 * waker.h), and where intervals begin and end (clock.h, interval.h, edges.h,
 * life.h).
 */
#include "kernel.h"
#include "shared.h"

#include "off_cpu/state.h"
#include "off_cpu/maps.h"
#include "off_cpu/counts.h"
#include "off_cpu/threads.h"
#include "off_cpu/lengths.h"
#include "off_cpu/weights.h"
#include "off_cpu/sites.h"
#include "off_cpu/places.h"
#include "off_cpu/user_stack.h"
#include "off_cpu/sample.h"
#include "off_cpu/send.h"
#include "off_cpu/clock.h"
#include "off_cpu/interval.h"
#include "off_cpu/edges.h"
#include "off_cpu/waker.h"
#include "off_cpu/life.h"

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
		is_long = switch_in(next, c, facts, now, later);
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
	t->wait_weight_ns = weigh(t, now - t->since_ns, period_of(t, c->period_ns), now);
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
	enter_site(t, task, KIND_RUNNABLE, 0, c);
	open_interval(t, KIND_RUNNABLE, bpf_ktime_get_ns());
	note_other(t, bpf_get_current_task_btf());
	return 0;
}


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
		if (t)
			note_argument(t, task);
		return 0;
	}
	t = bpf_task_storage_get(&threads, task, 0, 0);
	if (!t)
		return 0;
	end_life(t);
	note_argument(t, task);
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
