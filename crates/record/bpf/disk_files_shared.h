/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Layouts that disk_files.bpf.c and the Rust side (disk_files/layout.rs) share. Times are CLOCK_MONOTONIC ns.
 */
#ifndef TALLY_DISK_FILES_SHARED_H
#define TALLY_DISK_FILES_SHARED_H

/* Types of records. */
#define REC_PART 1 /* struct disk_part */
#define REC_NAME 2 /* struct disk_name */

/* Owner of the memory that a part of a request is read into or written from. */
#define OWNER_FILE 1   /* a file: its page cache, or direct I/O of it */
#define OWNER_DEVICE 2 /* the disk's own page cache: the file system's metadata, mostly */
#define OWNER_MEMORY 3 /* a process: direct I/O of a file that is not known */
#define OWNER_NONE 4   /* nobody: buffers of the file system, or of a layer below it */
#define OWNER_SWAP 5   /* a process, swapped */
#define OWNER_MORE 6   /* further parts that were not looked at */

#define PART_DIRECT 1  /* not by the page cache */
#define PART_KTHREAD 2 /* a kernel thread requested it */
#define PART_DELETED 4 /* the file has no link any more */

#define MOST_PARTS 32       /* files of one request that are kept apart; a power of two */
#define MOST_BIOS 256       /* bios of one request that are looked at */
#define MOST_COMPONENTS 24  /* of a path */
#define NAME_BYTES 2048     /* a power of two */
#define COMPONENT_BYTES 256 /* with its NUL */

/* One file's part of a request that goes to the driver. 64 bytes. */
struct disk_part {
	u32 type;
	u32 owner;
	u64 time_ns;
	u64 sector; /* of the request, 512 bytes each */
	u32 device; /* major << 20 | minor */
	u32 bytes;  /* of this part */
	u64 ino;
	u32 fs_device; /* of the file system */
	u32 generation;
	u32 flags;
	u32 pid; /* who requested it */
	u32 tid;
	u32 pad;
};

/* Name of a file. Its components follow from the last to the first, each with a NUL. */
struct disk_name {
	u32 type;
	u32 fs_device;
	u64 ino;
	u32 generation;
	u32 is_whole; /* up to the root of the file system */
};

/* Functions at the end of bios, by which one knows who made them; 0 if not known. */
struct disk_control {
	u64 chained;
	u64 direct;        /* iomap */
	u64 old_direct[2]; /* fs/direct-io.c */
	u64 raw_direct[3]; /* block/fops.c */
	u64 swapped[2];
};

#endif
