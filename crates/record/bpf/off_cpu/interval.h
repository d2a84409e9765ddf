/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* One interval ends and the next begins: a switch seen from both its threads. */
#ifndef TALLY_OFF_CPU_INTERVAL_H
#define TALLY_OFF_CPU_INTERVAL_H

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
INLINE u64 period_of(struct thread_state *t, u64 period)
{
	return t->pending == PENDING_GOES ? ~0ULL : period;
}

/*
 * A switch-in that was never seen: a kernel may keep switches away from some
 * tasks from every tracer (seen on a hosted VM, in perf's own events too). The
 * scheduler's runtime says how long the thread has run since; what lies before
 * is off the CPU. It adds to the sums of its place and makes no sample itself.
 */
SELDOM_APART int switch_in_unseen(struct thread_state *t, u64 runtime_ns, u64 now)
{
	u64 ran, in, wait_end;

	if (!t)
		return 0;
	ran = runtime_ns - t->runtime_ns;
	if (ran > now - t->since_ns)
		ran = now - t->since_ns;
	in = now - ran;
	wait_end = t->wake_ns && t->wake_ns < in ? t->wake_ns : in;
	if (t->weighed) {
		wait_end = t->wake_ns;
		if (t->has_place)
			t->sites[0].unsampled = 0;
		else
			t->carry[t->kind & (KIND_COUNT - 1)] += t->wait_weight_ns;
	} else {
		weigh_apart(t, wait_end - t->since_ns, ~0ULL, now);
	}
	if (in > wait_end) {
		weigh_runnable_apart(t, in - wait_end, ~0ULL);
		count_woken_apart(t, in - wait_end);
	}
	if (t->kind == KIND_PREEMPTED)
		count_preempted_apart(t, wait_end - t->since_ns);
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
		switch_in_unseen(t, prev->se.sum_exec_runtime, now);
		now = not_before(now, t->since_ns);
	}
	if (t->since_ns)
		t->total[KIND_ON] += now - t->since_ns;
	t->runtime_ns = prev->se.sum_exec_runtime;
	if (field_exists(prev->sched_info.run_delay))
		t->run_delay_ns = prev->sched_info.run_delay;
	t->switches += 1;
	facts->switches += 1;
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
	enter_site(t, prev, kind, facts, c);
	/* Until it is open, wakers only note that they were early. */
	open_interval(t, kind, now);
	if (!later)
		keep_stack(t, prev, c, now, 0);
}

/*
 * No program saw the wake-up that ends this wait: it came too early, or on_waking is detached for now. Its time is the
 * scheduler's.
 */
INLINE void find_wake(struct thread_state *t, struct task_struct *task, struct cpu_facts *facts, u64 now)
{
	s64 waited = now - t->since_ns, queued = time_queued(t, task, facts, now);

	if (is_seldom(t->early_wake_ns))
		t->wake_ns = t->since_ns;
	else if (queued >= 0) {
		t->wake_ns = queued < waited ? now - queued : t->since_ns;
		facts->unwoken += 1;
	}
}

/* Answers 1 if it made a sample. */
INLINE int switch_in(struct task_struct *next, struct control *c, struct cpu_facts *facts, u64 now, int later)
{
	struct thread_state *t = thread_clock(next);
	u64 wait_weight, runnable_weight = 0, period;

	if (!t || t->done)
		return 0;
	if (is_seldom(t->cpu && t->cpu != bpf_get_smp_processor_id() + 1))
		t->migrations += 1;
	if (is_seldom(!t->since_ns || t->kind == KIND_ON)) {
		open_interval(t, KIND_ON, now);
		return 0;
	}
	period = period_of(t, c->period_ns);
	now = not_before(now, t->since_ns);
	if (!t->wake_ns && t->kind >= KIND_SLEEP) {
		find_wake(t, next, facts, now);
		period = period_of(t, c->unwoken_period_ns);
	}
	t->early_wake_ns = 0;
	if (t->kind == KIND_RUNNABLE)
		t->wake_ns = t->since_ns;
	if (t->wake_ns)
		now = not_before(now, t->wake_ns);
	/* Before the weights, which the verifier would follow through all of it one by one. */
	count_ended(t, now);
	t->last_wait_ns = now - t->since_ns;
	if (t->kind == KIND_RUNNABLE)
		wait_weight = 0;
	else if (t->weighed)
		wait_weight = t->wait_weight_ns;
	else
		wait_weight = weigh(t, (t->wake_ns ? t->wake_ns : now) - t->since_ns, period, now);
	if (t->wake_ns)
		runnable_weight = weigh_runnable(t, now - t->wake_ns, period);
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

#endif
