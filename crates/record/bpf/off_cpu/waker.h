/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* The stacks of who ends a wait. */
#ifndef TALLY_OFF_CPU_WAKER_H
#define TALLY_OFF_CPU_WAKER_H

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
		rec->stack_bytes = copy_stack(rec, place.sp, want, me, READ_NOW, 0);
	}
	if (send_record(rec))
		count(COUNT_LOST_WAKERS);
	else
		count(COUNT_WAKERS);
	return 0;
}

#endif
