/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* Which threads are followed, by which ids, and their clocks. */
#ifndef TALLY_OFF_CPU_THREADS_H
#define TALLY_OFF_CPU_THREADS_H

#include "../visible_ids.h"

INLINE u32 task_state(struct task_struct *task)
{
	struct task_struct___old *old = (void *)task;

	if (field_exists(task->__state))
		return task->__state;
	return old->state;
}

#define CGROUP_DEPTH 24

/* True if the task's cgroup, as perf events have it, is one of `targets` or lies below one. */
INLINE int is_in_cgroup(struct task_struct *task)
{
	struct cgroup_subsys_state *css = 0;
	struct css_set *set = task->cgroups;
	u64 at = enum_value(cgroup_subsys_id, perf_event_cgrp_id) * sizeof(css);

	if (!set || bpf_probe_read_kernel(&css, sizeof(css), (void *)&set->subsys[0] + at))
		return 0;
	for (u32 i = 0; i < CGROUP_DEPTH && css; i++) {
		struct cgroup *cgroup = 0;
		struct kernfs_node *node = 0;
		u64 id = 0;

		if (bpf_probe_read_kernel(&cgroup, sizeof(cgroup), &css->cgroup) ||
		    bpf_probe_read_kernel(&node, sizeof(node), &cgroup->kn) ||
		    bpf_probe_read_kernel(&id, sizeof(id), &node->id))
			return 0;
		if (bpf_map_lookup_elem(&targets, &id))
			return 1;
		if (bpf_probe_read_kernel(&css, sizeof(css), &css->parent))
			return 0;
	}
	return 0;
}

INLINE int is_target(struct task_struct *task)
{
	u64 key;

	if (whom == WHOM_ALL)
		return task->pid != 0 && visible_process(task) != self_tgid;
	if (whom == WHOM_CGROUP)
		return task->pid != 0 && visible_process(task) != self_tgid && is_in_cgroup(task);
	if (whom == WHOM_THREADS)
		key = visible_id(task) | THREAD_KEY;
	else
		key = visible_process(task);
	return bpf_map_lookup_elem(&targets, &key) != 0;
}

/* A clock for a thread without one, if it is a target. */
SELDOM int make_clock(struct task_struct *task)
{
	struct thread_state *t;

	if (!task || !is_target(task))
		return 0;
	t = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t) {
		count(COUNT_NO_STORAGE);
		return 0;
	}
	t->tid = visible_id(task);
	t->tgid = visible_process(task);
	/* Another than that of a thread that had this number shortly before. */
	t->life = (bpf_ktime_get_ns() >> 10) & LIFE_MASK;
	t->draw = bpf_get_prandom_u32();
	t->minor_before = task->min_flt;
	t->major_before = task->maj_flt;
	if (task->flags & PF_KTHREAD)
		t->flags = FLAG_KTHREAD;
	return 1;
}

/* The thread's clock; made when it is a target and has none. */
INLINE struct thread_state *thread_clock(struct task_struct *task)
{
	struct thread_state *t = bpf_task_storage_get(&threads, task, 0, 0);

	if (t || !make_clock(task))
		return t;
	return bpf_task_storage_get(&threads, task, 0, 0);
}

INLINE u32 kind_of(u32 state)
{
	if (state & TASK_NOLOAD && state & TASK_UNINTERRUPTIBLE)
		return KIND_IDLE;
	if (state & TASK_STOPPED_BITS)
		return KIND_STOPPED;
	if (state & (TASK_UNINTERRUPTIBLE | TASK_RTLOCK_WAIT))
		return KIND_DISK;
	if (state & TASK_INTERRUPTIBLE)
		return KIND_SLEEP;
	return KIND_PREEMPTED;
}

#endif
