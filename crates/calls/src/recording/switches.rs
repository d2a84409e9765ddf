//! When the traced threads were off the CPU: from the context switches recorded besides their calls.

use crate::model::Step;
use dso::MappedFile;
use perfdata::{Order, PerfData, Record};
use rustc_hash::FxHashMap;
use std::iter::Peekable;
use std::ops::ControlFlow;
use std::path::Path;

/// Name of the recording of switches in the folder.
pub const NAME: &str = "switches.data";

/// Time off the CPU: from, to; ns of `CLOCK_MONOTONIC`.
pub type Off = (u64, u64);

/// The times off the CPU by thread, in order; none where no switches were recorded. Why they may lack some, if the file
/// is damaged, is added to `damaged`.
#[must_use]
pub fn read(folder: &Path, damaged: &mut Vec<String>) -> FxHashMap<u32, Vec<Off>> {
    let path = folder.join(NAME);
    let mut off: FxHashMap<u32, Vec<Off>> = FxHashMap::default();
    let Some(map) = MappedFile::open(&path).ok().filter(|map| !map.is_empty()) else { return off };
    let mut note = |problem: &perfdata::Error| damaged.push(format!("{}: {problem}", path.display()));
    let file = match PerfData::open(&map) {
        Ok(file) => file,
        Err(why) => {
            note(&why);
            return off;
        }
    };
    let mut out: FxHashMap<u32, u64> = FxHashMap::default();
    let found = file.visit(Order::Time, |item| {
        if let (Record::Switch(switch), Some(time_ns), Some((_, tid))) =
            (&item.record, item.time_ns(), item.pid_tid())
        {
            if switch.out {
                out.insert(tid, time_ns);
            } else if let Some(from_ns) = out.remove(&tid) {
                off.entry(tid).or_default().push((from_ns, time_ns));
            }
        }
        ControlFlow::Continue(())
    });
    // Unfinished it is as the rest of the folder, which is named for that.
    if !file.is_unfinished() {
        file.problems().iter().chain(&found.problems).take(1).for_each(note);
    }
    off
}

/// A thread's steps with its times off the CPU put between them.
pub struct WithOff<I: Iterator<Item = (u64, Step)>> {
    steps: Peekable<I>,
    off: Peekable<std::vec::IntoIter<Off>>,
}

impl<I: Iterator<Item = (u64, Step)>> WithOff<I> {
    /// Both in order of time.
    pub fn new(steps: I, off: Vec<Off>) -> Self {
        Self { steps: steps.peekable(), off: off.into_iter().peekable() }
    }
}

impl<I: Iterator<Item = (u64, Step)>> Iterator for WithOff<I> {
    type Item = (u64, Step);

    fn next(&mut self) -> Option<Self::Item> {
        // Without steps after it, no call is open any more, or none will end.
        let next_ns = self.steps.peek()?.0;
        match self.off.next_if(|(_, to_ns)| *to_ns <= next_ns) {
            Some((from_ns, to_ns)) => Some((to_ns, Step::OffCpu(to_ns.saturating_sub(from_ns)))),
            None => self.steps.next(),
        }
    }
}
