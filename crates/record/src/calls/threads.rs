//! Entries and exits → calls, thread by thread, in the files of `tracer::layout`.
//!
//! A call is known by the place of its return address on the stack. What lies below a place that the thread is at
//! again, on the same stack ([`super::stacks`]), was left without returning.

mod thread;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::CallEvent;
use super::gate::Filters;
use rustc_hash::{FxHashMap, FxHashSet};

use thread::Thread;

/// Events of a thread are written when they are this many bytes.
const FLUSH_BYTES: usize = 64 << 10;

/// Where functions and kernel parts stand in the address space that the files speak of.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// Of each function, by its number.
    pub functions: Vec<u64>,
    /// Whether it may end by a jump to another function that is not seen.
    pub jumps_out: Vec<bool>,
    /// Of system call 0; number n is n higher.
    pub system_calls: u64,
    /// Of page faults.
    pub fault: u64,
    /// Of block requests.
    pub block: u64,
    /// Of kernel function 0; number n is n higher.
    pub kernel_functions: u64,
    /// What `/proc/PID/maps` would say of these addresses.
    pub maps: String,
}

/// Sums over what was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Calls entered.
    pub calls: u64,
    /// Returns from calls whose entry was not seen, though all probes were in place.
    pub strays: u64,
    /// The most calls that were open in a thread at once.
    pub deepest: usize,
}

/// Writes a folder of calls.
pub struct Folder {
    dir: PathBuf,
    addresses: Addresses,
    filters: Filters,
    threads: FxHashMap<(u32, u32), Thread>,
    processes: FxHashSet<u32>,
    start_ns: u64,
    /// What was written.
    pub written: Written,
}

impl Folder {
    /// Into an existing folder; at `start_ns` all probes were in place.
    #[must_use]
    pub fn new(dir: &Path, (addresses, filters): (Addresses, Filters), start_ns: u64) -> Self {
        Self {
            dir: dir.to_owned(),
            addresses,
            filters,
            threads: FxHashMap::default(),
            processes: FxHashSet::default(),
            start_ns,
            written: Written::default(),
        }
    }

    /// Takes a thread's next event.
    ///
    /// # Errors
    /// If a file can't be written.
    pub fn take(&mut self, event: &CallEvent) -> io::Result<()> {
        let key = (event.pid, event.tid);
        let thread = self.threads.entry(key).or_insert_with(|| Thread::new(&self.filters));
        if thread.is_double(event) {
            return Ok(());
        }
        let (before, strays) = (thread.calls, self.written.strays);
        thread.take(event, (&self.addresses, &self.filters), &mut self.written);
        self.written.calls = self.written.calls + thread.calls - before;
        self.written.deepest = self.written.deepest.max(thread.depth());
        if event.time_ns < self.start_ns {
            // While probes are put in place, ends are seen of calls whose entries are not yet.
            self.written.strays = strays;
        }
        // Blocks are dropped whole, so they are short where few bytes are kept.
        let block = match self.filters.keep_bytes {
            0 => FLUSH_BYTES,
            keep => FLUSH_BYTES.min(keep as usize / 8),
        };
        if thread.bytes.len() >= block && !thread.holds_back() {
            thread.flush(&self.dir, key, self.filters.keep_bytes)?;
        }
        if self.processes.insert(event.pid) {
            let head = format!("tsc {0} monotonic_ns {0}\n", self.start_ns);
            fs::write(self.dir.join(format!("{}-0.maps", event.pid)), head + &self.addresses.maps)?;
        }
        Ok(())
    }

    /// Writes what there is so far: who kills tally loses no more than came since.
    ///
    /// # Errors
    /// If a file can't be written.
    pub fn flush(&mut self) -> io::Result<()> {
        let keep_bytes = self.filters.keep_bytes;
        let mut ready = self.threads.iter_mut().filter(|(_, thread)| !thread.holds_back());
        ready.try_for_each(|(key, thread)| thread.flush(&self.dir, *key, keep_bytes))
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// If a file can't be written.
    pub fn finish(mut self) -> io::Result<Written> {
        let keep_bytes = self.filters.keep_bytes;
        self.threads.iter_mut().try_for_each(|(key, thread)| thread.flush(&self.dir, *key, keep_bytes))?;
        Ok(self.written)
    }
}
