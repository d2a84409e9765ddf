/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* Types of the kernel between a request and the name of its file. */
#ifndef TALLY_DISK_FILES_KERNEL_TYPES_H
#define TALLY_DISK_FILES_KERNEL_TYPES_H

struct hlist_node { struct hlist_node *next; } CORE;
struct hlist_head { struct hlist_node *first; } CORE;
struct qstr { const unsigned char *name; } CORE;
union dentry_links { struct hlist_node d_alias; } CORE;
struct dentry { struct dentry *d_parent; struct qstr d_name; union dentry_links d_u; } CORE;
struct super_block { u32 s_dev; } CORE;
struct inode {
	u16 i_mode;
	struct super_block *i_sb;
	u64 i_ino;
	u32 i_nlink;
	u32 i_rdev;
	u32 i_generation;
	struct hlist_head i_dentry;
} CORE;
struct address_space { struct inode *host; } CORE;
struct page { u64 compound_head; struct address_space *mapping; } CORE;
struct folio { struct address_space *mapping; } CORE;

struct file { struct inode *f_inode; } CORE;
struct kiocb { struct file *ki_filp; } CORE;
struct iomap_dio { struct kiocb *iocb; } CORE;
struct dio { struct inode *inode; } CORE;

/* All of it: there are several, one after the other. */
struct bio_vec { struct page *bv_page; u32 bv_len; u32 bv_offset; } CORE;
struct bvec_iter { u32 bi_size; u32 bi_idx; } CORE;
struct bio {
	struct bio *bi_next;
	struct bvec_iter bi_iter;
	void *bi_end_io;
	void *bi_private;
	struct bio_vec *bi_io_vec;
} CORE;
struct gendisk { int major; int first_minor; } CORE;
struct request_queue { struct gendisk *disk; } CORE;
struct request {
	struct request_queue *q;
	u32 cmd_flags;
	u32 __data_len;
	u64 __sector;
	struct bio *bio;
} CORE;
/* Before 5.17. */
struct request___old { struct gendisk *rq_disk; } CORE;
/* Before 5.11: then the tracepoints' first argument is the queue. */
struct hd_struct { int partno; } CORE;

#define S_IFMT 0170000
#define S_IFBLK 0060000
#define REQ_OP_MASK 0xff
#define REQ_OP_WRITE 1 /* 0: read */

static long (*bpf_probe_read_kernel_str)(void *dst, u32 size, const void *from) = (void *)115;

#define READ(to, from) bpf_probe_read_kernel(&(to), sizeof(to), from)
#define byte_offset(expr) __builtin_preserve_field_info(expr, 0)

#endif
