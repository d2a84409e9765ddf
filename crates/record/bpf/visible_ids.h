/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* Ids of threads in tally's pid namespace, whose number is the program's constant pid_ns_inum. */
#ifndef TALLY_VISIBLE_IDS_H
#define TALLY_VISIBLE_IDS_H

/* A thread's id in tally's pid namespace, 0 if it has none there. */
INLINE u32 visible_id(struct task_struct *task)
{
	struct pid *pid;
	u32 level;

	if (!pid_ns_inum)
		return task->pid;
	pid = task->thread_pid;
	if (!pid)
		return 0;
	level = pid->level;
	for (u32 i = 0; i < 6; i++) {
		struct upid upid = {};
		u32 inum = 0;

		if (i > level)
			break;
		if (bpf_probe_read_kernel(&upid, sizeof(upid), (void *)&pid->numbers[0] + i * sizeof(upid)))
			break;
		if (bpf_probe_read_kernel(&inum, sizeof(inum), &upid.ns->ns.inum))
			break;
		if (inum == pid_ns_inum)
			return upid.nr;
	}
	return 0;
}

INLINE u32 visible_process(struct task_struct *task)
{
	if (!pid_ns_inum)
		return task->tgid;
	return visible_id(task->group_leader);
}

#endif
