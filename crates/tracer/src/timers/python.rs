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

/// The thread state of this thread: from the last time, or searched for.
fn state_of(of: &InterpreterLayout) -> Option<u64> {
    let known = &STATES[sys::tid() as usize % KNOWN];
    let before = known.load(Ordering::Relaxed);
    let is_own = |state: u64| of.thread_of(&sys::read_words, state) == Some(thread_pointer());
    if before != 0 && is_own(before) {
        return Some(before);
    }
    let found = of.find_state(&sys::read_words, MAX_THREADS, &mut { is_own })?;
    known.store(found, Ordering::Relaxed);
    Some(found)
}

/// Copies the frames from the innermost on, in two words each; the number of words used, with flags.
fn walk(of: &InterpreterLayout, state: u64, slot: &mut Slot) -> u64 {
    let Some(mut at) = of.innermost(&sys::read_words, state) else { return BROKEN };
    let mut last = None;
    let (mut used, mut repeats, mut copied) = (0, 0, 0);
    while at != 0 {
        let Some((frame, caller)) = of.frame(&sys::read_words, at) else { return used as u64 | BROKEN };
        let code = frame.code | u64::from(frame.is_entry);
        if last == Some(frame) && repeats < 0xffff {
            // Recursion: hundreds of equal frames would fill the record.
            repeats += 1;
            slot.set_python(used - 2, code | (REPEAT * repeats));
        } else {
            if used + 2 > PYTHON_WORDS {
                return used as u64 | CUT;
            }
            slot.set_python(used, code);
            slot.set_python(used + 1, frame.instruction);
            (last, repeats, used) = (Some(frame), 0, used + 2);
        }
        copied += 1;
        if copied == MOST {
            return used as u64 | CUT;
        }
        at = caller;
    }
    used as u64
}
