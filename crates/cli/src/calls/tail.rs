//! Reads a recording of calls while it is being written.

use profile::calls::{CallProfile, Clock, FunctionId, Gate, Place, RawStep, Replay, Step};
use rustc_hash::FxHashMap;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use tracer::layout;

use super::folder::{Folder, Thread};
use super::names::Functions;

/// A thread's file, as far as it was read.
struct Growing {
    place: Option<Place>,
    replay: Replay<'static>,
    numbers: FxHashMap<u64, FunctionId>,
    given_back: u64,
}

/// The threads of a growing recording.
pub struct Tail {
    threads: FxHashMap<PathBuf, Growing>,
    clock: Option<Clock>,
    /// The room of what was read is given back.
    gives_back: bool,
}

impl Tail {
    /// Nothing read yet; `gives_back`: what was read can't be read again.
    #[must_use]
    pub fn new(gives_back: bool) -> Self {
        Self { threads: FxHashMap::default(), clock: None, gives_back }
    }

    /// Reads on; all calls finished so far, added up. `at_end`: nothing more will be written, and calls still open are
    /// counted as such.
    ///
    /// # Errors
    /// If the folder can't be read.
    pub fn read(
        &mut self,
        dir: &Path,
        functions: &mut Functions,
        at_end: bool,
    ) -> anyhow::Result<CallProfile> {
        let folder = Folder::open(dir)?;
        if self.clock.is_none() {
            self.clock = clock_of(&folder);
        }
        if let Some(clock) = self.clock {
            for thread in &folder.threads {
                self.read_thread(&folder, thread, (clock, at_end), functions);
            }
        }
        let mut all = CallProfile::new(0, 0);
        if at_end {
            let ended = self.threads.drain().map(|(_, thread)| thread.replay.finish(&mut |_| {}));
            ended.for_each(|profile| all.merge(&profile));
        } else {
            self.threads.values().for_each(|thread| all.merge(&thread.replay.so_far()));
        }
        Ok(all)
    }

    fn read_thread(
        &mut self,
        folder: &Folder,
        thread: &Thread,
        (clock, at_end): (Clock, bool),
        functions: &mut Functions,
    ) {
        let Some(file) = thread.file() else { return };
        let growing = self.threads.entry(thread.path.clone()).or_insert_with(|| Growing {
            place: None,
            replay: Replay::new(CallProfile::new(thread.tid, 0), Gate::new(None, false, usize::MAX), 0),
            numbers: FxHashMap::default(),
            given_back: layout::PAGE_BYTES,
        });
        let Growing { place, replay, numbers, given_back } = growing;
        let mut number = |address: u64| {
            let known = || functions.at(folder, (thread.pid, file.header.tsc), address);
            *numbers.entry(address).or_insert_with(known)
        };
        let next = file.read_since(*place, at_end, &mut |tsc, step| {
            let step: Option<Step> = RawStep::numbered(step, &mut number);
            if let Some(step) = step {
                replay.step(clock.ns_at(tsc), step, &mut |_| {});
            }
        });
        *place = Some(next);
        let read_to = (layout::HEADER_BYTES + next.bytes()) as u64 / layout::PAGE_BYTES * layout::PAGE_BYTES;
        if self.gives_back
            && read_to > *given_back
            && let Ok(file) = OpenOptions::new().write(true).open(&thread.path)
            && record::sys::mem::give_back(&file, *given_back, read_to - *given_back).is_ok()
        {
            *given_back = read_to;
        }
    }
}

/// From the first thread's start to now.
fn clock_of(folder: &Folder) -> Option<Clock> {
    let headers = folder.threads.iter().filter_map(|thread| Some(thread.file()?.header));
    let first = headers.map(|header| (header.tsc, header.monotonic_ns)).min()?;
    Clock::between(first, record::sys::time::ticks_and_ns()?)
}
