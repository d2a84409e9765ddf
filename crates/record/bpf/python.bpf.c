/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * The frames of CPython's interpreter at a sample, and where a thread leaves its CPU. At both also the callers of
 * Go's runtime (goroutine.h).
 *
 * At both moments the thread stands still: what is copied here is never torn. Copied are pointers to code objects
 * and instructions only; user space reads the names behind them, once.
 *
 * RULE: on_sample may run from an NMI. It takes no lock, reserves nothing in a ring buffer and updates no hash:
 * it writes to arrays, and only to those parts that belong to its CPU (rings) or to whose content it checks (slots).
 * On Linux 6.15 to 6.18 bpf_ringbuf_reserve() in an NMI could stop a machine for 250 ms.
 *
 * bpf_loop() is of Linux 5.17: older kernels refuse these programs.
 */
#include "kernel.h"
#include "python_shared.h"

#define BPF_F_MMAPABLE (1U << 10)
#define SLOTS 4096
#define MAX_THREADS 512 /* thread states looked at for one that is not known yet */

#define SWITCH_EVERY_NS 20000 /* a thread's switches are looked at once per this time, and so often at once */
#define SWITCH_BURST 64

/* A thread that runs no Python: its state is looked for at so many switches, then at one in so many. */
#define MISSES_LOOKED_AT 16
#define MISSES_LEFT_OUT 64

#define ASK_FIRST_NS 10000000ULL
#define ASK_LAST_NS 40000000000ULL

struct mm_struct;
struct thread_struct { unsigned long fsbase; } CORE;
struct task_struct___py { struct mm_struct *mm; int pid; int tgid; struct thread_struct thread; } CORE;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, struct py_process);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* one per CPU */
	__type(key, u32);
	__type(value, struct py_ring);
} rings SEC(".maps");

/* What is known of a thread; a slot belongs to whichever thread used it last. */
struct py_thread {
	u64 state; /* its thread state */
	u64 mm;
	u64 spent_ns; /* token bucket of switches */
	u32 tid;
	u32 misses; /* switches in a row at which it had no thread state */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, u32);
	__type(value, struct py_thread);
} threads SEC(".maps");

/* When an unknown process was asked about. */
struct py_asked {
	u64 mm;
	u64 next_ns;
	u64 step_ns;
	u32 tgid;
	u32 spare;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, u32);
	__type(value, struct py_asked);
} asked SEC(".maps");

INLINE u64 read_word(u64 address)
{
	u64 word = 0;

	bpf_probe_read_user(&word, 8, (void *)address);
	return word;
}

INLINE struct py_ring *own_ring(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&rings, &cpu);
}

INLINE void put(struct py_ring *ring, u64 at, u64 word)
{
	ring->words[at & (PY_RING_WORDS - 1)] = word;
}

INLINE int has_room(struct py_ring *ring, u64 words)
{
	u64 tail = *(volatile u64 *)&ring->tail;

	if (ring->head - tail + words <= PY_RING_WORDS)
		return 1;
	ring->dropped++;
	return 0;
}

/* The record of these words is complete. */
INLINE void publish(struct py_ring *ring, u64 head)
{
	asm volatile("" ::: "memory");
	*(volatile u64 *)&ring->head = head;
}

INLINE void put_head(struct py_ring *ring, u64 header, u64 now, struct task_struct___py *task, u64 word)
{
	u64 at = ring->head;

	put(ring, at, header);
	put(ring, at + 1, now);
	put(ring, at + 2, (u64)(u32)task->tgid << 32 | (u32)task->pid);
	put(ring, at + 3, word);
}

/* Asks user space whether this process runs Python or Go: less and less often. */
INLINE void ask(struct py_ring *ring, struct task_struct___py *task, u64 mm, u64 now)
{
	u32 at = task->tgid & (SLOTS - 1);
	struct py_asked *slot = bpf_map_lookup_elem(&asked, &at);

	if (!slot)
		return;
	if (slot->tgid != task->tgid || slot->mm != mm) {
		slot->tgid = task->tgid;
		slot->mm = mm;
		slot->step_ns = ASK_FIRST_NS;
	} else {
		if (now < slot->next_ns)
			return;
		if (slot->step_ns < ASK_LAST_NS)
			slot->step_ns *= 2;
	}
	if (!has_room(ring, PY_HEAD_WORDS))
		return;
	slot->next_ns = now + slot->step_ns;
	put_head(ring, (u64)PY_ASK << 32 | PY_HEAD_WORDS, now, task, mm);
	publish(ring, ring->head + PY_HEAD_WORDS);
}

/* Whether the thread has switched so often that this switch is left out. */
INLINE int is_spent(struct py_thread *slot, u64 now)
{
	u64 spent = slot->spent_ns;

	if (spent + SWITCH_BURST * SWITCH_EVERY_NS < now)
		spent = now - SWITCH_BURST * SWITCH_EVERY_NS;
	if (spent >= now)
		return 1;
	slot->spent_ns = spent + SWITCH_EVERY_NS;
	return 0;
}

#include "python/goroutine.h"

/* Where the search for a thread state is. */
struct search {
	struct py_process *of;
	u64 interpreter;
	u64 state;
	u64 identity;
};

/* Looks at one thread state, or goes to the next interpreter; 1 = found, or there are no more. */
static long look_at_state(u32 index, struct search *s)
{
	struct py_process *of = s->of;

	if (!s->state) {
		s->interpreter = read_word(s->interpreter + of->interp_next);
		if (!s->interpreter)
			return 1;
		s->state = read_word(s->interpreter + of->interp_threads);
		return 0;
	}
	if (read_word(s->state + of->thread_id) == s->identity)
		return 1;
	s->state = read_word(s->state + of->thread_next);
	return 0;
}

/* The thread state whose thread has this identity: pthread_self(), which is the thread pointer. */
static __attribute__((noinline)) u64 find_state(struct py_process *of, u64 identity)
{
	struct search s = { .of = of, .identity = identity };

	if (!of)
		return 0;
	s.interpreter = read_word(of->interpreters);
	if (!s.interpreter)
		return 0;
	s.state = read_word(s.interpreter + of->interp_threads);
	bpf_loop(MAX_THREADS, look_at_state, &s, 0);
	return s.state && read_word(s.state + of->thread_id) == identity ? s.state : 0;
}

/* Where copying is. */
struct copying {
	struct py_process *of;
	struct py_ring *ring;
	u64 frame;
	u64 at;
	u64 flags;
	u64 last; /* the first word of the frame copied last, without its repeats */
	u64 last_instr;
};

/* Copies one frame; 1 = it was the last. */
static long copy_frame(u32 index, struct copying *c)
{
	struct py_process *of = c->of;
	struct py_ring *ring = c->ring;
	u32 bytes = of->frame_bytes;
	u64 code, instr, is_entry, at = c->at;

	if (!c->frame)
		return 1;
	if (bytes > FRAME_MAX_BYTES || bpf_probe_read_user(ring->frame, bytes, (void *)c->frame)) {
		c->flags = PY_BROKEN;
		c->frame = 0;
		return 1;
	}
	code = *(u64 *)(ring->frame + (of->frame_code & (FRAME_MAX_BYTES - 8)));
	is_entry = ring->frame[of->frame_kind & (FRAME_MAX_BYTES - 1)];
	/* A shim's own code object is none of the program's; user space knows it by its mark. */
	if (of->kind == FRAMES_SHIM)
		is_entry = is_entry == of->shim_owner;
	if (of->kind == FRAMES_OBJECTS)
		is_entry = 1;
	code = (code & PY_CODE) | (is_entry & 1);
	instr = *(u64 *)(ring->frame + (of->frame_instr & (FRAME_MAX_BYTES - 8)));
	if (code == c->last && instr == c->last_instr) {
		/* Recursion: thousands of equal frames would fill the ring. */
		ring->words[(at - 2) & (PY_RING_WORDS - 1)] += PY_REPEAT;
	} else {
		put(ring, at, code);
		put(ring, at + 1, instr);
		c->at = at + 2;
		c->last = code;
		c->last_instr = instr;
	}
	c->frame = *(u64 *)(ring->frame + (of->frame_back & (FRAME_MAX_BYTES - 8)));
	return 0;
}

/* Copies the frames from the innermost on; the number of words used, with flags. */
static __attribute__((noinline)) u64 copy_frames(struct py_process *of, struct py_ring *ring, u64 state)
{
	struct copying c = { .of = of, .ring = ring };

	if (!of || !ring)
		return 0;
	c.at = ring->head + PY_HEAD_WORDS;
	c.frame = read_word(state + of->thread_frame);
	if (of->cframe_frame != NO_CFRAME && c.frame)
		c.frame = read_word(c.frame + of->cframe_frame);
	bpf_loop(PY_MAX_FRAMES, copy_frame, &c, 0);
	if (c.frame)
		c.flags |= PY_CUT;
	return (c.at - ring->head) | c.flags;
}

/* The state of the present thread, from its slot or newly looked for. */
INLINE u64 state_of(struct py_process *of, struct py_thread *slot, u32 tid, u64 mm, u64 identity)
{
	u64 state = slot->state;

	if (slot->tid == tid && slot->mm == mm && state && read_word(state + of->thread_id) == identity)
		return state;
	state = find_state(of, identity);
	if (slot->tid != tid || slot->mm != mm) {
		slot->spent_ns = 0;
		slot->misses = 0;
		slot->tid = tid;
	}
	slot->mm = mm;
	slot->state = state;
	slot->misses = state ? 0 : slot->misses + 1;
	return state;
}

/* Whether a switch is left out, since the thread had no state at those before: the search goes through all threads. */
INLINE int is_foreign(struct py_thread *slot, u32 tid, u64 mm)
{
	if (slot->tid != tid || slot->mm != mm || slot->misses < MISSES_LOOKED_AT)
		return 0;
	if (slot->misses % MISSES_LEFT_OUT == 0)
		return 0;
	slot->misses++;
	return 1;
}

INLINE void walk(struct py_ring *ring, struct task_struct___py *task, struct py_process *of, u64 kind)
{
	u32 tid = task->pid, at = tid & (SLOTS - 1);
	struct py_thread *slot = bpf_map_lookup_elem(&threads, &at);
	u64 state, used, now;

	if (!slot || (kind == PY_SWITCH && is_foreign(slot, tid, (u64)task->mm)))
		return;
	if (!has_room(ring, PY_HEAD_WORDS + 2 * PY_MAX_FRAMES))
		return;
	state = state_of(of, slot, tid, (u64)task->mm, task->thread.fsbase);
	if (!state)
		return;
	now = bpf_ktime_get_ns();
	if (kind == PY_SWITCH && is_spent(slot, now))
		used = PY_HEAD_WORDS | PY_SKIPPED;
	else
		used = copy_frames(of, ring, state);
	if (!used)
		return;
	put_head(ring, kind << 32 | used, now, task, state);
	publish(ring, ring->head + (u32)used);
}

INLINE void look(u64 kind)
{
	struct task_struct___py *task = (void *)bpf_get_current_task_btf();
	u64 mm = (u64)task->mm;
	u32 tgid = task->tgid;
	struct py_process *of;
	struct py_ring *ring;

	if (!mm)
		return;
	of = bpf_map_lookup_elem(&processes, &tgid);
	if (of && of->mm && of->mm != mm)
		of = 0;
	ring = own_ring();
	if (!ring)
		return;
	if (ring->busy) {
		ring->interrupted++;
		return;
	}
	*(volatile u64 *)&ring->busy = 1;
	if (of) {
		walk(ring, task, of, kind);
	} else if (kind == PY_SWITCH) {
		look_at_goroutine(ring, task, PY_GO_SWITCH);
	} else {
		look_at_goroutine(ring, task, PY_GO);
		ask(ring, task, mm, bpf_ktime_get_ns());
	}
	*(volatile u64 *)&ring->busy = 0;
}

/* At a sample, which is always made. */
SEC("perf_event")
int on_sample(void *ctx)
{
	look(PY_SAMPLE);
	return 1;
}

SEC("tp_btf/sched_switch")
int on_leave(u64 *ctx)
{
	look(PY_SWITCH);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
