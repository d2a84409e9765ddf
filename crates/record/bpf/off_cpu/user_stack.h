/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* Copies of user stacks, and the slots they are kept in. */
#ifndef TALLY_OFF_CPU_USER_STACK_H
#define TALLY_OFF_CPU_USER_STACK_H

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

/* A page could not be read: the bytes before it were copied. */
#define COPY_CUT (1U << 31)

/* Copies page by page; a page that fails ends the copy, not spoils it. Answers the bytes copied, and COPY_CUT. */
INLINE u32 copy_pages(u8 *to, u64 sp, u64 want, struct task_struct *task, int how)
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
		if (err)
			return done | COPY_CUT;
		done += step;
	}
	return done;
}

/* Of the current task, pages at hand only. */
SELDOM_APART u32 copy_present_pages(struct off_record *rec, u64 sp, u64 want)
{
	return rec ? copy_pages(rec->stack, sp, want, 0, READ_NOW) : 0;
}

/* Answers the bytes copied; where a page could not be read, its address is the end. */
INLINE u32 copy_stack(struct off_record *rec, u64 sp, u64 want, struct task_struct *task, int how, u64 *end)
{
	u32 copied = how == READ_NOW ? copy_present_pages(rec, sp, want)
				     : copy_pages(rec->stack, sp, want, task, how);

	if (end && copied & COPY_CUT)
		*end = sp + (copied & ~COPY_CUT);
	return copied & ~COPY_CUT;
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

	return site && (site->count >= site->unsampled || site->wait_ns + likely + ahead_ns(site, period) >= period || site->runnable_ns + likely >= period);
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
	t->copy_bytes = copy_stack(slot, place.sp, want, task, sleepable ? READ_OF_TASK : READ_NOW, &t->stack_end);
	t->copy_ns = now;
	t->copy_print = place.print;
	count(COUNT_COPIES);
}

#endif
