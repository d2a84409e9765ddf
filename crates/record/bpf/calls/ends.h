/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* Calls that end: by their return, or left without one. */
#ifndef TALLY_CALLS_ENDS_H
#define TALLY_CALLS_ENDS_H

/* The innermost frame of a stack is free again. */
INLINE void drop_frame(struct thread_calls *t, u32 stack)
{
	struct stack *s = stack_at(t, stack);
	u32 top = s->top;
	struct frame *f = frame_at(t, top - 1);

	t->written -= (f->state & FRAME_WRITTEN) != 0;
	t->only -= (f->rules & COOKIE_RULES(COOKIE_ONLY)) != 0;
	t->muted -= (f->rules & COOKIE_RULES(COOKIE_NOT)) != 0;
	s->top = f->around;
	s->depth--;
	if (f->around)
		frame_at(t, f->around - 1)->inner = 0;
	else
		s->first = 0;
	give_back(t, f, top);
	if (!s->top && s->paged)
		call_page_in(t, stack);
}

/* Forgets the innermost call of a stack; 0 if there is none. */
APART int call_forget_one(struct thread_calls *t, u32 stack)
{
	if (!t || !stack_at(t, stack)->top)
		return 0;
	drop_frame(t, stack);
	return 1;
}

/*
 * Of what is done with each of a stack's calls, some at a time: the verifier walks through every round of a loop, but
 * only once through a function that is called in it.
 */
#define ROUNDS 256

APART int call_forget_some(struct thread_calls *t, u32 stack)
{
	for (u32 i = 0; i < FRAMES; i++)
		if (!call_forget_one(t, stack))
			return 0;
	return 1;
}

/* Forgets all calls of a stack. */
APART int call_forget_stack(struct thread_calls *t, u32 stack)
{
	for (u32 i = 0; i < ROUNDS; i++)
		if (!call_forget_some(t, stack))
			break;
	return 0;
}

/* The innermost call of a stack ended. */
APART int call_finish(struct thread_calls *t, struct call_event *e, u32 stack, u32 kind)
{
	struct call_control *c = control();
	struct frame *f, *outer;
	struct stack *s;
	u64 ns;

	if (!t || !e || !c)
		return 0;
	s = stack_at(t, stack);
	f = frame_at(t, s->top - 1);
	ns = e->time_ns - f->start_ns;
	if (c->mode == MODE_TOTALS && is_kept(f, c, ns)) {
		add_up(f, ns, kind);
		drop_frame(t, stack);
		outer = frame_at(t, (s->top ? s->top : s->from) - 1);
		if (s->top || (s->from && outer->start_ns == s->from_start_ns)) {
			outer->inner_ns += ns;
			outer->state |= FRAME_KEPT;
		}
		return 0;
	}
	if (c->mode == MODE_SLOW && s->shown == s->top) {
		struct call_event end = { .kind = kind };

		end.time_ns = e->time_ns;
		end.tid = e->tid;
		end.tgid = e->tgid;
		end.sp = f->sp;
		end.function = f->function;
		put(&end);
		s->shown = !f->around && s->paged ? SHOWN_PAGED : f->around;
	}
	drop_frame(t, stack);
	return 0;
}

APART int call_leave_some(struct thread_calls *t, struct call_event *e, u32 stack)
{
	if (!t || !e)
		return 0;
	for (u32 i = 0; i < FRAMES; i++) {
		struct stack *s = stack_at(t, stack);

		if (!s->top || frame_at(t, s->top - 1)->sp >= e->sp)
			return 0;
		call_finish(t, e, stack, CALL_UNWOUND);
	}
	return 1;
}

/* Ends the calls that lie below a place on their stack: they were left without returning. */
APART int call_leave_below(struct thread_calls *t, struct call_event *e, u32 stack)
{
	for (u32 i = 0; i < ROUNDS; i++)
		if (!call_leave_some(t, e, stack))
			break;
	return 0;
}

#endif
