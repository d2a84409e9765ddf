/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* Calls that begin: filters, and room for a frame. */
#ifndef TALLY_CALLS_BEGINS_H
#define TALLY_CALLS_BEGINS_H

/* The same moment seen through the old and the new link, while links are exchanged. */
INLINE int is_double(struct thread_calls *t, struct call_event *e)
{
	int same = t->last.function == e->function && t->last.sp == e->sp &&
		   (t->last.kind & 0xff) == (e->kind & 0xff) && t->last.kind != e->kind;

	t->last = *e;
	return same;
}

/* A place in the table for a stack on which a call begins; of the one that had it, the open calls are forgotten. */
APART int call_begin_stack(struct thread_calls *t)
{
	struct stack *from, *s;
	u32 at = STACKS;

	if (!t)
		return 0;
	from = stack_at(t, t->current);
	for (u32 i = 0; i < STACKS; i++) {
		if (i >= t->stacks_used || !stack_at(t, i)->top) {
			at = i;
			break;
		}
	}
	if (at >= STACKS) {
		at = t->next_dropped++ & (STACKS - 1);
		count(COUNT_STACKS);
		call_forget_stack(t, at);
	}
	if (at >= t->stacks_used)
		t->stacks_used = at + 1;
	s = stack_at(t, at);
	s->from = from->top;
	s->from_start_ns = from->top ? frame_at(t, from->top - 1)->start_ns : 0;
	s->shown = 0;
	t->current = at;
	return at;
}

/* What the filters say of a call that begins. */
INLINE u32 filter(struct thread_calls *t, struct call_control *c, u64 cookie)
{
	if (!t->begun) {
		t->begun = 1;
		t->stopped = c->starts_off != 0;
	}
	if (cookie & COOKIE_START)
		t->stopped = 0;
	if (cookie & COOKIE_STOP)
		t->stopped = 1;
	t->muted += (cookie & COOKIE_NOT) != 0;
	t->only += (cookie & COOKIE_ONLY) != 0;
	if (t->stopped || t->muted || (c->any_only && !t->only) || (c->depth && t->written >= c->depth))
		return 0;
	t->written++;
	return FRAME_WRITTEN;
}

/* All that is open now around a function whose callers are asked for leads to it. */
APART int call_mark_callers(struct thread_calls *t, u32 stack)
{
	struct stack *s;
	u32 at;

	if (!t)
		return 0;
	s = stack_at(t, stack);
	at = s->top;
	for (u32 i = 0; i < FRAMES; i++) {
		struct frame *f = frame_at(t, at - 1);

		if (!at || (f->state & FRAME_LEADS))
			break;
		f->state |= FRAME_LEADS;
		at = f->around;
	}
	if (!at)
		s->leading = s->paged;
	return 0;
}

/* A frame for a call that begins on a stack; 0: there is none left. */
INLINE u32 take_frame(struct thread_calls *t, u32 stack, struct call_event *e)
{
	struct stack *s = stack_at(t, stack);
	u32 number = free_frame(t);

	if (!number) {
		call_page_out(t, e);
		number = free_frame(t);
	}
	if (!number)
		return 0;
	if (s->top) {
		frame_at(t, s->top - 1)->inner = number;
	} else {
		s->root = e->sp;
		s->first = number;
	}
	frame_at(t, number - 1)->around = s->top;
	s->top = number;
	s->depth++;
	return number;
}

/* The stack of a call that begins, what lies below or at its place being over; STACKS if the call is no new one. */
INLINE u32 make_room(struct thread_calls *t, struct call_control *c, struct call_event *e, u64 cookie)
{
	u32 at = call_find_stack(t, e->sp, STACK_STEP);
	struct stack *s;
	struct frame *f;

	if (at >= STACKS)
		return call_begin_stack(t);
	t->current = at;
	s = stack_at(t, at);
	f = frame_at(t, s->top - 1);
	if (f->sp > e->sp)
		return at;
	if ((cookie & COOKIE_LOOPS) && f->sp == e->sp && f->function == e->function)
		return STACKS;
	if (c->mode == MODE_SLOW)
		call_show_slow(t, e, at);
	call_leave_below(t, e, at);
	f = frame_at(t, s->top - 1);
	/* The same place: the one before jumped here at its end, or was left by longjmp. */
	if (s->top && f->sp == e->sp)
		call_finish(t, e, at, f->jumps ? CALL_EXIT : CALL_UNWOUND);
	return at;
}

#endif
