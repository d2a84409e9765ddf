/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* Counts that the report shows, and the time the programs themselves take. */
#ifndef TALLY_OFF_CPU_COUNTS_H
#define TALLY_OFF_CPU_COUNTS_H

INLINE void count_more(u32 which, u64 more)
{
	u64 *n = bpf_map_lookup_elem(&counts, &which);

	if (n)
		*n += more;
}

INLINE void count(u32 which)
{
	count_more(which, 1);
}

/* One ordinary run in so many is timed. */
#define OWN_TIMED_LOG2 6

INLINE int is_timed(u64 now)
{
	return !(now * 0x9e3779b97f4a7c15ULL >> (64 - OWN_TIMED_LOG2));
}

/* A program has run since `began`, and so did as many that were not timed as make up `runs`. */
SELDOM int count_own_time(u64 began, u64 runs)
{
	u32 which = COUNT_OWN_NS;
	u64 *ns = bpf_map_lookup_elem(&counts, &which);
	u64 now = bpf_ktime_get_ns();

	/* `began` may be another CPU's clock's. */
	if (ns && now > began)
		*ns += (now - began) * runs;
	return 0;
}

/* Runs that make a sample are long and few: each is timed. */
INLINE void end_of_run(u64 began, int is_long)
{
	if (is_seldom(is_long))
		count_own_time(began, 1);
	else if (is_seldom(is_timed(began)))
		count_own_time(began, 1 << OWN_TIMED_LOG2);
}

INLINE struct control *control_now(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&controls, &zero);
}

#endif
