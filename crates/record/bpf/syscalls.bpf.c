/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * System calls of chosen processes, each as one record at its return.
 *
 * Arguments are kept from the entry on, because some calls replace the
 * registers. Memory is read at the return: by then the kernel itself has
 * brought in the pages of strings that the program never touched.
 */
#include "kernel.h"
#include "syscalls_shared.h"

struct pt_regs___call { unsigned long di, si, dx, r10, r8, r9, orig_ax; } CORE;
struct thread_info { unsigned int status; unsigned long flags; } CORE;
struct task_struct___call { struct thread_info thread_info; } CORE;
struct linux_binprm { const char *filename; } CORE;

struct bpf_pidns_info { u32 pid; u32 tgid; };

static long (*bpf_probe_read_kernel_str)(void *dst, u32 size, const void *from) = (void *)115;
static long (*bpf_get_ns_current_pid_tgid)(u64 dev, u64 ino, struct bpf_pidns_info *info, u32 size) = (void *)120;

/* thread_calls.state */
#define STATE_UNKNOWN 0
#define STATE_NOT 1
#define STATE_FOLLOWED 2
#define STATE_AT_EXEC 3
#define STATE_BORN 4 /* a child of a followed thread that has not run */

struct thread_calls {
	u64 start_ns; /* of the call it is in; 0 = none */
	u64 args[CALL_ARGS];
	u32 tid;
	u32 tgid;
	u16 nr;
	u16 flags;
	u32 state;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_calls);
} sys_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} sys_ring SEC(".maps");

/* Processes, and threads with TARGET_THREAD. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, u32);
} sys_targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SPECS);
	__type(key, u32);
	__type(value, struct call_spec);
} sys_specs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 20);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct sum_key);
	__type(value, struct call_sum);
} sys_sums SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct call_control);
} sys_controls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNT_SLOTS);
	__type(key, u32);
	__type(value, u64);
} sys_counts SEC(".maps");

/* Room to build a record: the programs do not interrupt each other. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct call_record);
} sys_scratch SEC(".maps");

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define HEAD_BYTES 48
#define ARGS_BYTES (CALL_ARGS * 8)

INLINE void count(u32 which)
{
	u64 *slot = bpf_map_lookup_elem(&sys_counts, &which);

	if (slot)
		(*slot)++;
}

INLINE struct call_control *control(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&sys_controls, &zero);
}

INLINE struct call_record *scratch(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&sys_scratch, &zero);
}

INLINE struct call_spec *spec_of(struct thread_calls *t)
{
	u32 nr = t->nr;

	if (nr >= SPECS || t->flags & REC_COMPAT)
		nr = SPECS - 1;
	return bpf_map_lookup_elem(&sys_specs, &nr);
}

INLINE void put(struct call_record *r, u64 bytes)
{
	if (bytes > sizeof(*r))
		return;
	if (bpf_ringbuf_output(&sys_ring, r, bytes, BPF_RB_NO_WAKEUP))
		count(COUNT_LOST);
}

INLINE void head(struct call_record *r, struct thread_calls *t, u32 kind)
{
	r->start_ns = 0;
	r->end_ns = bpf_ktime_get_ns();
	r->ret = 0;
	r->tid = t->tid;
	r->tgid = t->tgid;
	r->nr = t->nr;
	r->kind = kind;
	r->nargs = CALL_ARGS;
	r->flags = 0;
	r->lens[0] = r->lens[1] = r->lens[2] = 0;
	r->spare = 0;
}

INLINE void put_comm(struct call_record *r, struct task_struct *task)
{
	bpf_probe_read_kernel(r->data, 16, task->comm);
	r->lens[0] = 16;
}

/* Its ids, and whether it is to be followed. */
static __attribute__((noinline)) int settle(struct call_control *c)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_calls *t = bpf_task_storage_get(&sys_threads, task, 0, 0);
	struct bpf_pidns_info info = {};
	struct call_record *r;
	u32 *target = 0;
	u64 key;
	u32 was;

	if (!t || !c)
		return 0;
	was = t->state;
	t->state = STATE_NOT;
	if (bpf_get_ns_current_pid_tgid(c->ns_dev, c->ns_ino, &info, sizeof(info)) || info.tgid == c->self_tgid)
		return 0;
	t->tid = info.pid;
	t->tgid = info.tgid;
	if (was == STATE_UNKNOWN && !c->all) {
		key = info.tgid;
		target = bpf_map_lookup_elem(&sys_targets, &key);
		if (!target) {
			key = info.pid | TARGET_THREAD;
			target = bpf_map_lookup_elem(&sys_targets, &key);
		}
		if (!target)
			return 0;
		if (*target == TARGET_AT_EXEC) {
			t->state = STATE_AT_EXEC;
			return 0;
		}
	}
	t->state = STATE_FOLLOWED;
	r = scratch();
	if (!r)
		return 0;
	head(r, t, REC_NEW);
	r->args[0] = task->pid;
	put_comm(r, task);
	put(r, HEAD_BYTES + ARGS_BYTES + 16);
	return 0;
}

/* The state of the current thread if it may be followed. */
INLINE struct thread_calls *current_thread(struct call_control *c, u64 flags)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_calls *t;

	if (!c || !c->on)
		return 0;
	t = bpf_task_storage_get(&sys_threads, task, 0, flags);
	if (!t) {
		if (flags)
			count(COUNT_NO_ROOM);
		return 0;
	}
	if (t->state == STATE_UNKNOWN || t->state == STATE_BORN)
		settle(c);
	return t->state == STATE_NOT ? 0 : t;
}

INLINE u32 copy_bytes(struct thread_calls *t, struct call_copy *how, s64 ret)
{
	u64 units = 0;
	u32 len = how->len;

	switch (how->how & 15) {
	case HOW_FIXED:
		return how->most;
	case HOW_ARG:
		if (len < CALL_ARGS)
			units = t->args[len];
		break;
	case HOW_RET:
		units = ret > 0 ? ret : 0;
		break;
	case HOW_POINTED:
		if (len < CALL_ARGS) {
			u32 bytes = 0;

			bpf_probe_read_user(&bytes, sizeof(bytes), (void *)t->args[len]);
			units = bytes;
		}
		break;
	}
	if (units > how->most)
		units = how->most;
	units *= how->unit;
	return units > how->most ? how->most : units;
}

/* Reads what the spec names; the bytes of data. */
INLINE u32 copy_all(struct call_record *r, struct thread_calls *t, struct call_spec *spec)
{
	s64 ret = r->ret;
	u32 at = 0;

#pragma unroll
	for (u32 i = 0; i < CALL_COPIES; i++) {
		struct call_copy *how = &spec->copies[i];
		u32 arg = how->arg;
		void *from;
		s64 got;
		u32 bytes;

		if (!how->how || arg >= CALL_ARGS)
			continue;
		if (how->how & HOW_ONLY_OK && ret < 0) {
			r->lens[i] = COPY_NONE;
			continue;
		}
		if (at > DATA_BYTES - COPY_BYTES)
			break;
		from = (void *)t->args[arg];
		if ((how->how & 15) == HOW_STRING) {
			bytes = how->most;
			if (bytes > COPY_BYTES)
				bytes = COPY_BYTES;
			got = bpf_probe_read_user_str(r->data + at, bytes, from);
			if (got <= 0 || got > COPY_BYTES) {
				r->lens[i] = COPY_FAULT;
				continue;
			}
			r->lens[i] = got - 1;
			at += got - 1;
			continue;
		}
		bytes = copy_bytes(t, how, ret);
		if (bytes > COPY_BYTES)
			bytes = COPY_BYTES;
		if (bytes && bpf_probe_read_user(r->data + at, bytes, from)) {
			r->lens[i] = COPY_FAULT;
			continue;
		}
		r->lens[i] = bytes;
		at += bytes;
	}
	return at;
}

/* Hands the call out. */
INLINE void put_call(struct thread_calls *t, struct call_spec *spec, struct call_record *r)
{
	u32 nargs = spec->nargs;
	u32 bytes = 0;

	r->start_ns = t->start_ns;
	r->nargs = nargs;
	__builtin_memcpy(r->args, t->args, sizeof(t->args));
	if (spec->copies[0].how)
		bytes = copy_all(r, t, spec);
	if (bytes > DATA_BYTES)
		return;
	if (bytes)
		put(r, HEAD_BYTES + ARGS_BYTES + bytes);
	else
		put(r, HEAD_BYTES + (nargs > CALL_ARGS ? CALL_ARGS : nargs) * 8);
}

INLINE void add(struct thread_calls *t, u64 ns, s64 ret)
{
	struct sum_key key = { .tid = t->tid, .nr = t->nr | (t->flags & REC_COMPAT ? SUM_COMPAT : 0) };
	struct call_sum *sum = bpf_map_lookup_elem(&sys_sums, &key);
	struct call_sum new = { .count = 1, .total_ns = ns, .min_ns = ns, .max_ns = ns, .tgid = t->tgid };
	int failed = ret < 0 && ret >= -4095;

	if (!sum) {
		new.errors = failed;
		if (bpf_map_update_elem(&sys_sums, &key, &new, BPF_ANY))
			count(COUNT_NO_SUM);
		return;
	}
	sum->count++;
	sum->errors += failed;
	sum->total_ns += ns;
	if (ns < sum->min_ns)
		sum->min_ns = ns;
	if (ns > sum->max_ns)
		sum->max_ns = ns;
}

/* The current call came by the 32-bit entry. */
INLINE int by_compat_entry(void)
{
	struct task_struct___call *task = (void *)bpf_get_current_task_btf();

	/* TS_COMPAT of x86 */
	if (field_exists(task->thread_info.status))
		return task->thread_info.status & 2;
	/* TIF_32BIT of arm64 */
	return !!(task->thread_info.flags & 1UL << 22);
}

/* Registers of the call at hand. */
INLINE void read_args(struct thread_calls *t, struct pt_regs___call *x86)
{
	if (field_exists(x86->di)) {
		t->args[0] = x86->di;
		t->args[1] = x86->si;
		t->args[2] = x86->dx;
		t->args[3] = x86->r10;
		t->args[4] = x86->r8;
		t->args[5] = x86->r9;
	} else {
		struct pt_regs___arm64 *arm = (void *)x86;

		for (u32 i = 0; i < CALL_ARGS; i++)
			t->args[i] = arm->regs[i];
	}
}

/* A call that began before its thread was followed; 0 if it is a child's return from its fork. */
INLINE int is_older(struct thread_calls *t, struct pt_regs___call *x86)
{
	struct call_spec *spec;
	s64 nr;

	if (field_exists(x86->orig_ax)) {
		nr = x86->orig_ax;
	} else {
		struct pt_regs___arm64 *arm = (void *)x86;

		nr = arm->syscallno;
	}
	if (nr < 0 || t->state != STATE_FOLLOWED)
		return 0;
	t->nr = nr;
	t->flags = REC_BEFORE | (by_compat_entry() ? REC_COMPAT : 0);
	read_args(t, x86);
	spec = spec_of(t);
	return spec && !(spec->flags & SPEC_FORK);
}

SEC("tp_btf/sys_enter")
int sys_call_begins(u64 *ctx)
{
	struct call_control *c = control();
	int is_compat = by_compat_entry();
	u32 nr = is_compat || ctx[1] >= SPECS ? SPECS - 1 : ctx[1];
	struct call_spec *spec = bpf_map_lookup_elem(&sys_specs, &nr);
	struct thread_calls *t;

	/* What nobody asked for costs no more than this. */
	if (!c || !spec || !(spec->flags & (c->sums ? SPEC_WANTED : SPEC_WANTED | SPEC_TRACKED)))
		return 0;
	t = current_thread(c, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t)
		return 0;
	t->nr = ctx[1];
	t->flags = is_compat ? REC_COMPAT : 0;
	if (!c->sums)
		read_args(t, (void *)ctx[0]);
	t->start_ns = bpf_ktime_get_ns();
	if (!(spec->flags & SPEC_NO_RETURN) || t->state == STATE_AT_EXEC)
		return 0;
	if (spec->flags & SPEC_WANTED && !c->sums) {
		struct call_record *r = scratch();

		if (!r)
			return 0;
		head(r, t, REC_CALL);
		r->flags = REC_OPEN | t->flags;
		put_call(t, spec, r);
	}
	t->start_ns = 0;
	return 0;
}

SEC("tp_btf/sys_exit")
int sys_call_ends(u64 *ctx)
{
	struct call_control *c = control();
	struct thread_calls *t = current_thread(c, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct call_spec *spec;
	struct call_record *r;
	u64 start, now;
	s64 ret = ctx[1];

	if (!t)
		return 0;
	if (!t->start_ns && (c->sums || !is_older(t, (void *)ctx[0])))
		return 0;
	if (t->state == STATE_AT_EXEC) {
		t->start_ns = 0;
		return 0;
	}
	start = t->start_ns;
	now = bpf_ktime_get_ns();
	spec = spec_of(t);
	if (!spec)
		return 0;
	if (c->sums) {
		if (spec->flags & SPEC_WANTED)
			add(t, now - start, ret);
		goto out;
	}
	if (!(spec->flags & SPEC_TRACKED) && !(spec->flags & SPEC_WANTED && (!start || now - start >= c->min_ns)))
		goto out;
	r = scratch();
	if (!r)
		goto out;
	r->end_ns = now;
	r->ret = ret;
	r->tid = t->tid;
	r->tgid = t->tgid;
	r->nr = t->nr;
	r->kind = REC_CALL;
	r->flags = t->flags;
	r->lens[0] = r->lens[1] = r->lens[2] = 0;
	r->spare = 0;
	put_call(t, spec, r);
out:
	t->start_ns = 0;
	return 0;
}

SEC("tp_btf/sched_process_fork")
int sys_fork(u64 *ctx)
{
	struct task_struct *child = (void *)ctx[1];
	struct call_control *c = control();
	struct thread_calls *t = current_thread(c, 0);
	struct thread_calls *of_child;
	struct call_record *r;

	if (!t || t->state != STATE_FOLLOWED)
		return 0;
	of_child = bpf_task_storage_get(&sys_threads, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!of_child) {
		count(COUNT_NO_ROOM);
		return 0;
	}
	of_child->state = STATE_BORN;
	r = scratch();
	if (child->pid != child->tgid || !r)
		return 0;
	head(r, t, REC_FORK);
	r->args[0] = child->pid;
	put(r, HEAD_BYTES + ARGS_BYTES);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int sys_exec(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct linux_binprm *program = (void *)ctx[2];
	struct call_control *c = control();
	struct thread_calls *t = current_thread(c, 0);
	struct call_record *r;
	u64 from, bytes;
	s64 got;
	u32 at = 16;

	if (!t)
		return 0;
	/* Its thread may have got the leader's number. */
	if (t->state == STATE_AT_EXEC || t->tid != t->tgid)
		settle(c);
	r = scratch();
	if (t->state != STATE_FOLLOWED || !r)
		return 0;
	head(r, t, REC_EXEC);
	put_comm(r, task);
	got = bpf_probe_read_kernel_str(r->data + at, COPY_BYTES, program->filename);
	if (got > 0 && got <= COPY_BYTES) {
		u32 name = got - 1;

		/* Verifiers before 6.18 don't carry the bounds of `got` over to the sum. */
		barrier_var(name);
		if (name < COPY_BYTES) {
			r->lens[1] = name;
			at += name;
		}
	}
	from = task->mm ? task->mm->arg_start : 0;
	bytes = from ? task->mm->arg_end - from : 0;
	if (bytes > COPY_BYTES)
		bytes = COPY_BYTES;
	if (bytes && !bpf_probe_read_user(r->data + at, bytes, (void *)from)) {
		r->lens[2] = bytes;
		at += bytes;
	}
	put(r, HEAD_BYTES + ARGS_BYTES + at);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int sys_exit_of_thread(u64 *ctx)
{
	struct call_control *c = control();
	struct thread_calls *t = current_thread(c, 0);
	struct call_record *r = scratch();
	struct call_spec *spec;

	if (!t || !r || t->state != STATE_FOLLOWED)
		return 0;
	spec = spec_of(t);
	if (t->start_ns && spec && spec->flags & SPEC_WANTED && !c->sums) {
		head(r, t, REC_CALL);
		r->flags = REC_OPEN | t->flags;
		put_call(t, spec, r);
	}
	t->start_ns = 0;
	head(r, t, REC_EXIT);
	/* Most threads get their name after their first call. */
	put_comm(r, bpf_get_current_task_btf());
	put(r, HEAD_BYTES + ARGS_BYTES + 16);
	return 0;
}
