/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* One entry or exit: whose it is, where, and when. */
#ifndef TALLY_CALLS_EVENT_H
#define TALLY_CALLS_EVENT_H

INLINE void count(u32 which)
{
	u64 *slot = bpf_map_lookup_elem(&call_counts, &which);

	if (slot)
		(*slot)++;
}

INLINE struct call_control *control(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&call_controls, &zero);
}

/* Whose event this is; 0 = not one of ours. */
INLINE int who(struct call_control *c, struct call_event *e)
{
	struct bpf_pidns_info info = {};

	if (bpf_get_ns_current_pid_tgid(c->ns_dev, c->ns_ino, &info, sizeof(info)))
		return 0;
	e->tid = info.pid;
	e->tgid = info.tgid;
	return c->any || bpf_map_lookup_elem(&call_targets, &e->tgid);
}

INLINE void put(struct call_event *e)
{
	if (bpf_ringbuf_output(&call_ring, e, sizeof(*e), BPF_RB_NO_WAKEUP))
		count(COUNT_LOST);
}

INLINE u64 stack_pointer(void *ctx)
{
	struct pt_regs___x86 *x86 = ctx;
	struct pt_regs___arm64 *arm = ctx;

	u64 sp = 0;

	/* Not read directly: the verifier wants offsets into the context to be constants in the instruction. */
	if (field_exists(x86->orig_ax))
		bpf_probe_read_kernel(&sp, sizeof(sp), &x86->sp);
	else
		bpf_probe_read_kernel(&sp, sizeof(sp), &arm->sp);
	return sp;
}

/*
 * Whether a conditional jump will be taken. Without branches.
 * Source: Intel SDM volume 1, appendix B (condition codes of Jcc).
 */
INLINE int is_taken(void *ctx, u64 cookie)
{
	struct pt_regs___x86 *x86 = ctx;
	u64 number = (cookie >> COOKIE_CONDITION_SHIFT) & 15;
	u64 flags = 0;

	if (field_exists(x86->orig_ax))
		bpf_probe_read_kernel(&flags, sizeof(flags), &x86->flags);
	u64 c = flags & 1, p = (flags >> 2) & 1, z = (flags >> 6) & 1, s = (flags >> 7) & 1, o = (flags >> 11) & 1;
	u64 holds = o | c << 1 | z << 2 | (c | z) << 3 | s << 4 | p << 5 | (s ^ o) << 6 | (z | (s ^ o)) << 7;

	return ((holds >> (number >> 1)) ^ number) & 1;
}

/* Without branches: each would double what the verifier has to walk through. */
INLINE u64 bucket_of(u64 ns)
{
	u64 n = ns | 15;
	u64 power;

	n |= n >> 1;
	n |= n >> 2;
	n |= n >> 4;
	n |= n >> 8;
	n |= n >> 16;
	n |= n >> 32;
	n -= (n >> 1) & 0x5555555555555555ULL;
	n = (n & 0x3333333333333333ULL) + ((n >> 2) & 0x3333333333333333ULL);
	n = (n + (n >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	/* The highest bit set, at least 3; below 16 ns nothing is shifted away. */
	power = ((n * 0x0101010101010101ULL) >> 56) - 1;
	return ((power - 3) << 4) + ((ns >> ((power - 4 + ((ns - 16) >> 63)) & 63)) & 15);
}

#endif
