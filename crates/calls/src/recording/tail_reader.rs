//! Reads a recording of calls while it is being written.

use crate::model::{
    Asked, CallProfile, FileGrowth, FunctionId, RawStep, ReadPlace, Replay, ReplayGate, Step, TscClock,
};
use perfdata::PidTid;
use rustc_hash::FxHashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use tracer::layout;

use super::folder::{Folder, RecordedThread};
use super::functions::{Functions, ThreadBegin};
use crate::view::slow_call::{FunctionEntry, Holder, LastSlow, SlowSelection};

/// A thread's file, as far as it was read.
struct Growing {
    place: Option<ReadPlace>,
    replay: Replay<'static>,
    numbers: FxHashMap<u64, FunctionId>,
    given_back: u64,
    holder: Holder,
}

/// Reads the counter of ticks, and the monotonic clock in ns at the same moment; `None` where there is no counter.
pub type TicksAndNs = fn() -> Option<(u64, u64)>;

/// Gives this many bytes from an offset of a file back to the file system.
pub type GiveBack = fn(&File, u64, u64) -> io::Result<()>;

/// The threads of a growing recording.
pub struct Tail {
    threads: FxHashMap<PathBuf, Growing>,
    clock: Option<TscClock>,
    /// Gives back the room of what was read; `None`: it stays.
    give_back: Option<GiveBack>,
    ticks_and_ns: TicksAndNs,
    /// Calls that took less are left out, ns.
    min_ns: u64,
    /// The last slow call, where one is asked for.
    pub slow: LastSlow,
}

impl Tail {
    /// Nothing read yet; With `give_back` what was read can't be read again. Calls that took less than `min_ns` are left
    /// out; of those of `wish` the last is kept.
    #[must_use]
    pub fn new(
        give_back: Option<GiveBack>,
        ticks_and_ns: TicksAndNs,
        min_ns: u64,
        selection: SlowSelection,
    ) -> Self {
        Self {
            threads: FxHashMap::default(),
            clock: None,
            give_back,
            ticks_and_ns,
            min_ns,
            slow: LastSlow::new(selection),
        }
    }

    /// How the recording's counter values become times; `None` before its first call.
    #[must_use]
    pub const fn clock(&self) -> Option<TscClock> {
        self.clock
    }

    /// Reads on; all calls finished so far, added up. Calls still open are counted as such once the recording has ended.
    ///
    /// # Errors
    /// If the folder can't be read.
    pub fn read(
        &mut self,
        dir: &Path,
        functions: &mut Functions,
        growth: FileGrowth,
    ) -> crate::Result<CallProfile> {
        let folder = Folder::open_growing(dir)?;
        if self.clock.is_none() {
            self.clock = clock_of(&folder, self.ticks_and_ns);
        }
        for thread in &folder.threads {
            self.read_thread(&folder, thread, growth, functions);
        }
        let mut all = CallProfile::new(0, 0);
        if growth == FileGrowth::Ended {
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
        thread: &RecordedThread,
        growth: FileGrowth,
        functions: &mut Functions,
    ) {
        let (Some(clock), Some(file)) = (self.clock, thread.file()) else { return };
        let growing = self.threads.entry(thread.path.clone()).or_insert_with(|| Growing {
            place: None,
            replay: Replay::new(
                CallProfile::new(thread.tid, 0),
                ReplayGate::new(None, Asked { min_ns: self.min_ns, ..Asked::default() }),
            ),
            numbers: FxHashMap::default(),
            given_back: layout::PAGE_BYTES,
            holder: Holder::default(),
        });
        let Growing { place, replay, numbers, given_back, holder } = growing;
        let slow = &mut self.slow;
        let next = file.read_since(*place, growth, &mut |tsc, raw| {
            let begin = ThreadBegin { pid: thread.pid, tsc: file.header.tsc };
            let number = |address: u64| {
                let known = || functions.at(folder, begin, address);
                *numbers.entry(address).or_insert_with(known)
            };
            let time_ns = clock.ns_at(tsc);
            let Some(step) = RawStep::numbered(raw, number) else { return };
            match (raw, step) {
                (RawStep::Enter(address), Step::Enter(function)) => {
                    let entry = FunctionEntry { time_ns, function, address };
                    holder.enter(entry, slow.least_ns(function, functions));
                }
                (_, Step::Extra(extra)) => drop(holder.step(time_ns, step, file.extra(extra))),
                _ => {
                    let ended = holder.step(time_ns, step, &[]);
                    ended
                        .into_iter()
                        .for_each(|call| slow.take(PidTid { pid: thread.pid, tid: thread.tid }, call));
                }
            }
            replay.step(time_ns, step, &mut |_| {});
        });
        *place = Some(next);
        let read_to = (layout::HEADER_BYTES + next.bytes()) as u64 / layout::PAGE_BYTES * layout::PAGE_BYTES;
        if let Some(give_back) = self.give_back
            && read_to > *given_back
            && let Ok(file) = OpenOptions::new().write(true).open(&thread.path)
            && give_back(&file, *given_back, read_to - *given_back).is_ok()
        {
            *given_back = read_to;
        }
    }
}

/// From the first thread's start to now.
fn clock_of(folder: &Folder, ticks_and_ns: TicksAndNs) -> Option<TscClock> {
    let headers = folder.threads.iter().filter_map(|thread| Some(thread.file()?.header));
    let (tsc, monotonic_ns) = headers.map(|header| (header.tsc, header.monotonic_ns)).min()?;
    if tsc == monotonic_ns {
        return Some(TscClock::OF_NS);
    }
    TscClock::between((tsc, monotonic_ns), ticks_and_ns()?)
}
