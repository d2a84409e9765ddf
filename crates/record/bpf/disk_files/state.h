/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* Maps. */
#ifndef TALLY_DISK_FILES_STATE_H
#define TALLY_DISK_FILES_STATE_H

const volatile u32 pid_ns_inum = 0;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} disk_ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct disk_control);
} disk_controls SEC(".maps");

/* Records that found the ring full. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} disk_losses SEC(".maps");

struct file_key {
	u64 ino;
	u32 fs_device;
	u32 generation;
};

/* Files whose name was sent. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct file_key);
	__type(value, u32);
} disk_known SEC(".maps");

/* Who put a request into the queue: process << 32 | thread. The driver may get it from another. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, u64);
} disk_askers SEC(".maps");

/* Owner of a bio's memory. */
struct owner {
	u32 kind;
	u32 flags;
	struct inode *inode;
};

struct scratch {
	struct owner owner; /* of the bio looked at last */
	struct owner last;  /* of the one before it */
	u64 next;           /* the next bio */
	u32 rest;           /* bytes not looked at */
	u32 count;          /* parts so far */
	struct disk_part common; /* what all parts of the request share */
	struct disk_part parts[MOST_PARTS];
	struct inode *inodes[MOST_PARTS];
	struct disk_name name;
	char text[NAME_BYTES + COMPONENT_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct scratch);
} disk_scratch SEC(".maps");

INLINE int send(void *data, u64 size)
{
	u32 zero = 0;
	u64 *lost;

	if (!bpf_ringbuf_output(&disk_ring, data, size, BPF_RB_NO_WAKEUP))
		return 1;
	lost = bpf_map_lookup_elem(&disk_losses, &zero);
	if (lost)
		*lost += 1;
	return 0;
}

#endif
