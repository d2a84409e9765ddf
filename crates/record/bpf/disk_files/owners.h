/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* Owner of a bio's memory: the page cache knows its file, and direct I/O the descriptor's. */
#ifndef TALLY_DISK_FILES_OWNERS_H
#define TALLY_DISK_FILES_OWNERS_H

INLINE void owned_by_file(struct owner *o, struct inode *inode)
{
	u16 mode = 0;

	o->inode = inode;
	READ(mode, &inode->i_mode);
	o->kind = (mode & S_IFMT) == S_IFBLK ? OWNER_DEVICE : OWNER_FILE;
}

/* By the page. Parts of a large page refer to its head. */
INLINE void owned_by_page(struct owner *o, struct page *page)
{
	struct folio *folio = (void *)page;
	struct inode *inode = 0;
	u64 mapping = 0, head = 0;

	o->kind = OWNER_NONE;
	if (!page)
		return;
	if (field_exists(page->compound_head)) {
		READ(head, &page->compound_head);
		if (head & 1)
			page = (void *)(head - 1);
	}
	if (field_exists(page->mapping)) {
		READ(mapping, &page->mapping);
	} else {
		folio = (void *)page;
		READ(mapping, &folio->mapping);
	}
	if (mapping & 3) {
		o->kind = OWNER_MEMORY;
		return;
	}
	if (mapping && !READ(inode, &((struct address_space *)mapping)->host) && inode)
		owned_by_file(o, inode);
}

/* The inode that direct I/O is for; 0 if it is none. */
INLINE struct inode *direct_inode(u64 end, void *made_by, struct disk_control *c)
{
	struct iomap_dio *iomap = made_by;
	struct dio *old = made_by;
	struct kiocb *kiocb = 0;
	struct file *file = 0;
	struct inode *inode = 0;

	if (field_exists(iomap->iocb) && end == c->direct) {
		if (!READ(kiocb, &iomap->iocb) && kiocb && !READ(file, &kiocb->ki_filp) && file)
			READ(inode, &file->f_inode);
	} else if (field_exists(old->inode) && (end == c->old_direct[0] || end == c->old_direct[1])) {
		READ(inode, &old->inode);
	}
	return inode;
}

INLINE void find_owner(struct owner *o, struct bio *bio, struct disk_control *c)
{
	struct bio_vec *vec = 0;
	struct page *page = 0;
	struct inode *inode;
	void *made_by = 0;
	u64 end = 0;
	u32 first = 0;

	READ(vec, &bio->bi_io_vec);
	READ(first, &bio->bi_iter.bi_idx);
	READ(end, &bio->bi_end_io);
	READ(made_by, &bio->bi_private);
	/* A part of a larger bio. */
	for (u32 i = 0; i < 2 && end && end == c->chained; i++) {
		struct bio *whole = made_by;

		READ(end, &whole->bi_end_io);
		READ(made_by, &whole->bi_private);
	}
	if (end) {
		inode = direct_inode(end, made_by, c);
		if (inode) {
			o->flags = PART_DIRECT;
			owned_by_file(o, inode);
			return;
		}
		if (end == c->raw_direct[0] || end == c->raw_direct[1] || end == c->raw_direct[2]) {
			o->flags = PART_DIRECT;
			o->kind = OWNER_DEVICE;
			return;
		}
		if (end == c->swapped[0] || end == c->swapped[1]) {
			o->kind = OWNER_SWAP;
			return;
		}
	}
	if (vec)
		READ(page, &vec[first].bv_page);
	owned_by_page(o, page);
	if (o->kind == OWNER_MEMORY)
		o->flags = PART_DIRECT;
}

#endif
