/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Threads that wait already when recording begins, and those that wait, run or
 * leave at its end.
 */
#ifndef TALLY_OFF_CPU_EDGES_H
#define TALLY_OFF_CPU_EDGES_H

/*
 * A thread that waits for a CPU at the recording's end, and whose wake-up no program saw: when it was queued. By the clock
 * of the CPU it ran on last: those of CPUs differ by less than a microsecond.
 */
INLINE void find_open_wake(struct thread_state *t, struct task_struct *task, u64 now)
{
	struct cpu_facts *facts;
	u32 cpu = t->cpu - 1;
	u64 woken, queued;

	if (t->wake_ns || t->kind < KIND_SLEEP || !field_exists(task->sched_info.last_queued))
		return;
	queued = task->sched_info.last_queued;
	facts = bpf_map_lookup_elem(&cpus, &cpu);
	if (!queued || !facts || !facts->compared_ns)
		return;
	woken = queued + facts->offset_ns - (task->sched_info.run_delay - t->run_delay_ns);
	if (woken < now)
		t->wake_ns = woken > t->since_ns ? woken : t->since_ns;
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
		switch_in_unseen(t, task->se.sum_exec_runtime, now);
	if (t->kind == KIND_ON) {
		t->total[KIND_ON] += now - t->since_ns;
	} else {
		if (t->kind == KIND_RUNNABLE)
			t->wake_ns = t->since_ns;
		find_open_wake(t, task, now);
		if (t->wake_ns > now)
			t->wake_ns = now;
		if (t->kind != KIND_RUNNABLE)
			wait_weight = t->weighed ? t->wait_weight_ns
				: weigh_apart(t, (t->wake_ns ? t->wake_ns : now) - t->since_ns, c->period_ns, now);
		if (t->wake_ns)
			runnable_weight = weigh_runnable_apart(t, now - t->wake_ns, c->period_ns);
		count_ended_apart(t, now);
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
	if (field_exists(task->sched_info.run_delay))
		t->run_delay_ns = task->sched_info.run_delay;
	kind = kind_of(state);
	if (task->on_cpu)
		kind = KIND_ON;
	else if (kind == KIND_PREEMPTED)
		kind = KIND_RUNNABLE;
	enter_site(t, task, kind, 0, c);
	open_interval(t, kind, bpf_ktime_get_ns());
	if (sleepable && !stacks_later && !task->on_cpu)
		keep_stack(t, task, c, t->since_ns, 1);
	return 0;
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

#endif
