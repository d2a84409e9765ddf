/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* Frames for which the table has no room: out to pages of their own, and back. */
#ifndef TALLY_CALLS_PAGES_H
#define TALLY_CALLS_PAGES_H

INLINE void count_paged(u32 function, int one_more)
{
	struct paged_key key = { .tid = own_tid(), .function = function };
	u32 *known = bpf_map_lookup_elem(&call_paged, &key);
	u32 one = 1;

	if (!known && one_more)
		bpf_map_update_elem(&call_paged, &key, &one, BPF_ANY);
	else if (known && one_more)
		++*known;
	else if (known && --*known == 0)
		bpf_map_delete_elem(&call_paged, &key);
}

/* The outermost frame of a stack in the table goes to its last page; 0 if it is the only one, or the page is full. */
APART int call_page_out_one(struct thread_calls *t, struct call_event *e, u32 stack)
{
	struct page_key key = { .tid = own_tid(), .stack = stack };
	struct call_control *c = control();
	struct frame_page *page;
	struct stack *s;
	struct frame *f;
	u32 number, at;

	if (!t || !e || !c)
		return 0;
	s = stack_at(t, stack);
	number = s->first;
	if (!number || number == s->top)
		return 0;
	f = frame_at(t, number - 1);
	key.page = s->paged - 1;
	page = bpf_map_lookup_elem(&call_pages, &key);
	if (!page || page->used >= PAGE_FRAMES)
		return 0;
	/* Nobody looks at it there: so its entry is handed out now, if it is to be at all. */
	if (c->mode == MODE_SLOW && (!s->shown || s->shown == SHOWN_PAGED))
		put_entry(e, f);
	if (!s->shown || s->shown == number)
		s->shown = SHOWN_PAGED;
	at = page->used;
	barrier_var(at);
	page->frames[at & (PAGE_FRAMES - 1)] = *f;
	page->used = at + 1;
	count_paged(f->function, 1);
	s->first = f->inner;
	s->depth--;
	frame_at(t, s->first - 1)->around = 0;
	give_back(t, f, number);
	return 1;
}

/* Makes room in the table: of the stack that has the most frames there, the outermost go. */
APART int call_page_out(struct thread_calls *t, struct call_event *e)
{
	struct page_key key = { .tid = own_tid() };
	u32 zero = 0;
	u64 deepest = 0;
	void *empty = bpf_map_lookup_elem(&call_new_page, &zero);
	struct stack *s;

	if (!t || !e || !empty)
		return 0;
	for (u32 i = 0; i < STACKS; i++) {
		if (i >= t->stacks_used)
			break;
		deepest = FAR - smaller(FAR - (stack_at(t, i)->depth * STACKS + i), FAR - deepest);
	}
	deepest &= STACKS - 1;
	s = stack_at(t, deepest);
	key.stack = deepest;
	key.page = s->paged;
	if (s->depth < 2 || s->paged + 1 >= SHOWN_PAGED || bpf_map_update_elem(&call_pages, &key, empty, BPF_ANY))
		return 0;
	t->has_paged = 1;
	s->paged++;
	for (u32 i = 0; i < PAGE_FRAMES; i++)
		if (!call_page_out_one(t, e, deepest))
			break;
	return 1;
}

/* The innermost frame of a stack's last page comes back, around those in the table; 0 if that was the page's last. */
APART int call_page_in_one(struct thread_calls *t, u32 stack)
{
	struct page_key key = { .tid = own_tid(), .stack = stack };
	struct frame_page *page;
	struct stack *s;
	struct frame *f;
	u32 number, at;

	if (!t)
		return 0;
	s = stack_at(t, stack);
	key.page = s->paged - 1;
	page = bpf_map_lookup_elem(&call_pages, &key);
	if (!page || !page->used) {
		s->paged = 0;
		return 0;
	}
	number = free_frame(t);
	if (!number)
		return 0;
	at = page->used - 1;
	barrier_var(at);
	f = frame_at(t, number - 1);
	*f = page->frames[at & (PAGE_FRAMES - 1)];
	page->used = at;
	count_paged(f->function, 0);
	t->open[f->function & (KINDS - 1)]++;
	if (s->paged <= s->leading)
		f->state |= FRAME_LEADS;
	f->around = 0;
	f->inner = s->first;
	if (s->first)
		frame_at(t, s->first - 1)->around = number;
	else
		s->top = number;
	s->first = number;
	s->depth++;
	if (at)
		return 1;
	bpf_map_delete_elem(&call_pages, &key);
	s->paged--;
	if (s->leading > s->paged)
		s->leading = s->paged;
	return 0;
}

/* A stack has no frame in the table any more, but pages. */
APART int call_page_in(struct thread_calls *t, u32 stack)
{
	struct stack *s;

	if (!t)
		return 0;
	for (u32 i = 0; i < PAGE_FRAMES; i++)
		if (!call_page_in_one(t, stack))
			break;
	s = stack_at(t, stack);
	if (s->shown == SHOWN_PAGED)
		s->shown = s->top;
	return 0;
}

#endif
