/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* When a sample is sent: at once, or at the return to user mode. Ends of threads. */
#ifndef TALLY_OFF_CPU_SEND_H
#define TALLY_OFF_CPU_SEND_H

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
	__builtin_memcpy(end->argument, t->argument, sizeof(end->argument));
	bpf_ringbuf_submit(end, BPF_RB_NO_WAKEUP);
	return 0;
}

#endif
