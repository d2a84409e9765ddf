/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* The time of a switch, from the scheduler's own clock. */
#ifndef TALLY_OFF_CPU_CLOCK_H
#define TALLY_OFF_CPU_CLOCK_H

/* The clocks of two CPUs differ by up to a microsecond: no interval ends before it began. No branch, as in lengths.h. */
INLINE u64 not_before(u64 now, u64 since)
{
	s64 late = since - now;

	barrier_var(late);
	return now + (late & ~(late >> 63));
}

/* Both clocks are read again after this time. */
#define COMPARE_EVERY_NS 2000000
/* How much earlier than before a second reading may come after the first. */
#define READINGS_APART_NS 20000
#define MISSES_ALLOWED 16
#define LATE_ALLOWED 64

/*
 * CLOCK_MONOTONIC at `raw` of the scheduler's clock. Some time lies between the scheduler's reading and ours, and more
 * where a hypervisor stops the CPU: the least counts. The clocks drift apart by less than one in 16,384 as a rule, and by
 * one in 2,048 while time is set right. Where they show more than that, the scheduler's is not used.
 */
SELDOM u64 compare_clocks(struct cpu_facts *facts, u64 raw, struct task_struct *prev)
{
	u64 now = bpf_ktime_get_ns();
	s64 may_drift, more;

	if (!facts || !prev)
		return now;
	if (stacks_later)
		find_registers(facts, prev);
	if (facts->misses > MISSES_ALLOWED)
		return now;
	if (!facts->compared_ns)
		facts->offset_ns = now - raw;
	may_drift = facts->compared_ns ? (s64)(raw - facts->compared_ns) >> 11 : 0;
	more = now - raw - facts->offset_ns;
	if (may_drift < 0 || more < -(may_drift + READINGS_APART_NS))
		facts->misses += 1;
	if (more <= may_drift >> 3) {
		facts->offset_ns += more;
		facts->late = 0;
	} else {
		facts->offset_ns += may_drift >> 3;
		if (!facts->late || now - raw < facts->least_ns)
			facts->least_ns = now - raw;
		facts->late += 1;
	}
	/* So many are not late by chance. */
	if (facts->late >= LATE_ALLOWED) {
		facts->offset_ns = facts->least_ns;
		facts->late = 0;
	}
	facts->compared_ns = facts->misses > MISSES_ALLOWED ? 0 : raw;
	return raw + facts->offset_ns;
}

/* When this switch took place. The scheduler has just read its clock for it; to read another takes 100 ns. */
INLINE u64 switch_time(struct cpu_facts *facts, struct task_struct *prev)
{
	u64 raw;

	if (!field_exists(prev->se.cfs_rq) || !field_exists(prev->se.cfs_rq->rq)) {
		if (stacks_later)
			find_registers(facts, prev);
		return bpf_ktime_get_ns();
	}
	raw = prev->se.cfs_rq->rq->clock;
	if (is_seldom(raw - facts->compared_ns > COMPARE_EVERY_NS))
		return compare_clocks(facts, raw, prev);
	return raw + facts->offset_ns;
}

/*
 * How long a thread that now gets this CPU has waited for one since its switch-out, by the scheduler's own count; -1
 * where it keeps none. It begins when the thread is queued, just after the wake-up; time in the queues of other CPUs is in
 * run_delay already. Before the scheduler itself takes note of the switch.
 */
INLINE s64 time_queued(struct thread_state *t, struct task_struct *task, struct cpu_facts *facts, u64 now)
{
	u64 last;

	if (!field_exists(task->sched_info.last_queued) || is_seldom(!facts->compared_ns))
		return -1;
	last = task->sched_info.last_queued;
	if (is_seldom(!last))
		return -1;
	return now - facts->offset_ns - last + task->sched_info.run_delay - t->run_delay_ns;
}

#endif
