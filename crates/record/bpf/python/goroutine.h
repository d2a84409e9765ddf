/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * The callers of Go code that called the runtime: while a thread is on its own stack (g0), the calls before are on
 * the goroutine's, which the runtime may be moving at this moment. Frame pointers lead through it nevertheless: a
 * pointer not yet adjusted leads to the old copy, which is whole until all are.
 *
 * Source: Go 1.18 to 1.26 runtime/stack.go, copystack(); runtime/asm_amd64.s, morestack and systemstack
 */
#ifndef TALLY_PYTHON_GOROUTINE_H
#define TALLY_PYTHON_GOROUTINE_H

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, GO_LAYOUTS);
	__type(key, u32);
	__type(value, struct go_layout);
} go_layouts SEC(".maps");

/* A thread, on its own stack or a goroutine's. */
struct go_thread {
	struct go_layout *of;
	u64 m;
	u64 curg; /* the goroutine that it runs; 0 = none */
	u64 sp; /* where the thread is */
	u64 is_on_own_stack;
};

/* Finds out whether this is the present G of a thread: the one of its own stack, or its goroutine. 1 = it is. */
INLINE int is_present(struct go_thread *found, struct go_layout *of, u64 g)
{
	u64 m = g ? read_word(g + of->g_m) : 0;

	if (!m)
		return 0;
	found->m = m;
	found->curg = read_word(m + of->m_curg);
	found->is_on_own_stack = read_word(m + of->m_g0) == g;
	return found->is_on_own_stack || found->curg == g;
}

/* Finds out by the layouts known whether the present thread is Go's. 1 = it is. */
static __attribute__((noinline)) int find_go_thread(struct go_thread *found)
{
	struct task_struct___py *task = (void *)bpf_get_current_task_btf();
	struct pt_regs___x86 *regs = (void *)bpf_task_pt_regs((void *)task);
	u64 in_register = 0;

	if (!found)
		return 0;
	bpf_probe_read_kernel(&in_register, 8, &regs->r14);
	bpf_probe_read_kernel(&found->sp, 8, &regs->sp);
	for (u32 i = 0; i < GO_LAYOUTS; i++) {
		u32 at = i;
		struct go_layout *of = bpf_map_lookup_elem(&go_layouts, &at);

		if (!of || !of->g_m)
			return 0;
		found->of = of;
		if (is_present(found, of, in_register))
			return 1;
		if (is_present(found, of, read_word(task->thread.fsbase + GO_TLS)))
			return 1;
	}
	return 0;
}

/* Where following frame pointers is. */
struct following {
	struct py_ring *ring;
	u64 bp;
	u64 at;
	u64 last;
	u64 flags;
};

INLINE void put_return(struct following *f, u64 address)
{
	if (f->last && address == f->last) {
		/* Recursion, as with Python. */
		f->ring->words[(f->at - 1) & (PY_RING_WORDS - 1)] += PY_REPEAT;
		return;
	}
	put(f->ring, f->at, address);
	f->at++;
	f->last = address;
}

/* 1 = it was the last. */
static long copy_return(u32 index, struct following *f)
{
	u64 pair[2]; /* the caller's frame pointer, and the address to return to */

	if (!f->bp)
		return 1;
	if (bpf_probe_read_user(pair, sizeof(pair), (void *)f->bp)) {
		f->flags = PY_BROKEN;
		f->bp = 0;
		return 1;
	}
	put_return(f, pair[1] & GO_ADDRESS);
	f->bp = pair[0];
	return 0;
}

/* The goroutine's return addresses, innermost first; the number of words used, with flags. */
static __attribute__((noinline)) u64 copy_goroutine(struct go_thread *thread, struct py_ring *ring, u64 kind)
{
	struct following f = { .ring = ring };
	struct go_layout *of;
	u64 g, sp;

	if (!thread || !ring)
		return 0;
	of = thread->of;
	f.at = ring->head + PY_HEAD_WORDS;
	g = thread->curg;
	/* At a switch the scheduler has left it nearly always. */
	if (!g)
		return kind == PY_GO ? PY_HEAD_WORDS : 0;
	if (read_word(g + of->g_m) != thread->m)
		return PY_HEAD_WORDS | PY_BROKEN;
	sp = read_word(g + of->sched_sp);
	f.bp = read_word(g + of->sched_bp);
	put_return(&f, read_word(g + of->sched_pc) & GO_ADDRESS);
	f.last = 0;
	/* A function that has not made its frame yet: its caller is where the stack pointer is. */
	put_return(&f, sp == f.bp ? 0 : read_word(sp) & GO_ADDRESS);
	f.last = 0;
	bpf_loop(PY_MAX_FRAMES, copy_return, &f, 0);
	if (f.bp)
		f.flags |= PY_CUT;
	return (f.at - ring->head) | f.flags;
}

/* Whether the thread has switched so often that this switch is left out, as with Python. */
INLINE int is_go_switch_left_out(struct task_struct___py *task, u64 now)
{
	u32 tid = task->pid, at = tid & (SLOTS - 1);
	struct py_thread *slot = bpf_map_lookup_elem(&threads, &at);

	if (!slot)
		return 1;
	if (slot->tid != tid) {
		slot->tid = tid;
		slot->state = 0;
		slot->misses = 0;
		slot->spent_ns = 0;
	}
	return is_spent(slot, now);
}

#include "labels.h"

/* The goroutine of a thread that is sampled (PY_GO) or leaves its CPU (PY_GO_SWITCH): its callers if the thread is on
 * its own stack, and its labels. */
INLINE void look_at_goroutine(struct py_ring *ring, struct task_struct___py *task, u64 kind)
{
	struct go_thread thread = {};
	u64 used, now;

	if (!find_go_thread(&thread) || (!thread.is_on_own_stack && !thread.of->labels))
		return;
	now = bpf_ktime_get_ns(); /* following takes longer than samples may be apart from it */
	if (kind == PY_GO_SWITCH && is_go_switch_left_out(task, now))
		return;
	if (thread.is_on_own_stack && has_room(ring, PY_HEAD_WORDS + 2 + PY_MAX_FRAMES)) {
		used = copy_goroutine(&thread, ring, kind);
		if (used) {
			put_head(ring, kind << 32 | used, now, task, thread.sp);
			publish(ring, ring->head + (u32)used);
		}
	}
	look_at_labels(&thread, ring, task, kind == PY_GO ? PY_GO_LABELS : PY_GO_LABELS_SWITCH, now);
}

#endif
