/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* Frames of the table: the free ones, and what an ended call adds up to. */
#ifndef TALLY_CALLS_FRAMES_H
#define TALLY_CALLS_FRAMES_H

INLINE void add_up(struct frame *f, u64 ns, u32 kind)
{
	u32 function = f->function;
	struct call_totals *sum = bpf_map_lookup_elem(&call_sums, &function);
	u64 bucket = bucket_of(ns);

	if (!sum)
		return;
	__sync_fetch_and_add(&sum->self_ns, ns > f->inner_ns ? ns - f->inner_ns : 0);
	if (!f->inside)
		__sync_fetch_and_add(&sum->total_ns, ns);
	if (kind == CALL_OPEN) {
		__sync_fetch_and_add(&sum->open, 1);
		return;
	}
	__sync_fetch_and_add(&sum->count, 1);
	__sync_fetch_and_add(&sum->finished_ns, ns);
	if (kind == CALL_UNWOUND)
		__sync_fetch_and_add(&sum->unwound, 1);
	if (sum->min_ns == 0 || ns + 1 < sum->min_ns)
		sum->min_ns = ns + 1;
	if (ns > sum->max_ns)
		sum->max_ns = ns;
	barrier_var(bucket);
	if (bucket < BUCKETS)
		__sync_fetch_and_add(&sum->buckets[bucket], 1);
}

/* Whether a call counts, as far as that is known at its end only. */
INLINE int is_kept(struct frame *f, struct call_control *c, u64 ns)
{
	if (!(f->state & FRAME_WRITTEN) || (c->callers && !(f->state & FRAME_LEADS)))
		return 0;
	return ns >= c->min_ns || (f->state & FRAME_KEPT);
}

/* A frame of the table that nobody uses; 0: there is none left. */
INLINE u32 free_frame(struct thread_calls *t)
{
	u32 number = t->free;

	if (number) {
		t->free = frame_at(t, number - 1)->around;
		return number;
	}
	return t->used < FRAMES ? ++t->used : 0;
}

INLINE void give_back(struct thread_calls *t, struct frame *f, u32 number)
{
	t->open[f->function & (KINDS - 1)]--;
	f->state = 0;
	f->around = t->free;
	t->free = number;
}

#endif
