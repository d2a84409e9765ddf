/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* The maps: open calls by thread, the ring to user space, targets, sums, settings. */
#ifndef TALLY_CALLS_MAPS_H
#define TALLY_CALLS_MAPS_H

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_calls);
} call_threads SEC(".maps");

/*
 * What a thread's table has no room for: the outermost frames of a stack, page by page, the innermost page being the last.
 * A page is written when the table is full, and read back when all frames of its stack in the table are gone.
 */
struct frame_page {
	u32 used;
	u32 pad;
	struct frame frames[PAGE_FRAMES];
};

struct page_key {
	u32 tid; /* as the kernel has it */
	u16 stack;
	u16 page;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PAGES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct page_key);
	__type(value, struct frame_page);
} call_pages SEC(".maps");

/* A page as it begins. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct frame_page);
} call_new_page SEC(".maps");

/* How many calls of a function are on a thread's pages. */
struct paged_key {
	u32 tid;
	u32 function;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PAGES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct paged_key);
	__type(value, u32);
} call_paged SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} call_ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, u32);
} call_targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct call_totals);
} call_sums SEC(".maps");

/* Entries by function, for the watch over rates. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} call_rates SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct call_control);
} call_controls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNT_SLOTS);
	__type(key, u32);
	__type(value, u64);
} call_counts SEC(".maps");

#endif
