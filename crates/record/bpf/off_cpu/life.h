/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* A program ends within its process, and threads that are about to end. */
#ifndef TALLY_OFF_CPU_LIFE_H
#define TALLY_OFF_CPU_LIFE_H

/* Places of the program before are none of the next one's. */
INLINE void end_life(struct thread_state *t)
{
	struct exec_record *exec;

	store_site(t, &t->sites[0]);
	store_site(t, &t->sites[1]);
	exec = bpf_ringbuf_reserve(&ends, sizeof(*exec), 0);
	if (exec) {
		exec->type = REC_EXEC;
		exec->size = sizeof(*exec);
		exec->time_ns = bpf_ktime_get_ns();
		exec->tid = t->tid;
		exec->tgid = t->tgid;
		exec->life = t->life;
		exec->spare = 0;
		bpf_ringbuf_submit(exec, BPF_RB_NO_WAKEUP);
	}
	t->life = (t->life + 1) & LIFE_MASK;
}

/* The first argument of the program that begins: what it is for where several processes have one name. */
INLINE void note_argument(struct thread_state *t, struct task_struct *task)
{
	u64 from = task->mm ? task->mm->arg_start : 0;
	u64 end = from ? task->mm->arg_end : 0;
	long name;

	t->argument[0] = 0;
	if (!from || whom != WHOM_PROCESSES)
		return;
	/* Its name as it was called, with the byte that ends it. */
	name = bpf_probe_read_user_str(t->argument, ARGUMENT_BYTES, (void *)from);
	if (name <= 0 || name >= ARGUMENT_BYTES || from + name >= end ||
	    bpf_probe_read_user_str(t->argument, ARGUMENT_BYTES, (void *)(from + name)) >= ARGUMENT_BYTES)
		t->argument[0] = 0;
}

/*
 * From here on the thread ends, but for its last switch: that comes milliseconds later where CPUs are scarce, and meanwhile
 * the thread leaves the list that `flush` walks.
 */
INLINE void note_leaving(struct task_struct *task)
{
	struct thread_state *t;

	t = bpf_task_storage_get(&threads, task, 0, 0);
	if (!t || t->done || !t->since_ns || t->leaving)
		return;
	t->leaving = 1;
	count(COUNT_LEAVING);
}

#endif
