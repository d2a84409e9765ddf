/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* The sums of places between a thread, the map and a sample that was lost. */
#ifndef TALLY_OFF_CPU_SITES_H
#define TALLY_OFF_CPU_SITES_H

/* Sums for which there is no room at their place. */
INLINE void carry_sums(struct thread_state *t, struct site_sums *site)
{
	t->carry[site->kind & (KIND_COUNT - 1)] += site->wait_ns;
	t->carry[KIND_RUNNABLE] += site->runnable_ns;
	count(COUNT_NO_SITE);
}

/* Where a thread's sums are, for who reads them after its end; those without this record are found at the recording's end. */
INLINE void tell_site(struct site_key *key)
{
	struct site_record *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);

	if (!record)
		return;
	record->type = REC_SITE;
	record->size = sizeof(*record);
	record->print = key->print;
	record->tid = key->tid;
	record->spare = 0;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* Into the map, where whoever reads a thread's sums after its end finds them. */
SELDOM_APART int store_site(struct thread_state *t, struct site_sums *site)
{
	struct site_key key = {};
	struct site_sums *kept, copy;

	if (!t || !site || !site->print)
		return 0;
	key.print = site->print;
	key.tid = t->tid;
	kept = bpf_map_lookup_elem(&sites, &key);
	if (kept) {
		__builtin_memcpy(kept, site, sizeof(*kept));
	} else {
		/* Linux 6.1 takes no argument of a global function for a map's value. */
		__builtin_memcpy(&copy, site, sizeof(copy));
		if (bpf_map_update_elem(&sites, &key, &copy, BPF_ANY))
			carry_sums(t, site);
		else
			tell_site(&key);
	}
	site->print = 0;
	return 0;
}

/* The thread is at another place: its sums come from the map, or begin. */
SELDOM_APART int load_site(struct thread_state *t, struct site_sums *site, u64 print)
{
	struct site_key key = {};
	struct site_sums *kept;

	if (!t || !site)
		return 0;
	store_site(t, site);
	key.print = print;
	key.tid = t->tid;
	kept = bpf_map_lookup_elem(&sites, &key);
	if (kept) {
		__builtin_memcpy(site, kept, sizeof(*site));
		return 1;
	}
	clear_sums(site);
	site->print = print;
	site->unsampled = 0;
	site->samples = 0;
	site->ahead = 0;
	site->tgid = t->tgid;
	return 0;
}

/*
 * The thread waits at a place other than the last, or at one with several stacks, which is found by words of the stack. Answers 1 where all of it is known.
 */
SELDOM_APART int find_site(struct thread_state *t, struct site_sums *site, u64 base, u64 sp, u64 splits_now)
{
	struct site_key key = {};
	u64 print = base, words = 0;
	u16 slots[SITE_SLOTS] = {};
	int is_same, is_known;

	if (!t || !site)
		return 1;
	key.tid = t->tid;
	is_same = site->base == base && site->splits == splits_now;
	for (u32 i = 0; i < SITE_SLOTS; i++) {
		u32 *known = 0;
		u64 word = 0;

		slots[i] = site->slots[i];
		if (!is_same) {
			key.print = print;
			known = bpf_map_lookup_elem(&splits, &key);
			slots[i] = known ? *known : 0;
		}
		if (!slots[i])
			break;
		bpf_probe_read_user(&word, sizeof(word), (void *)(sp + (slots[i] - 1) * 8ULL));
		words = (words ^ word) * 0x9e3779b97f4a7c15ULL | 1;
		print = ((base ^ words) & ~(u64)LIFE_MASK) | (base & LIFE_MASK);
	}
	is_known = site->print == print || load_site(t, site, print);
	site->base = base;
	site->splits = splits_now;
	site->entry = slots[0] ? 0 : base ^ splits_now;
	site->words = words;
	__builtin_memcpy(site->slots, slots, sizeof(slots));
	return is_known;
}

/* What a sample that found no room had taken goes back. */
SELDOM_APART int give_back(struct thread_state *t, struct off_record *rec)
{
	struct site_key key = {};
	struct site_sums *kept = 0;

	if (!t || !rec)
		return 0;
	if (!rec->site.print) {
		t->carry[rec->kind & (KIND_COUNT - 1)] += rec->wait_weight_ns;
		t->carry[KIND_RUNNABLE] += rec->runnable_weight_ns;
		return 0;
	}
	if (t->sites[0].print == rec->site.print) {
		add_sums(&t->sites[0], &rec->site);
		t->sites[0].unsampled = 0;
		return 0;
	}
	if (t->sites[1].print == rec->site.print) {
		add_sums(&t->sites[1], &rec->site);
		t->sites[1].unsampled = 0;
		return 0;
	}
	key.print = rec->site.print;
	key.tid = t->tid;
	kept = bpf_map_lookup_elem(&sites, &key);
	if (kept) {
		add_sums(kept, &rec->site);
		kept->unsampled = 0;
	} else {
		carry_sums(t, &rec->site);
	}
	return 0;
}

#endif
