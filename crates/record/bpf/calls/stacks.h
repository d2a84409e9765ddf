/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* On which stack of a thread a place is, and which of its open calls are shown. */
#ifndef TALLY_CALLS_STACKS_H
#define TALLY_CALLS_STACKS_H

/* The masks tell the verifier what the callers know: i < FRAMES, i < STACKS. */
INLINE struct frame *frame_at(struct thread_calls *t, u64 i)
{
	barrier_var(i);
	i &= FRAMES - 1;
	barrier_var(i);
	return &t->frames[i & (FRAMES - 1)];
}

INLINE struct stack *stack_at(struct thread_calls *t, u64 i)
{
	barrier_var(i);
	i &= STACKS - 1;
	barrier_var(i);
	return &t->stacks[i & (STACKS - 1)];
}

/*
 * Not static: the verifier looks at each of these once, instead of at every way through all their callers. Pointers
 * to them are to be checked.
 */
#define APART __attribute__((noinline))

INLINE u32 own_tid(void)
{
	return (u32)bpf_get_current_pid_tgid();
}

/* Whether the same function is open: then its time is counted there. */
APART int call_is_open(struct thread_calls *t, u32 function)
{
	struct paged_key key = { .function = function };

	if (!t)
		return 0;
	for (u32 i = 0; i < FRAMES; i++) {
		struct frame *f = frame_at(t, i);

		if (i >= t->used || !t->open[function & (KINDS - 1)])
			break;
		if (f->function == function && (f->state & FRAME_USED))
			return 1;
	}
	if (!t->has_paged)
		return 0;
	key.tid = own_tid();
	return bpf_map_lookup_elem(&call_paged, &key) != 0;
}

/* How far a place is from a stack: 0 between its outermost and innermost call; FAR if nothing is open there. */
#define FAR (1ULL << 55)

/* The smaller of two, both below 2^63. Without branches, for each would double what the verifier has to walk through. */
INLINE u64 smaller(u64 a, u64 b)
{
	u64 is_less = (a - b) >> 63;

	barrier_var(is_less);
	return b ^ ((a ^ b) & (0 - is_less));
}

APART u64 call_distance(struct thread_calls *t, u64 sp, u32 stack)
{
	struct stack *s;
	u64 top_sp;

	if (!t)
		return FAR;
	s = stack_at(t, stack);
	if (!s->top)
		return FAR;
	top_sp = frame_at(t, s->top - 1)->sp;
	if (sp < top_sp)
		return top_sp - sp;
	return sp > s->root ? sp - s->root : 0;
}

/* The stack that a place lies on, or that is nearest: no further than `distance`. STACKS if there is none. */
APART int call_find_stack(struct thread_calls *t, u64 sp, u64 distance)
{
	/* Distance and number in one. */
	u64 best = distance * STACKS * 2 + STACKS;

	if (!t)
		return STACKS;
	for (u32 i = 0; i < STACKS; i++) {
		if (i >= t->stacks_used)
			break;
		best = smaller(call_distance(t, sp, i) * STACKS * 2 + i, best);
	}
	return best & (STACKS * 2 - 1);
}

/* Hands out the entry of an open call; `e` is of its thread. */
INLINE void put_entry(struct call_event *e, struct frame *f)
{
	struct call_event enter = { .kind = CALL_ENTER };

	enter.tid = e->tid;
	enter.tgid = e->tgid;
	enter.time_ns = f->start_ns;
	enter.sp = f->sp;
	enter.function = f->function;
	put(&enter);
}

/* Hands out the entry of the outermost call not shown yet, if by now it is slow; 0 if it is not. */
APART int call_show_one(struct thread_calls *t, struct call_event *e, u32 stack)
{
	struct call_control *c = control();
	struct stack *s;
	struct frame *f;
	u32 next;

	if (!t || !e || !c)
		return 0;
	s = stack_at(t, stack);
	next = s->shown && s->shown != SHOWN_PAGED ? frame_at(t, s->shown - 1)->inner : s->first;
	f = frame_at(t, next - 1);
	if (!next || e->time_ns - f->start_ns < c->min_ns)
		return 0;
	put_entry(e, f);
	s->shown = next;
	return 1;
}

/* Those around a slow call are as slow. */
APART int call_show_slow(struct thread_calls *t, struct call_event *e, u32 stack)
{
	for (u32 i = 0; i < FRAMES; i++)
		if (!call_show_one(t, e, stack))
			break;
	return 0;
}

#endif
