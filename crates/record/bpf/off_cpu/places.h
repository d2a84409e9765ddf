/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* Where a thread is in its user code: its registers and their fingerprint. */
#ifndef TALLY_OFF_CPU_PLACES_H
#define TALLY_OFF_CPU_PLACES_H

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
INLINE void enter_site(struct thread_state *t, struct task_struct *task, u32 kind, struct cpu_facts *facts,
		       struct control *c)
{
	struct site_sums *site = &t->sites[0];
	struct place place = {};
	u64 print;

	t->has_place = has_task_pt_regs && kind != KIND_IDLE && kind != KIND_ON;
	if (few_stacks && kind == KIND_PREEMPTED)
		t->has_place = 0;
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
	if (!is_seldom(site->entry != (print ^ c->splits)))
		return;
	if (find_site(t, site, print, place.sp, c->splits))
		return;
	site->kind = kind;
	site->arg = place.arg;
	site->stack_print = stack_print_of(&place, kind);
	if (site->stack_print)
		site->stack_print ^= site->words & ~1ULL;
	site->syscall = place.syscall;
	/* It has no stack. */
	if (kind == KIND_RUNNABLE)
		site->unsampled = ~0U;
}

#endif
