/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* Records of samples, filled and written to the ring. */
#ifndef TALLY_OFF_CPU_SAMPLE_H
#define TALLY_OFF_CPU_SAMPLE_H

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

/*
 * The last thread to have the CPU that this one waited for leaves it at this
 * switch. At the recording's end there is no switch.
 */
INLINE void fill_ran(struct off_record *rec, struct thread_state *t)
{
	struct task_struct *me = bpf_get_current_task_btf();

	rec->ran_comm[0] = 0;
	if (t->flags & FLAG_OPEN_RIGHT || (!rec->runnable_weight_ns && t->kind != KIND_PREEMPTED))
		return;
	rec->ran_tid = visible_id(me);
	rec->ran_tgid = visible_process(me);
	bpf_probe_read_kernel(rec->ran_comm, COMM_BYTES, me->comm);
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
		plan_sample(site);
	} else {
		rec->site.print = 0;
	}
	fill_ran(rec, t);
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
		rec->stack_bytes = copy_stack(rec, place.sp, want, task, READ_NOW, 0);
		if (rec->stack_bytes == want)
			return;
	}
	rec->stack_bytes = copy_stack(rec, place.sp, want, task, how, &t->stack_end);
}

#endif
