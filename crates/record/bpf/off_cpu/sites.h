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
	struct site_sums *kept;

	if (!t || !site || !site->print)
		return 0;
	key.print = site->print;
	key.tid = t->tid;
	kept = bpf_map_lookup_elem(&sites, &key);
	if (kept)
		__builtin_memcpy(kept, site, sizeof(*kept));
	else if (bpf_map_update_elem(&sites, &key, site, BPF_ANY))
		carry_sums(t, site);
	else
		tell_site(&key);
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
	site->sampled = 0;
	site->tgid = t->tgid;
	return 0;
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
		t->sites[0].sampled = 0;
		return 0;
	}
	if (t->sites[1].print == rec->site.print) {
		add_sums(&t->sites[1], &rec->site);
		t->sites[1].sampled = 0;
		return 0;
	}
	key.print = rec->site.print;
	key.tid = t->tid;
	kept = bpf_map_lookup_elem(&sites, &key);
	if (kept) {
		add_sums(kept, &rec->site);
		kept->sampled = 0;
	} else {
		carry_sums(t, &rec->site);
	}
	return 0;
}

#endif
