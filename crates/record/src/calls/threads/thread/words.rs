//! The words that a thread's calls are written as, and those held back until it is known that they are wanted.

use std::io;
use std::path::Path;

use perfdata::PidTid;
use tracer::layout as file;
use tracer::layout::{ThreadHeader, sleds};

use super::{CallEnd, HELD_BYTES, Mark, Open, Thread};
use crate::calls::call_gate::CallFilters;

impl Thread {
    /// Writes the entries of all that is open and held; how many.
    pub(super) fn write_held(&mut self) -> u64 {
        let mut calls = 0;
        for at in 0..self.open.len() {
            if std::mem::take(&mut self.open[at].held) {
                self.open[at].written = true;
                self.write_entry(self.open[at]);
                calls += 1;
            }
        }
        calls
    }

    pub(super) fn write_entry(&mut self, Open { address, entered_ns: time_ns, .. }: Open) {
        self.set_time(time_ns);
        if address >> file::ADDR_BITS != self.addr_high {
            self.addr_high = address >> file::ADDR_BITS;
            self.push(file::control_word(file::CONTROL_ADDR_HIGH, self.addr_high));
        }
        self.push(file::entry_word(address, time_ns));
    }

    pub(super) fn close_at(&mut self, at: usize, time_ns: u64, end: CallEnd) {
        let open = self.open.remove(at);
        if !open.in_kernel {
            self.stacks.remove(open.stack, open.sp);
            self.gate.leave(open.rules, open.written || open.held);
        }
        if !open.written || self.takes_back(&open, at, time_ns) {
            return;
        }
        self.set_time(time_ns);
        let below = self.open[at..].iter().filter(|inner| inner.written).count();
        if below > 0 {
            self.push(file::control_word(file::CONTROL_BELOW, below as u64));
        }
        self.push(match end {
            CallEnd::Returned => file::exit_word(time_ns),
            CallEnd::Left => file::control_word(file::CONTROL_UNWOUND, time_ns),
        });
    }

    /// Where to go back to if a call of the function that begins now is not slow.
    pub(super) fn mark(&self, filters: &CallFilters, function: u32) -> Option<Mark> {
        if filters.of(function) & sleds::SLOW == 0 {
            return None;
        }
        let least_ns = filters.slow_ns.get(function as usize).copied().unwrap_or(0).into();
        Some(Mark { least_ns, at: self.bytes.len(), block: self.blocks, calls: self.calls })
    }

    /// Whether a call is open that may have to be taken back, and that can be.
    pub fn holds_back(&self) -> bool {
        let may_go = |open: &Open| open.unless_slow.is_some_and(|mark| mark.block == self.blocks);
        self.bytes.len() < HELD_BYTES && self.open.iter().any(may_go)
    }

    /// Takes back the call at index `at` of the open ones, with all calls in it, if it was quick.
    fn takes_back(&mut self, open: &Open, at: usize, time_ns: u64) -> bool {
        let Some(mark) = open.unless_slow else { return false };
        let is_slow = time_ns.saturating_sub(open.entered_ns) >= mark.least_ns;
        // A call open on another stack began inside this one.
        if is_slow || mark.block != self.blocks || at < self.open.len() {
            return false;
        }
        self.bytes.truncate(mark.at);
        self.calls = mark.calls;
        // The removed part may have held the high parts.
        (self.time_high, self.addr_high) = (u64::MAX, u64::MAX);
        true
    }

    pub(super) fn off_cpu(&mut self, mut ns: u64) {
        while ns > 0 {
            let part = ns.min(u64::from(u32::MAX));
            self.push(file::control_word(file::CONTROL_OFF_CPU, part));
            ns -= part;
        }
    }

    fn set_time(&mut self, time_ns: u64) {
        if self.bytes.is_empty() && self.file.is_new() {
            (self.first_ns, self.time_high) = (time_ns, time_ns >> 32);
        }
        if time_ns >> 32 != self.time_high {
            self.time_high = time_ns >> 32;
            self.push(file::control_word(file::CONTROL_TIME_HIGH, self.time_high));
        }
    }

    pub(super) fn push(&mut self, word: u64) {
        self.bytes.extend(word.to_le_bytes());
    }

    /// Hands what is held to the file of this process and thread in `dir`; 0 bytes: all of it is kept there.
    pub fn flush(&mut self, dir: &Path, task: PidTid, keep_bytes: u64) -> io::Result<()> {
        let PidTid { pid, tid } = task;
        if self.bytes.is_empty() {
            return Ok(());
        }
        // Times are ns already: counter and clock are one.
        let first = self.first_ns;
        let header = ThreadHeader { pid, tid, tsc: first, monotonic_ns: first, first: 0 };
        self.file.append(&dir.join(format!("{pid}-{tid}-0.calls")), &header, &self.bytes, keep_bytes)?;
        self.bytes.clear();
        self.blocks += 1;
        if keep_bytes > 0 {
            // Earlier high parts of times and addresses may be dropped, so the next block repeats them.
            (self.time_high, self.addr_high) = (u64::MAX, u64::MAX);
        }
        Ok(())
    }
}
