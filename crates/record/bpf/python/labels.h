/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * The labels that a program gave the goroutine of the present thread (runtime/pprof). A set of labels never changes
 * once a goroutine has it, and isn't freed meanwhile: only memory that is not there can spoil a copy.
 *
 * Source: runtime/pprof/label.go and internal/runtime/pprof/label, Go 1.24 to 1.27: a list; Go 1.18 to 1.23: a map
 */
#ifndef TALLY_PYTHON_LABELS_H
#define TALLY_PYTHON_LABELS_H

#define MAP_MOST 8 /* a map with as many has one bucket */
#define MAP_MIN_TOP 5 /* Source: runtime/map.go, minTopHash: smaller marks are those of free places */
#define LOWEST_ADDRESS 4096
#define LIST_MOST 65536 /* no program has so many */

struct go_string { u64 at, bytes; };

/* Where copying labels is. */
struct labelling {
	struct py_ring *ring;
	u64 at;
	u64 flags;
	u64 count; /* labels, or places in a map's bucket */
	u64 keys; /* the first one's key */
	u64 key_step; /* bytes from there to the next one's */
	u64 value_after; /* bytes from a key to its value */
	u64 used; /* marks of the bucket's places; 0 = it is a list */
};

/* Copies a text of a label; the number of bytes kept. */
INLINE u64 copy_text(struct labelling *l, struct go_string text)
{
	u64 bytes = text.bytes;

	if (bytes > PY_LABEL_BYTES) {
		bytes = PY_LABEL_BYTES;
		l->flags |= PY_CUT;
	}
	barrier_var(bytes);
	if (!bytes || bytes > PY_LABEL_BYTES)
		return 0;
	if (bpf_probe_read_user(l->ring->frame, bytes, (void *)text.at)) {
		l->flags |= PY_BROKEN;
		return 0;
	}
	for (u32 word = 0; word < PY_LABEL_BYTES / 8; word++) {
		if (word * 8 >= bytes)
			break;
		put(l->ring, l->at + word, *(u64 *)(l->ring->frame + word * 8));
	}
	l->at += (bytes + 7) / 8;
	return bytes;
}

/* 1 = it was the last. */
static long copy_label(u32 index, struct labelling *l)
{
	struct go_string key = {}, value = {};
	u64 at = l->keys + index * l->key_step, lengths = l->at;

	if (index >= l->count)
		return 1;
	if (l->used && (l->used >> (index * 8 & 63) & 0xff) < MAP_MIN_TOP)
		return 0;
	if (bpf_probe_read_user(&key, sizeof(key), (void *)at) ||
	    bpf_probe_read_user(&value, sizeof(value), (void *)(at + l->value_after))) {
		l->flags |= PY_BROKEN;
		return 1;
	}
	l->at++;
	key.bytes = copy_text(l, key);
	value.bytes = copy_text(l, value);
	put(l->ring, lengths, value.bytes << 32 | key.bytes);
	return 0;
}

/* Finds the labels of a map at this address, whose count has been read. */
INLINE void find_in_map(struct labelling *l, u64 map, u64 count)
{
	u64 head[3] = {};

	/* The second byte of the second word is the logarithm of the number of buckets, the third word the first one. */
	if (bpf_probe_read_user(head, sizeof(head), (void *)map) || !head[2]) {
		l->flags |= PY_BROKEN;
		return;
	}
	if (count > MAP_MOST || head[1] >> 8 & 0xff) {
		l->flags |= PY_CUT;
		return;
	}
	l->used = read_word(head[2]);
	if (!l->used)
		l->flags |= PY_BROKEN;
	l->keys = head[2] + MAP_MOST;
	l->count = MAP_MOST;
	l->key_step = sizeof(struct go_string);
	l->value_after = MAP_MOST * sizeof(struct go_string);
}

/* Finds the labels at this address: a list's slice, or a pointer to a map. 0 = there are none. */
INLINE int find_labels(struct labelling *l, u64 address)
{
	u64 first = 0, word = 0, lengths[2] = {};

	if (bpf_probe_read_user(&first, 8, (void *)address))
		goto broken;
	if (!first)
		return 0;
	/* A map begins with the number of its labels, a list with the address of a text. */
	if (bpf_probe_read_user(&word, 8, (void *)first))
		goto broken;
	if (!word)
		return 0;
	if (word < LOWEST_ADDRESS) {
		find_in_map(l, first, word);
		return 1;
	}
	if (bpf_probe_read_user(lengths, sizeof(lengths), (void *)(address + 8)) || lengths[0] > LIST_MOST ||
	    lengths[1] < lengths[0])
		goto broken;
	l->keys = first;
	l->count = lengths[0];
	l->key_step = 2 * sizeof(struct go_string);
	l->value_after = sizeof(struct go_string);
	return l->count != 0;
broken:
	l->flags |= PY_BROKEN;
	return 1;
}

static __attribute__((noinline)) u64 copy_labels(struct py_ring *ring, u64 address)
{
	struct labelling l = { .ring = ring };

	if (!ring)
		return 0;
	l.at = ring->head + PY_HEAD_WORDS;
	if (!find_labels(&l, address))
		return 0;
	if (l.count > PY_MAX_LABELS) {
		l.count = PY_MAX_LABELS;
		l.flags |= PY_CUT;
	}
	if (!(l.flags & PY_BROKEN))
		bpf_loop(PY_MAX_LABELS, copy_label, &l, 0);
	return (l.at - ring->head) | l.flags;
}

/* Copies the labels of the thread's goroutine, if it has some. */
INLINE void look_at_labels(struct go_thread *thread, struct py_ring *ring, struct task_struct___py *task, u64 kind, u64 now)
{
	u64 address, used;

	if (!thread->of->labels || !thread->curg)
		return;
	address = read_word(thread->curg + thread->of->labels);
	if (!address || !has_room(ring, PY_HEAD_WORDS + PY_MAX_LABELS * (1 + 2 * PY_LABEL_BYTES / 8)))
		return;
	used = copy_labels(ring, address);
	if (!used)
		return;
	put_head(ring, kind << 32 | used, now, task, address);
	publish(ring, ring->head + (u32)used);
}

#endif
