/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * The maps: state by thread, rings to user space, slots for samples, targets,
 * sums by place, settings.
 */
#ifndef TALLY_OFF_CPU_MAPS_H
#define TALLY_OFF_CPU_MAPS_H

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_state);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} ring SEC(".maps");

/*
 * Ends have a ring of their own: stacks that fill the other one shall not cost a
 * thread its totals. Room for 20,000 threads that end at once.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} ends SEC(".maps");

/* One record a thread: kept user stack, and room to build its samples. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, u32);
	__type(value, struct off_record);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 256);
	__uint(value_size, 4);
} free_slots SEC(".maps");

/* The callbacks of the slots. */
struct slot_work {
	struct bpf_task_work work;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, u32);
	__type(value, struct slot_work);
} slot_works SEC(".maps");

/* Room for a waker's record, and for sleepers without a slot. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct off_record);
} scratch SEC(".maps");

/* Room for the flushing iterator, which may sleep and migrate. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct off_record);
} flush_room SEC(".maps");

/* A process's id, or a thread's with this bit. */
#define THREAD_KEY (1ULL << 32)
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, u32);
} targets SEC(".maps");

/* tgid -> bytes of user stack its unwinds need. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, u32);
} stack_want SEC(".maps");

/* Sums of the places that threads are not at. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct site_key);
	__type(value, struct site_sums);
} sites SEC(".maps");

/* Places with several stacks: the word in which these differ, as in site_sums.slots. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct site_key);
	__type(value, u32);
} splits SEC(".maps");

/* First samples of places are paid for up to this time, ns. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} firsts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct control);
} controls SEC(".maps");

/* What a CPU needs at a switch: its clock of the scheduler against CLOCK_MONOTONIC, and where registers are. */
struct cpu_facts {
	u64 offset_ns; /* to be added to the scheduler's */
	u64 compared_ns; /* when they were compared, by the scheduler's; 0 = never */
	u64 misses; /* comparisons that steady clocks do not show */
	u64 regs_offset; /* of a thread's user registers from the start of its kernel stack; 0 = not known yet */
	u64 late; /* comparisons in a row whose reading came late */
	u64 least_ns; /* least offset of those */
	u64 switches; /* away from followed threads */
	u64 unwoken; /* waits that ended with no program at the wake-up */
};

/* By CPU. An array of CPUs is too small for pages of its own, which a per-CPU array has: address look-ups cost as well. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256); /* user space puts the number of CPUs here */
	__type(key, u32);
	__type(value, struct cpu_facts);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNT_MAX);
	__type(key, u32);
	__type(value, u64);
} counts SEC(".maps");

#endif
