/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* What an entry and an exit change where open calls are tracked, and ends of threads. */
#ifndef TALLY_CALLS_TRACKED_H
#define TALLY_CALLS_TRACKED_H

INLINE void enter_tracked(struct call_control *c, struct call_event *e, u64 cookie)
{
	struct thread_calls *t = bpf_task_storage_get(&call_threads, bpf_get_current_task_btf(), 0,
						      BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct frame *f;
	u32 stack, number;

	if (!t) {
		count(COUNT_NO_STORAGE);
		return;
	}
	if (is_double(t, e))
		return;
	stack = make_room(t, c, e, cookie);
	if (stack >= STACKS)
		return;
	number = take_frame(t, stack, e);
	if (!number) {
		count(COUNT_TOO_DEEP);
		return;
	}
	f = frame_at(t, number - 1);
	f->inner = 0;
	f->sp = e->sp;
	f->inner_ns = 0;
	f->jumps = cookie & COOKIE_TAIL;
	f->rules = COOKIE_RULES(cookie);
	f->inside = c->mode == MODE_TOTALS && call_is_open(t, e->function);
	f->function = e->function;
	f->state = FRAME_USED;
	t->open[e->function & (KINDS - 1)]++;
	if (c->mode == MODE_TOTALS) {
		u32 function = e->function;
		struct call_totals *sum = bpf_map_lookup_elem(&call_sums, &function);

		f->state |= filter(t, c, cookie);
		if (cookie & COOKIE_CALLER)
			call_mark_callers(t, stack);
		/* Of others it is known at their end only whether they count. */
		if (sum && (f->state & FRAME_WRITTEN) && !c->callers && !c->min_ns)
			__sync_fetch_and_add(&sum->entered, 1);
	}
	f->start_ns = bpf_ktime_get_ns();
}

INLINE void exit_tracked(struct call_control *c, struct call_event *e)
{
	struct thread_calls *t = bpf_task_storage_get(&call_threads, bpf_get_current_task_btf(), 0, 0);
	struct stack *s;
	struct frame *f;
	u32 at;

	if (!t || is_double(t, e))
		return;
	at = call_find_stack(t, e->sp, 0);
	if (at < STACKS) {
		t->current = at;
		s = stack_at(t, at);
		if (c->mode == MODE_SLOW)
			call_show_slow(t, e, at);
		call_leave_below(t, e, at);
		f = frame_at(t, s->top - 1);
		if (s->top && f->sp == e->sp && f->function == e->function) {
			call_finish(t, e, at, CALL_EXIT);
			return;
		}
	}
	/* The jump of a switch, within the function; or the return of what a function jumped to at its end. */
	if (e->kind & (COOKIE_MAYBE << 7))
		return;
	/* Of a function whose probes are being taken away those of entries go first; they are of the generation before. */
	if (c->ready && ((e->kind >> 8) & 1) == c->generation)
		count(COUNT_STRAY);
}

/* Ends one of the calls that are open on any stack; 0 if there is none. */
APART int call_close_one(struct thread_calls *t, struct call_event *e)
{
	struct call_control *c = control();

	if (!t || !e || !c)
		return 0;
	for (u32 i = 0; i < STACKS; i++) {
		if (i >= t->stacks_used)
			break;
		if (stack_at(t, i)->top) {
			call_finish(t, e, i, c->mode == MODE_SLOW ? CALL_UNWOUND : CALL_OPEN);
			return 1;
		}
	}
	return 0;
}

APART int call_close_some(struct thread_calls *t, struct call_event *e)
{
	for (u32 i = 0; i < FRAMES; i++)
		if (!call_close_one(t, e))
			return 0;
	return 1;
}

/* The thread ends, or becomes another program: what is open does not end any more. */
INLINE void close_all(struct call_event *e)
{
	struct thread_calls *t = bpf_task_storage_get(&call_threads, bpf_get_current_task_btf(), 0, 0);

	if (!t)
		return;
	for (u32 i = 0; i < ROUNDS; i++)
		if (!call_close_some(t, e))
			break;
}

/* What the thread has on pages goes with it. */
INLINE void forget_pages(void)
{
	struct thread_calls *t = bpf_task_storage_get(&call_threads, bpf_get_current_task_btf(), 0, 0);

	if (!t || !t->has_paged)
		return;
	for (u32 i = 0; i < STACKS; i++)
		call_forget_stack(t, i);
}

#endif
