/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Files of the requests that go to disks.
 *
 * A request consists of bios, a bio of pages, and a page of the page cache
 * belongs to an inode. Bios of direct I/O have pages of the process; but the
 * function at their end shows who made them, and that knows the open file.
 * A file's name is that of its directory entries up to the root of its file
 * system; user space adds where that is mounted. Each name is sent once.
 *
 * Programs are tp_btf only: kprobes and fentry can not be loaded everywhere.
 * Pointers are followed by bpf_probe_read_kernel: a wrong one reads nothing.
 */
#include "kernel.h"
#include "disk_files_shared.h"
#include "disk_files/kernel_types.h"
#include "disk_files/state.h"
#include "visible_ids.h"
#include "disk_files/owners.h"
#include "disk_files/names.h"

INLINE struct request *request_of(u64 *ctx)
{
	struct hd_struct *old = 0;

	if (field_exists(old->partno))
		return (void *)ctx[1];
	return (void *)ctx[0];
}

/* As the tracepoints have it. */
INLINE u32 device_of(struct request *request)
{
	struct request___old *old = (void *)request;
	struct request_queue *queue = 0;
	struct gendisk *disk = 0;
	int major = 0, minor = 0;

	if (field_exists(old->rq_disk))
		READ(disk, &old->rq_disk);
	else if (!READ(queue, &request->q) && queue && field_exists(queue->disk))
		READ(disk, &queue->disk);
	if (disk) {
		READ(major, &disk->major);
		READ(minor, &disk->first_minor);
	}
	return (u32)major << 20 | (u32)minor;
}

/* Thread ids leave this bit free. */
#define ASKER_KTHREAD 0x80000000u

INLINE u64 asker(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u64 who = (u64)visible_process(task) << 32 | visible_id(task);

	return task->flags & PF_KTHREAD ? who | ASKER_KTHREAD : who;
}

SEC("tp_btf/block_rq_insert")
int disk_insert(u64 *ctx)
{
	u64 key = (u64)request_of(ctx), who = asker();

	bpf_map_update_elem(&disk_askers, &key, &who, BPF_ANY);
	return 0;
}

/*
 * Adds the next bio to the part of its owner: 1 = done, 0 = there are no more, or too many owners. The verifier looks
 * at it once, not for each bio.
 */
__attribute__((noinline)) int take_bio(u64 address)
{
	struct bio *bio = (void *)address;
	struct disk_control *c;
	struct scratch *s;
	u32 zero = 0, bytes = 0, at;

	c = bpf_map_lookup_elem(&disk_controls, &zero);
	s = bpf_map_lookup_elem(&disk_scratch, &zero);
	if (!c || !s || !bio)
		return 0;
	s->owner.kind = 0;
	s->owner.flags = 0;
	s->owner.inode = 0;
	READ(bytes, &bio->bi_iter.bi_size);
	find_owner(&s->owner, bio, c);
	if (!s->count || s->owner.kind != s->last.kind || s->owner.inode != s->last.inode) {
		if (s->count >= MOST_PARTS)
			return 0;
		at = s->count & (MOST_PARTS - 1);
		s->parts[at].owner = s->owner.kind;
		s->parts[at].flags = s->owner.flags;
		s->parts[at].bytes = 0;
		s->inodes[at] = s->owner.inode;
		s->last = s->owner;
		s->count++;
	}
	at = (s->count - 1) & (MOST_PARTS - 1);
	s->parts[at].bytes += bytes;
	s->rest -= bytes;
	READ(s->next, &bio->bi_next);
	return 1;
}

/* Completes a part, and sends it: 1 = done, 0 = there are no more. */
__attribute__((noinline)) int send_part(u32 at)
{
	struct disk_part *p;
	struct scratch *s;
	u32 zero = 0, owner, flags, bytes;

	s = bpf_map_lookup_elem(&disk_scratch, &zero);
	if (!s || at >= s->count || at >= MOST_PARTS)
		return 0;
	p = &s->parts[at];
	owner = p->owner;
	flags = p->flags;
	bytes = p->bytes;
	*p = s->common;
	p->owner = owner;
	p->flags |= flags;
	p->bytes = bytes;
	if (s->inodes[at])
		name_file(s, p, s->inodes[at]);
	send(p, sizeof(*p));
	return 1;
}

SEC("tp_btf/block_rq_issue")
int disk_issue(u64 *ctx)
{
	struct request *request = request_of(ctx);
	struct disk_part common = { .type = REC_PART };
	u64 key = (u64)request, who, *known;
	struct scratch *s;
	u32 zero = 0, operation = 0;

	s = bpf_map_lookup_elem(&disk_scratch, &zero);
	if (!s)
		return 0;
	known = bpf_map_lookup_elem(&disk_askers, &key);
	who = known ? *known : asker();
	if (known)
		bpf_map_delete_elem(&disk_askers, &key);
	READ(operation, &request->cmd_flags);
	READ(s->rest, &request->__data_len);
	if ((operation & REQ_OP_MASK) > REQ_OP_WRITE || !s->rest)
		return 0;
	common.time_ns = bpf_ktime_get_ns();
	READ(common.sector, &request->__sector);
	common.device = device_of(request);
	common.pid = who >> 32;
	common.tid = (u32)who & ~ASKER_KTHREAD;
	if (who & ASKER_KTHREAD)
		common.flags = PART_KTHREAD;
	s->count = 0;
	s->next = 0;
	READ(s->next, &request->bio);
	for (u32 i = 0; i < MOST_BIOS; i++) {
		if (!take_bio(s->next))
			break;
	}
	s->common = common;
	for (u32 i = 0; i < MOST_PARTS; i++) {
		if (!send_part(i))
			break;
	}
	if (s->rest) {
		common.owner = OWNER_MORE;
		common.bytes = s->rest;
		send(&common, sizeof(common));
	}
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
