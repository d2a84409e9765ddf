/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* How long waits for a CPU were, by powers of two. */
#ifndef TALLY_OFF_CPU_LENGTHS_H
#define TALLY_OFF_CPU_LENGTHS_H

/* `by` if `value` has more than `by` bits, else 0. Without a branch: the verifier would follow both ways from there on. */
INLINE u64 bits_if_more(u64 value, u32 by)
{
	return ((s64)((1ULL << by) - 1 - value) >> 63) & by;
}

/* The bucket, of QUEUE_BUCKETS, of a length. */
INLINE u32 length_bucket(u64 ns)
{
	u64 left = ns >> QUEUE_FIRST_LOG2, bucket, bits;

	if (is_seldom(left >> QUEUE_BUCKETS))
		return QUEUE_BUCKETS - 1;
	bucket = bits_if_more(left, 16);
	left >>= bucket;
	bits = bits_if_more(left, 8);
	bucket += bits;
	left >>= bits;
	bits = bits_if_more(left, 4);
	bucket += bits;
	left >>= bits;
	bits = bits_if_more(left, 2);
	bucket += bits;
	left >>= bits;
	return bucket + (left >> 1);
}

/* Counts a wait for a CPU: once woken (0), or preempted (1). */
INLINE void count_wait(struct thread_state *t, u32 which, u64 ns)
{
	u32 bucket = length_bucket(ns);

	/* A division takes as long as all else here. */
	if (is_seldom(ns > t->longest_us[which] * 1000ULL)) {
		u64 us = (ns + 999) / 1000;

		t->longest_us[which] = us > 0xffffffff ? 0xffffffff : us;
	}
	if (bucket < QUEUE_BUCKETS)
		t->queue[which * QUEUE_BUCKETS + bucket] += 1;
}

SELDOM_APART int count_woken_apart(struct thread_state *t, u64 ns)
{
	if (t)
		count_wait(t, 0, ns);
	return 0;
}

SELDOM_APART int count_preempted_apart(struct thread_state *t, u64 ns)
{
	if (t)
		count_wait(t, 1, ns);
	return 0;
}

/* Counts the wait for a CPU that ends now, if there was one. */
INLINE void count_ended(struct thread_state *t, u64 now)
{
	if (t->wake_ns)
		count_wait(t, 0, now - t->wake_ns);
	if (is_seldom(t->kind == KIND_PREEMPTED))
		count_wait(t, 1, now - t->since_ns);
}

SELDOM_APART int count_ended_apart(struct thread_state *t, u64 now)
{
	if (t)
		count_ended(t, now);
	return 0;
}

#endif
