/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* Adds an interval to the sums, and decides whether it becomes a sample. */
#ifndef TALLY_OFF_CPU_WEIGHTS_H
#define TALLY_OFF_CPU_WEIGHTS_H

/*
 * From half a period to one and a half: short waits are drawn by chance, each as likely as it is long. After the same time
 * always, of two waits that alternate one would be met each time.
 */
INLINE u64 threshold_of(struct thread_state *t, u64 period)
{
	return (period >> 1) + (period >> 8) * (t->draw & 0xff);
}

/* Without a place: adds an interval to its total; answers the weight of the sample it makes. */
INLINE u64 weigh_by_kind(struct thread_state *t, u32 kind, u64 ns, u64 period)
{
	u64 carry, threshold;

	kind &= KIND_COUNT - 1;
	if (kind == KIND_IDLE)
		return 0;
	if (ns >= period)
		return ns;
	carry = t->carry[kind] + ns;
	threshold = threshold_of(t, period);
	if (carry >= threshold) {
		t->carry[kind] = carry - threshold;
		t->draw = bpf_get_prandom_u32();
		return threshold;
	}
	t->carry[kind] = carry;
	return 0;
}

/* The sums that the interval at hand adds to; 0 = none. */
INLINE struct site_sums *site_now(struct thread_state *t)
{
	if (t->kind == KIND_PREEMPTED && t->has_place)
		return &t->sites[1];
	return t->has_place ? &t->sites[0] : 0;
}

/*
 * The ring fills faster than it is emptied: no more samples for now. Sums lose nothing by that, and the samples in the
 * ring keep their stacks.
 */
INLINE int is_ring_filled(void)
{
	return bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) * 2 > bpf_ringbuf_query(&ring, BPF_RB_RING_SIZE);
}

/* First samples of places come before the early ones of others, which get what half of the burst leaves. */
INLINE int may_sample_first(struct site_sums *site, u64 now)
{
	u32 zero = 0;
	u64 *paid = bpf_map_lookup_elem(&firsts, &zero);
	u64 every_ns = few_stacks ? FEW_FIRST_EVERY_NS : FIRST_EVERY_NS;
	u64 burst_ns = every_ns * (few_stacks ? FEW_FIRST_BURST : FIRST_BURST);
	u64 spared_ns = site->samples ? burst_ns / 2 : every_ns;

	if (!paid || *paid + spared_ns > now) {
		if (site->samples)
			site->unsampled = ~0U;
		return 0;
	}
	if (*paid + burst_ns < now)
		*paid = now - burst_ns;
	*paid += every_ns;
	count(COUNT_FIRSTS);
	return 1;
}

/* How much earlier than after a period the next sample of a place comes: waits that alternate are not to meet it in step. */
INLINE u64 ahead_ns(struct site_sums *site, u64 period)
{
	return (period >> 9) * site->ahead;
}

/*
 * Adds the wait at hand to its total and the sums of its place; answers the weight of the sample that it is to make, 0
 * if none.
 */
INLINE u64 weigh(struct thread_state *t, u64 ns, u64 period, u64 now)
{
	struct site_sums *site = site_now(t);
	u32 kind = t->kind & (KIND_COUNT - 1), bucket;

	t->total[kind] += ns;
	if (is_seldom(!site))
		return weigh_by_kind(t, kind, ns, period);
	if (!site->count)
		site->since_ns = t->since_ns;
	site->wait_ns += ns;
	site->count += 1;
	if (site->longest_ns < ns)
		site->longest_ns = ns;
	bucket = length_bucket(ns);
	if (bucket < QUEUE_BUCKETS)
		site->lengths[bucket] += 1;
	if (is_seldom(site->wait_ns + ahead_ns(site, period) >= period))
		return is_ring_filled() ? 0 : site->wait_ns;
	if (is_seldom(site->count > site->unsampled) && period != ~0ULL && !is_ring_filled() &&
	    may_sample_first(site, now)) {
		site->unsampled = ~0U;
		return site->wait_ns;
	}
	return 0;
}

/* The same for the time from the wake-up to the switch-in, or from birth to the first. */
INLINE u64 weigh_runnable(struct thread_state *t, u64 ns, u64 period)
{
	struct site_sums *site = site_now(t);

	t->total[KIND_RUNNABLE] += ns;
	if (is_seldom(!site))
		return weigh_by_kind(t, KIND_RUNNABLE, ns, period);
	site->runnable_ns += ns;
	return is_seldom(site->runnable_ns >= period) && !is_ring_filled() ? site->runnable_ns : 0;
}

SELDOM_APART u64 weigh_apart(struct thread_state *t, u64 ns, u64 period, u64 now)
{
	return t ? weigh(t, ns, period, now) : 0;
}

SELDOM_APART u64 weigh_runnable_apart(struct thread_state *t, u64 ns, u64 period)
{
	return t ? weigh_runnable(t, ns, period) : 0;
}

/* When the next sample of the place is due. */
INLINE void plan_sample(struct site_sums *site)
{
	u32 random = bpf_get_prandom_u32();

	site->ahead = random & 0xff;
	if (site->samples < EARLY_SAMPLES)
		site->samples += 1;
	site->unsampled = site->samples < EARLY_SAMPLES ? (random >> 8) & ((1U << site->samples) - 1) : ~0U;
}

/* A sample took the sums with it. */
INLINE void clear_sums(struct site_sums *site)
{
	site->wait_ns = 0;
	site->runnable_ns = 0;
	site->longest_ns = 0;
	site->count = 0;
	__builtin_memset(site->lengths, 0, sizeof(site->lengths));
}

INLINE void add_sums(struct site_sums *site, struct site_sums *more)
{
	if (!site->count || more->since_ns < site->since_ns)
		site->since_ns = more->since_ns;
	site->wait_ns += more->wait_ns;
	site->runnable_ns += more->runnable_ns;
	site->count += more->count;
	if (site->longest_ns < more->longest_ns)
		site->longest_ns = more->longest_ns;
	for (u32 i = 0; i < QUEUE_BUCKETS; i++)
		site->lengths[i] += more->lengths[i];
}

#endif
