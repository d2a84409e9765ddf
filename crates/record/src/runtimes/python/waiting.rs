//! Frames of threads that wait already when a process is found: their stacks don't change, and are read from outside.

use std::fs::File;

use dso::system_file;

use super::binary::Interpreter;
use super::frames::read_memory;
use super::layout::RawFrame;
use super::versions::{FrameKind, OWNED_BY_C_STACK};
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
    interpreter: &'p Interpreter,
}

impl<'p> StateReader<'p> {
    /// Of the process that `memory` is of.
    #[must_use]
    pub const fn new(memory: &'p File, interpreter: &'p Interpreter) -> Self {
        Self { memory, interpreter }
    }

    fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        read_memory(self.memory, address, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }

    fn word_at(&self, base: u64, offset: u32) -> Option<u64> {
        self.word(base.wrapping_add(offset.into()))
    }

    /// All thread states of all interpreters.
    #[must_use]
    pub fn states(&self) -> Vec<u64> {
        let offsets = &self.interpreter.offsets;
        let mut states = Vec::new();
        let mut interpreter = self.word_at(self.interpreter.runtime, offsets.interpreters);
        while let Some(at) = interpreter.filter(|&at| at != 0 && states.len() < MOST) {
            let mut state = self.word_at(at, offsets.interp_threads);
            while let Some(this) = state.filter(|&this| this != 0 && states.len() < MOST) {
                states.push(this);
                state = self.word_at(this, offsets.thread_next);
            }
            interpreter = self.word_at(at, offsets.interp_next).filter(|_| !states.is_empty());
        }
        states
    }

    /// The kernel's id of a thread state's thread; `None` if it can't be read.
    #[must_use]
    pub fn tid_of(&self, state: u64) -> Option<u32> {
        let pthread = self.word_at(state, self.interpreter.offsets.thread_id)?;
        Some((self.word(pthread.wrapping_add(TID_IN_PTHREAD))? & 0xffff_ffff) as u32)
    }

    /// A thread state's frames, innermost first; `None` if not all of them can be read.
    #[must_use]
    pub fn frames_of(&self, state: u64) -> Option<Vec<RawFrame>> {
        let offsets = &self.interpreter.offsets;
        let mut frame = self.word_at(state, offsets.thread_frame)?;
        if let Some(in_cframe) = offsets.cframe_frame.filter(|_| frame != 0) {
            frame = self.word_at(frame, in_cframe)?;
        }
        let mut frames = Vec::new();
        while frame != 0 {
            let kind = (self.word_at(frame, offsets.frame_kind)? & 0xff) as u32;
            frames.push(RawFrame {
                code: self.word_at(frame, offsets.frame_code)?,
                instruction: self.word_at(frame, offsets.frame_instr)?,
                is_entry: match offsets.kind {
                    FrameKind::Objects => true,
                    FrameKind::Entry => kind != 0,
                    FrameKind::Shim => kind == OWNED_BY_C_STACK,
                },
            });
            if frames.len() == MOST {
                return None;
            }
            frame = self.word_at(frame, offsets.frame_back)?;
        }
        Some(frames)
    }
}
