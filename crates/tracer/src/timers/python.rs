//! The frames of CPython's interpreter at a sample, copied by the sampled thread itself: it does nothing else meanwhile,
//! so nothing is torn. Copied are pointers to code objects and instructions; tally reads the names outside.
//!
//! All memory is read by a system call that fails where nothing is mapped: another thread may change the list of threads
//! meanwhile.

use core::sync::atomic::{AtomicU64, Ordering};

use super::Slots;
use super::slots::Slot;
use super::threads::thread_pointer;
use crate::layout::interpreter::*;
use crate::layout::slots::{PYTHON_TABLE, PYTHON_WORDS, word};
use crate::sys;

/// Thread states looked at for a thread that is not known yet.
const MAX_THREADS: usize = 512;
/// Most frames of a sample, each of which is a system call.
const MOST: usize = 1024;
/// Thread states known, by the last digits of the thread's id. Each is compared with its thread before it is used.
const KNOWN: usize = 256;
static STATES: [AtomicU64; KNOWN] = [const { AtomicU64::new(0) }; KNOWN];

/// Copies this thread's frames into its record, if its process runs Python that tally has found.
pub fn copy_frames(slots: Slots, slot: &mut Slot) {
    slot.set(word::PYTHON, 0);
    let Some(words) = process_words(slots) else { return };
    let of = InterpreterLayout::from_words(&words);
    let Some(state) = state_of(&of) else { return };
    let header = walk(&of, state, slot);
    slot.set(word::PYTHON, header);
}

/// The description of this process's interpreter.
fn process_words(slots: Slots) -> Option<[u64; PROCESS_WORDS]> {
    let pid = u64::from(sys::pid());
    let first = (0..PYTHON_TABLE).find(|&at| slots.python(at, 0).load(Ordering::Acquire) == pid)?;
    let words = core::array::from_fn(|at| slots.python(first, at + 1).load(Ordering::Relaxed));
    // tally may have given the entry to another process meanwhile.
    core::sync::atomic::fence(Ordering::Acquire);
    (slots.python(first, 0).load(Ordering::Relaxed) == pid).then_some(words)
}

fn read_word(at: u64) -> Option<u64> {
    let mut word = [0];
    sys::read_words(at, &mut word).then_some(word[0])
}

fn field(base: u64, offset: u32) -> Option<u64> {
    read_word(base.wrapping_add(u64::from(offset)))
}

/// The thread state of this thread: from the last time, or searched for.
fn state_of(of: &InterpreterLayout) -> Option<u64> {
    let known = &STATES[sys::tid() as usize % KNOWN];
    let before = known.load(Ordering::Relaxed);
    let is_own = |state: u64| field(state, of.thread_id) == Some(thread_pointer());
    if before != 0 && is_own(before) {
        return Some(before);
    }
    let found = find_state(of, &is_own)?;
    known.store(found, Ordering::Relaxed);
    Some(found)
}

fn find_state(of: &InterpreterLayout, is_own: &dyn Fn(u64) -> bool) -> Option<u64> {
    let mut interpreter = read_word(of.interpreters)?;
    let mut left = MAX_THREADS;
    while interpreter != 0 {
        let mut state = field(interpreter, of.interp_threads)?;
        while state != 0 {
            left = left.checked_sub(1)?;
            if is_own(state) {
                return Some(state);
            }
            state = field(state, of.thread_next)?;
        }
        left = left.checked_sub(1)?;
        interpreter = field(interpreter, of.interp_next)?;
    }
    None
}

/// The innermost frame; 0 if no Python runs.
fn innermost(of: &InterpreterLayout, state: u64) -> Option<u64> {
    let frame = field(state, of.thread_frame)?;
    if of.cframe_frame == NO_CFRAME || frame == 0 { Some(frame) } else { field(frame, of.cframe_frame) }
}

/// Copies the frames from the innermost on, in two words each; the number of words used, with flags.
fn walk(of: &InterpreterLayout, state: u64, slot: &mut Slot) -> u64 {
    let Some(mut frame) = innermost(of, state) else { return BROKEN };
    let mut last = Frame::default();
    let (mut used, mut repeats, mut copied) = (0, 0, 0);
    while frame != 0 {
        let Some((next, caller)) = read_frame(of, frame) else { return used as u64 | BROKEN };
        if next == last && repeats < 0xffff {
            // Recursion: hundreds of equal frames would fill the record.
            repeats += 1;
            slot.set_python(used - 2, last.code | (REPEAT * repeats));
        } else {
            if used + 2 > PYTHON_WORDS {
                return used as u64 | CUT;
            }
            slot.set_python(used, next.code);
            slot.set_python(used + 1, next.instruction);
            (last, repeats, used) = (next, 0, used + 2);
        }
        copied += 1;
        if copied == MOST {
            return used as u64 | CUT;
        }
        frame = caller;
    }
    used as u64
}

/// A frame as it is copied.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Frame {
    /// Its code object, and in the lowest bit whether it begins a group.
    code: u64,
    instruction: u64,
}

/// A frame and its caller's address; `None` if it can't be read.
fn read_frame(of: &InterpreterLayout, at: u64) -> Option<(Frame, u64)> {
    let mut words = [0; FRAME_MAX_BYTES / 8];
    let room = words.get_mut(..(of.frame_bytes as usize).div_ceil(8))?;
    if !sys::read_words(at, room) {
        return None;
    }
    let word = |at: u32| words.get(at as usize / 8).copied().filter(|_| at.is_multiple_of(8));
    let mark = (words.get(of.frame_kind as usize / 8)? >> (of.frame_kind % 8 * 8)) as u8;
    let is_entry = match of.kind {
        OBJECTS => true,
        SHIM => u32::from(mark) == of.shim_owner,
        _ => mark & 1 != 0,
    };
    let code = word(of.frame_code)? & CODE | u64::from(is_entry);
    Some((Frame { code, instruction: word(of.frame_instr)? }, word(of.frame_back)?))
}
