/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * Layouts that python.bpf.c and the Rust side share. `python/layout.rs` repeats them.
 *
 * All times are CLOCK_MONOTONIC ns. All ids are those of the initial pid namespace.
 */
#ifndef TALLY_PYTHON_SHARED_H
#define TALLY_PYTHON_SHARED_H

/* How an interpreter keeps its frames. */
#define FRAMES_OBJECTS 1 /* 3.8 to 3.10: PyFrameObject, one per C frame */
#define FRAMES_ENTRY 2   /* 3.11: _PyInterpreterFrame with is_entry */
#define FRAMES_SHIM 3    /* 3.12 and later: a frame on the C stack begins each group */

/* An interpreter's frames and where their fields are, in bytes. Value of `processes`, by process id. */
struct py_process {
	unsigned long long mm; /* the address space described; 0 = whichever the process has */
	unsigned long long interpreters; /* address of the pointer to the first interpreter */
	unsigned int kind; /* FRAMES_* */
	unsigned int interp_next;
	unsigned int interp_threads;
	unsigned int thread_next;
	unsigned int thread_id;
	unsigned int thread_frame;  /* of the innermost frame, or of the `_PyCFrame` */
	unsigned int cframe_frame;  /* in a `_PyCFrame`; NO_CFRAME = there is none */
	unsigned int frame_bytes;   /* to read of each frame */
	unsigned int frame_code;
	unsigned int frame_back;
	unsigned int frame_instr;   /* a pointer, or an int of FRAMES_OBJECTS */
	unsigned int frame_kind;    /* one byte: is_entry, or owner */
	unsigned int shim_owner;    /* owner of a frame on the C stack */
	unsigned int spare;
};

/* Where Go's runtime has what leads from a thread to its goroutine, in bytes. Value of `go_layouts`; g_m 0 = none. */
struct go_layout {
	unsigned int g_m; /* in a G: the M it runs on */
	unsigned int m_g0; /* in an M: the G of its own stack */
	unsigned int m_curg; /* the goroutine that it runs */
	unsigned int sched_sp; /* in a G: where it left off */
	unsigned int sched_pc;
	unsigned int sched_bp;
	unsigned int labels; /* in a G: a pointer to its labels; 0 = this program sets none */
	unsigned int spare;
};

#define GO_LAYOUTS 8
#define GO_TLS (-8LL) /* where a thread keeps its G, from the thread pointer, in programs that Go linked */

#define NO_CFRAME 0xffffffff
#define FRAME_MAX_BYTES 128

/* Records, in words: header, time, process << 32 | thread, then by kind. The header is kind << 32 | words. */
#define PY_SAMPLE 1 /* at a sample: thread state, then two words for each frame, innermost first */
#define PY_SWITCH 2 /* where the thread left its CPU: the same */
#define PY_ASK 3    /* an unknown process runs: its address space */
#define PY_GO 4     /* at a sample of a Go thread on its own stack: its stack pointer, then a word for each frame of its
		     * goroutine: where it left off, the word at its stack pointer (0: its frame begins there), and
		     * the addresses that calls return to. No word: it has left the goroutine. */
#define PY_GO_SWITCH 5 /* where the thread left its CPU: the same, if it has not left the goroutine */
#define PY_GO_LABELS 6 /* at a sample: address of the goroutine's labels, then for each its lengths in bytes, value's
			* << 32 | key's, and the words of both */
#define PY_GO_LABELS_SWITCH 7 /* where the thread left its CPU: the same */
#define PY_CUT (1ULL << 40)     /* in the header: more frames or labels than kept, or a longer text */
#define PY_BROKEN (1ULL << 41)  /* a frame or label could not be read */
#define PY_SKIPPED (1ULL << 42) /* the thread switches too often to look each time */

/* The lowest bit of a frame's first word (its code object): the first frame of a C frame's group. */
#define PY_ENTRY 1
#define PY_CODE 0x0000fffffffffff8ULL /* the address in a frame's first word */
#define GO_ADDRESS 0x0000ffffffffffffULL /* the address in a goroutine's word */
#define PY_REPEAT (1ULL << 48) /* in its highest 16 bits: how many more such frames follow */

#define PY_MAX_LABELS 16
#define PY_LABEL_BYTES 128 /* kept of a key, and of a value; fits `frame` */

#define PY_HEAD_WORDS 4
#define PY_MAX_FRAMES 4096
#define PY_RING_WORDS 65536 /* a power of two */

/* A ring per CPU, which only programs on that CPU write. They read `tail`, and user space `head`. */
struct py_ring {
	unsigned long long head; /* words written, ever */
	unsigned long long busy; /* a program is writing: another that interrupts it leaves the ring alone */
	unsigned long long dropped; /* records there was no room for */
	unsigned long long interrupted; /* records left out because of `busy` */
	unsigned long long spare[4];
	unsigned long long tail; /* words read, ever; by user space */
	unsigned long long spare_of_reader[7];
	unsigned char frame[FRAME_MAX_BYTES]; /* room for the frame being read */
	unsigned long long words[PY_RING_WORDS];
};

#endif
