//! Entries and exits → calls, thread by thread, in the files of `tracer::layout`.
//!
//! A call is known by the place of its return address on the stack. When a thread is at a place again on the same
//! stack ([`super::stacks`]), the calls below that place were left without returning.

mod thread;

use std::io;
use std::path::{Path, PathBuf};

use super::CallEvent;
use super::call_gate::CallFilters;
use crate::files::output_file;
use perfdata::PidTid;
use rustc_hash::{FxHashMap, FxHashSet};

use thread::Thread;

/// Events of a thread are written when they are this many bytes.
const FLUSH_BYTES: usize = 64 << 10;

/// Addresses of functions and kernel parts in the address space of the files.
#[derive(Clone, Debug, Default)]
pub struct CallAddresses {
    /// Address of each function, by its number.
    pub functions: Vec<u64>,
    /// Whether it may end by a jump to another function that is not seen.
    pub jumps_out: Vec<bool>,
    /// Address of system call 0; number n is n higher.
    pub system_calls: u64,
    /// Address of page faults.
    pub fault: u64,
    /// Address of block requests.
    pub block: u64,
    /// Address of kernel function 0; number n is n higher.
    pub kernel_functions: u64,
    /// Lines for these addresses, in the format of `/proc/PID/maps`.
    pub maps: String,
}

/// The functions of a recording: where they are, and which of their calls are written.
#[derive(Clone, Debug, Default)]
pub struct FunctionRules {
    /// Addresses by number.
    pub addresses: CallAddresses,
    /// Filters by number.
    pub filters: CallFilters,
}

/// Sums over what was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WrittenCalls {
    /// Calls entered.
    pub calls: u64,
    /// Returns from calls whose entry was not seen, though all probes were in place.
    pub strays: u64,
    /// The most calls that were open in a thread at once.
    pub deepest: usize,
}

/// Writes a folder of calls.
pub struct CallFolder {
    dir: PathBuf,
    rules: FunctionRules,
    threads: FxHashMap<PidTid, Thread>,
    processes: FxHashSet<u32>,
    start_ns: u64,
    /// Counts of the written calls.
    pub written: WrittenCalls,
}

impl CallFolder {
    /// Into an existing folder; at `start_ns` all probes were in place.
    #[must_use]
    pub fn new(dir: &Path, rules: FunctionRules, start_ns: u64) -> Self {
        Self {
            dir: dir.to_owned(),
            rules,
            threads: FxHashMap::default(),
            processes: FxHashSet::default(),
            start_ns,
            written: WrittenCalls::default(),
        }
    }

    /// Takes a thread's next event.
    ///
    /// # Errors
    /// If a file can't be written.
    pub fn take(&mut self, event: &CallEvent) -> io::Result<()> {
        let task = PidTid { pid: event.pid, tid: event.tid };
        let thread = self.threads.entry(task).or_insert_with(|| Thread::new(&self.rules.filters));
        if thread.is_double(event) {
            return Ok(());
        }
        let (before, strays) = (thread.calls, self.written.strays);
        thread.take(event, &self.rules, &mut self.written);
        self.written.calls = self.written.calls + thread.calls - before;
        self.written.deepest = self.written.deepest.max(thread.depth());
        if event.time_ns < self.start_ns {
            // While probes are put in place, ends are seen of calls whose entries are not yet.
            self.written.strays = strays;
        }
        // Blocks are dropped whole, so they are short where few bytes are kept.
        let block = match self.rules.filters.keep_bytes {
            0 => FLUSH_BYTES,
            keep => FLUSH_BYTES.min(keep as usize / 8),
        };
        if thread.bytes.len() >= block && !thread.holds_back() {
            thread.flush(&self.dir, task, self.rules.filters.keep_bytes)?;
        }
        if self.processes.insert(event.pid) {
            let head = format!("tsc {0} monotonic_ns {0}\n", self.start_ns);
            let path = self.dir.join(format!("{}-0.maps", event.pid));
            output_file::write_part(&path, head + &self.rules.addresses.maps)?;
        }
        Ok(())
    }

    /// Writes what there is so far: who kills tally loses no more than came since.
    ///
    /// # Errors
    /// If a file can't be written.
    pub fn flush(&mut self) -> io::Result<()> {
        let keep_bytes = self.rules.filters.keep_bytes;
        let mut ready = self.threads.iter_mut().filter(|(_, thread)| !thread.holds_back());
        ready.try_for_each(|(key, thread)| thread.flush(&self.dir, *key, keep_bytes))
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// If a file can't be written.
    pub fn finish(mut self) -> io::Result<WrittenCalls> {
        let keep_bytes = self.rules.filters.keep_bytes;
        self.threads.iter_mut().try_for_each(|(key, thread)| thread.flush(&self.dir, *key, keep_bytes))?;
        Ok(self.written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::CallEventKind;
    use std::fs;
    use tracer::layout::{self as file, HEADER_BYTES};

    const FUNCTION: u64 = 0x10_0000;
    const SYSTEM: u64 = 0x20_0000;
    const BLOCK: u64 = 0x30_0000;
    const KERNEL: u64 = 0x40_0000;

    fn event(kind: CallEventKind, time_ns: u64, function: u32) -> CallEvent {
        let sp = if matches!(kind, CallEventKind::Enter | CallEventKind::Exit) { 0x7000 } else { 0 };
        CallEvent {
            time_ns,
            sp,
            tid: 7,
            pid: 7,
            function,
            kind,
            generation: false,
            loops: false,
            maybe: false,
        }
    }

    /// The words of entries and exits written to the file for these events.
    fn written(name: &str, events: &[CallEvent]) -> Vec<u64> {
        let dir = std::env::temp_dir().join(format!("tally-folder-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder");
        let addresses = CallAddresses {
            functions: vec![FUNCTION],
            system_calls: SYSTEM,
            block: BLOCK,
            kernel_functions: KERNEL,
            ..CallAddresses::default()
        };
        let mut folder = CallFolder::new(&dir, FunctionRules { addresses, ..FunctionRules::default() }, 0);
        events.iter().for_each(|event| folder.take(event).expect("it is written"));
        folder.finish().expect("it is written");
        let bytes = fs::read(dir.join("7-7-0.calls")).expect("it was written");
        fs::remove_dir_all(&dir).expect("it is ours");
        let words = file::words(&bytes[HEADER_BYTES..]);
        words
            .filter(|word| {
                !matches!(file::RecordedEvent::from_word(*word), file::RecordedEvent::Control { .. })
            })
            .collect()
    }

    #[test]
    fn functions_of_the_kernel_go_on_behind_a_block_request() {
        let events = [
            event(CallEventKind::Enter, 10, 0),
            event(CallEventKind::Kernel, 20, 0),
            event(CallEventKind::Kernel, 30, 1),
            event(CallEventKind::Block, 40, 0),
            event(CallEventKind::KernelEnd, 50, 1),
            event(CallEventKind::KernelEnd, 60, 0),
            event(CallEventKind::Exit, 70, 0),
        ];
        let expected = [
            file::entry_word(FUNCTION, 10),
            file::entry_word(KERNEL, 20),
            file::entry_word(KERNEL + 1, 30),
            file::entry_word(BLOCK, 40),
            file::exit_word(40),
            file::exit_word(50),
            file::exit_word(60),
            file::exit_word(70),
        ];
        assert_eq!(written("block", &events), expected);
    }

    #[test]
    fn the_function_that_makes_a_system_call_lasts_longer_than_it() {
        let events = [
            event(CallEventKind::Enter, 10, 0),
            event(CallEventKind::Kernel, 20, 0),
            event(CallEventKind::System, 30, 3),
            event(CallEventKind::Kernel, 40, 1),
            event(CallEventKind::KernelEnd, 50, 1),
            event(CallEventKind::SystemEnd, 60, 3),
            event(CallEventKind::KernelEnd, 70, 0),
            event(CallEventKind::Exit, 80, 0),
        ];
        let expected = [
            file::entry_word(FUNCTION, 10),
            file::entry_word(KERNEL, 20),
            file::entry_word(SYSTEM + 3, 30),
            file::entry_word(KERNEL + 1, 40),
            file::exit_word(50),
            file::exit_word(60),
            file::exit_word(70),
            file::exit_word(80),
        ];
        assert_eq!(written("system", &events), expected);
    }
}
