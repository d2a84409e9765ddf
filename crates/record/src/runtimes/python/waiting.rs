//! Frames of threads that wait already when a process is found: their stacks don't change, and are read from outside.

use std::fs::File;

use dso::system_file;
use tracer::layout::interpreter::{FRAME_MAX_BYTES, InterpreterLayout};

use super::binary::Interpreter;
use super::frames::read_memory;
use super::layout::{RawFrame, layout_of};
use crate::machine::proc;

/// Thread states and frames read at most.
const MOST: usize = 4096;
/// Where glibc and its `struct pthread` keep the kernel's number of a thread on x86-64.
// Source: glibc 2.17 to 2.39 nptl/descr.h, struct pthread: tid
const TID_IN_PTHREAD: u64 = 0x2d0;

/// The threads of a process that wait, with their frames, innermost first. A thread that ran meanwhile is left out.
pub fn waiting_threads(pid: u32, memory: &File, interpreter: &Interpreter) -> Vec<(u32, Vec<RawFrame>)> {
    let tids = proc::threads(pid).unwrap_or_default();
    let reader = StateReader::new(memory, interpreter);
    let mut found = Vec::new();
    for state in reader.states() {
        let Some(tid) = reader.tid_of(state).filter(|tid| tids.contains(tid)) else { continue };
        let Some(before) = runs_of_waiting(pid, tid) else { continue };
        let frames = reader.frames_of(state);
        if runs_of_waiting(pid, tid) == Some(before) {
            found.extend(frames.map(|frames| (tid, frames)));
        }
    }
    found
}

/// How often a thread that doesn't run now has run; `None` if it runs or can't be read.
fn runs_of_waiting(pid: u32, tid: u32) -> Option<u64> {
    let stat = system_file::read(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    let is_waiting = matches!(proc::state_letter(&stat)?, b'S' | b'D' | b'T' | b't');
    // Layout: time on a CPU, time in a run queue, number of runs
    // Source: linux v6.18 fs/proc/base.c, proc_pid_schedstat()
    let text = system_file::read_text(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    text.split_whitespace().nth(2)?.parse().ok().filter(|_| is_waiting)
}

/// Reads thread states and their frames from outside.
pub struct StateReader<'p> {
    memory: &'p File,
    layout: InterpreterLayout,
}

impl<'p> StateReader<'p> {
    /// State of the process that `memory` is of.
    #[must_use]
    pub fn new(memory: &'p File, interpreter: &Interpreter) -> Self {
        Self { memory, layout: layout_of(&interpreter.offsets, interpreter.runtime) }
    }

    fn read(&self, address: u64, words: &mut [u64]) -> bool {
        let mut bytes = [0; FRAME_MAX_BYTES];
        let Some(part) = bytes.get_mut(..words.len() * 8) else { return false };
        let is_read = read_memory(self.memory, address, part);
        for (word, bytes) in words.iter_mut().zip(part.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        is_read
    }

    /// All thread states of all interpreters.
    #[must_use]
    pub fn states(&self) -> Vec<u64> {
        let mut states = Vec::new();
        self.layout.find_state(&|at, words| self.read(at, words), MOST, &mut |state| {
            states.push(state);
            false
        });
        states
    }

    /// The kernel's id of a thread state's thread; `None` if it can't be read.
    #[must_use]
    pub fn tid_of(&self, state: u64) -> Option<u32> {
        let pthread = self.layout.thread_of(&|at, words| self.read(at, words), state)?;
        let mut word = [0];
        let is_read = self.read(pthread.wrapping_add(TID_IN_PTHREAD), &mut word);
        is_read.then_some((word[0] & 0xffff_ffff) as u32)
    }

    /// Address and code object of each frame, innermost first; `None` if not all of them can be read.
    #[must_use]
    pub fn frame_addresses(&self, state: u64) -> Option<Vec<(u64, u64)>> {
        let read = |at: u64, words: &mut [u64]| self.read(at, words);
        let mut at = self.layout.innermost(&read, state)?;
        let mut frames = Vec::new();
        while at != 0 {
            let (frame, caller) = self.layout.frame(&read, at)?;
            frames.push((at, frame.code));
            if frames.len() == MOST {
                return None;
            }
            at = caller;
        }
        Some(frames)
    }

    /// A thread state's frames, innermost first; `None` if not all of them can be read.
    #[must_use]
    pub fn frames_of(&self, state: u64) -> Option<Vec<RawFrame>> {
        let read = |at: u64, words: &mut [u64]| self.read(at, words);
        let mut at = self.layout.innermost(&read, state)?;
        let mut frames = Vec::new();
        while at != 0 {
            let (frame, caller) = self.layout.frame(&read, at)?;
            frames.push(frame);
            if frames.len() == MOST {
                return None;
            }
            at = caller;
        }
        Some(frames)
    }
}
