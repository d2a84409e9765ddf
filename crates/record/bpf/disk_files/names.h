/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* Names of files, by the directory entries that the kernel keeps for them. */
#ifndef TALLY_DISK_FILES_NAMES_H
#define TALLY_DISK_FILES_NAMES_H

INLINE void send_name(struct scratch *s, struct inode *inode)
{
	struct hlist_node *alias = 0;
	struct dentry *entry = 0, *parent = 0;
	u64 used = 0;
	s64 length;

	READ(alias, &inode->i_dentry.first);
	if (!alias)
		return;
	entry = (void *)alias - byte_offset(entry->d_u.d_alias);
	for (u32 i = 0; i < MOST_COMPONENTS; i++) {
		const unsigned char *name = 0;

		if (READ(parent, &entry->d_parent) || READ(name, &entry->d_name.name))
			return;
		if (parent == entry) {
			s->name.is_whole = 1;
			break;
		}
		used &= NAME_BYTES - 1;
		barrier_var(used);
		if (used > NAME_BYTES - 1)
			return;
		length = bpf_probe_read_kernel_str(&s->text[used], COMPONENT_BYTES, name);
		if (length <= 0)
			return;
		used += length;
		if (used >= NAME_BYTES)
			break;
		entry = parent;
	}
	barrier_var(used);
	if (used > NAME_BYTES + COMPONENT_BYTES)
		return;
	struct file_key key = {
		.ino = s->name.ino, .fs_device = s->name.fs_device, .generation = s->name.generation
	};
	u32 one = 1;

	if (send(&s->name, sizeof(s->name) + used))
		bpf_map_update_elem(&disk_known, &key, &one, BPF_ANY);
}

/* Fills the part's numbers of its file, and sends its name unless that was done before. */
INLINE void name_file(struct scratch *s, struct disk_part *p, struct inode *inode)
{
	struct super_block *sb = 0;
	struct file_key key = {};
	u32 links = 0;

	if (p->owner == OWNER_DEVICE) {
		READ(p->fs_device, &inode->i_rdev);
		return;
	}
	READ(p->ino, &inode->i_ino);
	READ(p->generation, &inode->i_generation);
	READ(links, &inode->i_nlink);
	if (!READ(sb, &inode->i_sb) && sb)
		READ(p->fs_device, &sb->s_dev);
	if (!links)
		p->flags |= PART_DELETED;
	key.ino = p->ino;
	key.fs_device = p->fs_device;
	key.generation = p->generation;
	if (bpf_map_lookup_elem(&disk_known, &key))
		return;
	s->name.type = REC_NAME;
	s->name.ino = p->ino;
	s->name.fs_device = p->fs_device;
	s->name.generation = p->generation;
	s->name.is_whole = 0;
	send_name(s, inode);
}

#endif
