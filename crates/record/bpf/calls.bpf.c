/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Entries and exits of chosen functions of any program, by uprobes.
 *
 * on_enter sits on first instructions. Exits are seen either by on_return (a
 * return probe: the kernel swaps the return address on the stack, which must
 * not meet an unwinder or a second stack) or by on_leave, which sits on the
 * return instructions themselves and touches nothing of the program.
 * on_session sees both ends of a call: then calls of others get no return
 * probe. on_count sits on first instructions only.
 *
 * A call is known by the place of its return address on the stack. A place
 * below the present one belongs to a call that was left without returning.
 */
#include "kernel.h"
#include "calls_shared.h"

struct request { unsigned int __data_len; } CORE;

struct bpf_pidns_info { u32 pid; u32 tgid; };

static u64 (*bpf_get_current_pid_tgid)(void) = (void *)14;
static u64 (*bpf_get_attach_cookie)(void *ctx) = (void *)174;
static long (*bpf_get_ns_current_pid_tgid)(u64 dev, u64 ino, struct bpf_pidns_info *info, u32 size) = (void *)120;

/*
 * The kernel's bpf_session_is_return (6.13). No helper but a kernel function:
 * the loader turns this number into a call of it where the kernel has it.
 */
#define KFUNC_IS_RETURN 0x7a12
static u64 (*bpf_session_is_return)(void *ctx) = (void *)KFUNC_IS_RETURN;

/* Numbers of frames are plus 1; 0 = none. */
struct frame {
	u64 sp;
	u64 start_ns;
	u64 inner_ns;
	u32 function;
	u16 around; /* on the same stack; of a free one, the next free one */
	u16 inner;  /* MODE_SLOW: the one that it called */
	u8 inside;  /* the same function is open around it */
	u8 jumps;   /* COOKIE_TAIL */
	u8 rules;   /* COOKIE_RULES: they are to be taken back */
	u8 state;   /* FRAME_* */
	u32 pad;
};

#define FRAME_USED 1
#define FRAME_WRITTEN 2 /* by the filters */
#define FRAME_LEADS 4   /* to a function of COOKIE_CALLER */
#define FRAME_KEPT 8    /* MODE_TOTALS: it called one that took min_ns */

/* A stack that the thread is, or was, on: its own, a signal's, a coroutine's. */
struct stack {
	u64 root;          /* place of its outermost call */
	u64 from_start_ns; /* the call that was open when it was begun: its start */
	u16 from;          /* ... and its frame */
	u16 top;           /* innermost frame; 0: nothing is open there */
	u16 first;         /* outermost frame */
	u16 shown;         /* MODE_SLOW: innermost frame whose entry was handed out; SHOWN_PAGED */
	u16 depth;         /* frames in the table */
	u16 paged;         /* pages of the frames around those */
	u16 leading;       /* of those pages, so many are of calls of FRAME_LEADS */
	u16 pad;
};

/* All on the stack's pages, and none in the table. */
#define SHOWN_PAGED 0xffff

/* Functions of the same low bits of their number, open in this thread: 0 is known without looking. */
#define KINDS 256

struct thread_calls {
	struct call_event last; /* to skip doubles */
	u32 written;    /* open frames that count */
	u16 free, used; /* frames once used, from the first on */
	u16 only, muted;
	u8 begun, stopped;
	u8 current, stacks_used, next_dropped;
	u8 has_paged; /* or had */
	u8 pad[6];
	struct stack stacks[STACKS];
	u16 open[KINDS];
	struct frame frames[FRAMES];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_calls);
} call_threads SEC(".maps");

/*
 * What a thread's table has no room for: the outermost frames of a stack, page by page, the innermost page being the last.
 * A page is written when the table is full, and read back when all frames of its stack in the table are gone.
 */
struct frame_page {
	u32 used;
	u32 pad;
	struct frame frames[PAGE_FRAMES];
};

struct page_key {
	u32 tid; /* as the kernel has it */
	u16 stack;
	u16 page;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PAGES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct page_key);
	__type(value, struct frame_page);
} call_pages SEC(".maps");

/* A page as it begins. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct frame_page);
} call_new_page SEC(".maps");

/* How many calls of a function are on a thread's pages. */
struct paged_key {
	u32 tid;
	u32 function;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PAGES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct paged_key);
	__type(value, u32);
} call_paged SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} call_ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, u32);
} call_targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct call_totals);
} call_sums SEC(".maps");

/* Entries by function, for the watch over rates. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} call_rates SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct call_control);
} call_controls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNT_SLOTS);
	__type(key, u32);
	__type(value, u64);
} call_counts SEC(".maps");

char LICENSE[] SEC("license") = "Dual MIT/GPL";

INLINE void count(u32 which)
{
	u64 *slot = bpf_map_lookup_elem(&call_counts, &which);

	if (slot)
		(*slot)++;
}

INLINE struct call_control *control(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&call_controls, &zero);
}

/* Whose event this is; 0 = not one of ours. */
INLINE int who(struct call_control *c, struct call_event *e)
{
	struct bpf_pidns_info info = {};

	if (bpf_get_ns_current_pid_tgid(c->ns_dev, c->ns_ino, &info, sizeof(info)))
		return 0;
	e->tid = info.pid;
	e->tgid = info.tgid;
	return c->any || bpf_map_lookup_elem(&call_targets, &e->tgid);
}

INLINE void put(struct call_event *e)
{
	if (bpf_ringbuf_output(&call_ring, e, sizeof(*e), BPF_RB_NO_WAKEUP))
		count(COUNT_LOST);
}

INLINE u64 stack_pointer(void *ctx)
{
	struct pt_regs___x86 *x86 = ctx;
	struct pt_regs___arm64 *arm = ctx;

	u64 sp = 0;

	/* Not read directly: the verifier wants offsets into the context to be constants in the instruction. */
	if (field_exists(x86->orig_ax))
		bpf_probe_read_kernel(&sp, sizeof(sp), &x86->sp);
	else
		bpf_probe_read_kernel(&sp, sizeof(sp), &arm->sp);
	return sp;
}

/*
 * Whether a conditional jump will be taken. Without branches.
 * Source: Intel SDM volume 1, appendix B (condition codes of Jcc).
 */
INLINE int is_taken(void *ctx, u64 cookie)
{
	struct pt_regs___x86 *x86 = ctx;
	u64 number = (cookie >> COOKIE_CONDITION_SHIFT) & 15;
	u64 flags = 0;

	if (field_exists(x86->orig_ax))
		bpf_probe_read_kernel(&flags, sizeof(flags), &x86->flags);
	u64 c = flags & 1, p = (flags >> 2) & 1, z = (flags >> 6) & 1, s = (flags >> 7) & 1, o = (flags >> 11) & 1;
	u64 holds = o | c << 1 | z << 2 | (c | z) << 3 | s << 4 | p << 5 | (s ^ o) << 6 | (z | (s ^ o)) << 7;

	return ((holds >> (number >> 1)) ^ number) & 1;
}

/* Without branches: each would double what the verifier has to walk through. */
INLINE u64 bucket_of(u64 ns)
{
	u64 n = ns | 15;
	u64 power;

	n |= n >> 1;
	n |= n >> 2;
	n |= n >> 4;
	n |= n >> 8;
	n |= n >> 16;
	n |= n >> 32;
	n -= (n >> 1) & 0x5555555555555555ULL;
	n = (n & 0x3333333333333333ULL) + ((n >> 2) & 0x3333333333333333ULL);
	n = (n + (n >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	/* The highest bit set, at least 3; below 16 ns nothing is shifted away. */
	power = ((n * 0x0101010101010101ULL) >> 56) - 1;
	return ((power - 3) << 4) + ((ns >> ((power - 4 + ((ns - 16) >> 63)) & 63)) & 15);
}

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

INLINE void count_entry(u32 function)
{
	u64 *rate = bpf_map_lookup_elem(&call_rates, &function);

	if (rate)
		__sync_fetch_and_add(rate, 1);
}

/*
 * A goroutine's struct g is in a register of its own wherever Go's functions are entered and left, and begins with its
 * stack's bounds. What runs on another stack (a signal's) stays the thread's.
 * Source: go src/cmd/compile/abi-internal.md ("Special-purpose registers": R14, R28); src/runtime/runtime2.go, struct g.
 */
INLINE void by_goroutine(void *ctx, struct call_event *e)
{
	struct pt_regs___x86 *x86 = ctx;
	struct pt_regs___arm64 *arm = ctx;
	u64 bounds[2] = {};
	u64 g = 0;

	if (field_exists(x86->orig_ax))
		bpf_probe_read_kernel(&g, sizeof(g), &x86->r14);
	else
		bpf_probe_read_kernel(&g, sizeof(g), &arm->regs[28]);
	if (bpf_probe_read_user(bounds, sizeof(bounds), (void *)g) || e->sp < bounds[0] || e->sp >= bounds[1])
		return;
	e->sp += GOROUTINE_STACK - bounds[1];
	e->tid = GOROUTINE | (u32)(g >> 5);
}

/* Whether it is one of ours. */
INLINE int seen(void *ctx, u32 kind, s64 above, int tracked)
{
	struct call_control *c = control();
	u64 cookie = bpf_get_attach_cookie(ctx);
	struct call_event e = { .kind = kind | ((cookie >> 1) & 7) << 8, .function = cookie >> COOKIE_SHIFT };

	if (kind == CALL_EXIT && (cookie & COOKIE_CONDITION) && !is_taken(ctx, cookie))
		return 0;
	if (!c || !who(c, &e))
		return 0;
	e.sp = stack_pointer(ctx) - above;
	if (!tracked && (cookie & COOKIE_GOROUTINE))
		by_goroutine(ctx, &e);
	e.time_ns = bpf_ktime_get_ns();
	if (kind == CALL_ENTER)
		count_entry(e.function);
	if (!tracked)
		put(&e);
	else if (kind == CALL_ENTER)
		enter_tracked(c, &e, cookie);
	else
		exit_tracked(c, &e);
	return 1;
}

/* After the return the stack pointer is above the place of the return address. */
INLINE s64 popped(void)
{
	struct pt_regs___x86 *x86 = 0;

	return field_exists(x86->orig_ax) ? 8 : 0;
}

/* Two of each: most of the code is of no use in MODE_EVENTS. */
SEC("uprobe")
int on_enter(void *ctx)
{
	seen(ctx, CALL_ENTER, 0, 0);
	return 0;
}

SEC("uprobe")
int on_return(void *ctx)
{
	seen(ctx, CALL_EXIT, popped(), 0);
	return 0;
}

SEC("uprobe")
int on_leave(void *ctx)
{
	seen(ctx, CALL_EXIT, 0, 0);
	return 0;
}

SEC("uprobe")
int on_enter_track(void *ctx)
{
	seen(ctx, CALL_ENTER, 0, 1);
	return 0;
}

SEC("uprobe")
int on_return_track(void *ctx)
{
	seen(ctx, CALL_EXIT, popped(), 1);
	return 0;
}

SEC("uprobe")
int on_leave_track(void *ctx)
{
	seen(ctx, CALL_EXIT, 0, 1);
	return 0;
}

/* Not 0 at an entry: no return probe for this call. */
INLINE int session(void *ctx, int tracked)
{
	if (bpf_session_is_return(ctx) & 1) {
		seen(ctx, CALL_EXIT, popped(), tracked);
		return 0;
	}
	return !seen(ctx, CALL_ENTER, 0, tracked);
}

SEC("uprobe")
int on_session(void *ctx)
{
	return session(ctx, 0);
}

SEC("uprobe")
int on_session_track(void *ctx)
{
	return session(ctx, 1);
}

/* While links are exchanged, of the two that see an entry one counts it. */
SEC("uprobe")
int on_count(void *ctx)
{
	struct call_control *c = control();
	u64 cookie = bpf_get_attach_cookie(ctx);
	struct call_event e = {};

	if (c && ((cookie >> 1) & 1) == c->generation && who(c, &e))
		count_entry(cookie >> COOKIE_SHIFT);
	return 0;
}

INLINE int begin(struct call_event *e, u32 kind)
{
	struct call_control *c = control();

	if (!c || !who(c, e))
		return 0;
	e->kind = kind;
	e->time_ns = bpf_ktime_get_ns();
	return 1;
}

/* Kernel functions: loaded for kprobe_multi, or once for each function as fentry and fexit. */
INLINE void kernel_seen(void *ctx, u32 kind)
{
	struct call_event e = {};

	if (!begin(&e, kind))
		return;
	e.function = bpf_get_attach_cookie(ctx);
	put(&e);
}

SEC("kprobe")
int on_kernel_enter(void *ctx)
{
	kernel_seen(ctx, CALL_KERNEL);
	return 0;
}

SEC("kprobe")
int on_kernel_leave(void *ctx)
{
	kernel_seen(ctx, CALL_KERNEL_END);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int call_fork(u64 *ctx)
{
	struct task_struct *child = (void *)ctx[1];
	struct call_event e = {};
	u32 level = 0;
	u32 one = 1;

	if (!begin(&e, CALL_FORK) || child->tgid != child->pid)
		return 0;
	struct pid *pid = child->thread_pid;
	/* The child's number in tally's namespace, as far as the parent's tells: the innermost level both share. */
	struct task_struct *me = bpf_get_current_task_btf();
	struct pid *own = me->group_leader->thread_pid;

	e.function = child->tgid;
	level = own->level;
	if (level > 0 && level < 32) {
		struct upid up;

		for (u32 i = 0; i < 32; i++) {
			if (i > level)
				break;
			bpf_probe_read_kernel(&up, sizeof(up), &own->numbers[i]);
			if ((u32)up.nr != e.tgid)
				continue;
			bpf_probe_read_kernel(&up, sizeof(up), &pid->numbers[i]);
			e.function = up.nr;
		}
	}
	bpf_map_update_elem(&call_targets, &e.function, &one, BPF_ANY);
	put(&e);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int call_exec(u64 *ctx)
{
	struct call_event e = {};

	if (begin(&e, CALL_EXEC)) {
		close_all(&e);
		put(&e);
	}
	return 0;
}

SEC("tp_btf/sched_process_exit")
int call_exit(u64 *ctx)
{
	struct call_control *c = control();
	struct call_event e = {};

	if (!c || !begin(&e, CALL_OPEN))
		return 0;
	/* In the other modes what has no end is open at the end of the recording. */
	if (c->mode == MODE_TOTALS)
		close_all(&e);
	else
		forget_pages();
	return 0;
}

SEC("tp_btf/sys_enter")
int call_sys_enter(u64 *ctx)
{
	struct call_event e = {};

	if (!begin(&e, CALL_SYSTEM))
		return 0;
	e.function = ctx[1];
	put(&e);
	return 0;
}

SEC("tp_btf/sys_exit")
int call_sys_exit(u64 *ctx)
{
	struct call_event e = {};

	if (!begin(&e, CALL_SYSTEM_END))
		return 0;
	e.sp = ctx[1];
	put(&e);
	return 0;
}

SEC("tp_btf/page_fault_user")
int call_fault(u64 *ctx)
{
	struct call_event e = {};

	if (!begin(&e, CALL_FAULT))
		return 0;
	e.sp = ctx[0];
	put(&e);
	return 0;
}

/* Current is the one that leaves; who arrives asks for itself by its storage. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct call_event);
} call_away SEC(".maps");

SEC("tp_btf/sched_switch")
int call_switch(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	struct call_event e = {};
	struct call_event *away;

	if (begin(&e, CALL_OFF)) {
		away = bpf_task_storage_get(&call_away, prev, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (away)
			*away = e;
	}
	away = bpf_task_storage_get(&call_away, next, 0, 0);
	if (away && away->time_ns) {
		u64 now = bpf_ktime_get_ns();

		e = *away;
		e.sp = now - away->time_ns;
		e.time_ns = now;
		away->time_ns = 0;
		put(&e);
	}
	return 0;
}

SEC("tp_btf/block_rq_issue")
int call_block(u64 *ctx)
{
	struct request *request = (void *)ctx[0];
	struct call_event e = {};

	if (!begin(&e, CALL_BLOCK))
		return 0;
	e.function = request->__data_len;
	put(&e);
	return 0;
}
