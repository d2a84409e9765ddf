//! How the user stacks of a recording ended, and the notes on it that go into the file.
//!
//! Conservation: complete + joined + Σ stopped = stacks.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use perfdata::appendix::stack_notes::{StackCause, StackEnd, StackNotes, StackStop};

use crate::accounting::summary::{StackQuality, StopReason, StoppedStacks};

/// Counts of endings, by cause, DSO and thread.
#[derive(Debug, Default)]
pub(super) struct StackBook {
    quality: StackQuality,
    stops: FxHashMap<StackStopKey, FxHashMap<u32, u64>>,
    notes: StackNotes,
    /// Stacks, and complete ones, that notes have been taken of.
    noted: (u64, u64),
    causes: FxHashMap<(StackEnd, Option<Arc<str>>), u32>,
}

/// Why a stack ended early, and in which DSO.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct StackStopKey {
    reason: StopReason,
    dso: Option<Arc<str>>,
}

/// How a user stack ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StackEnding {
    /// At the thread's start.
    Complete,
    /// At the thread's start, with the outer part taken from another moment.
    Joined,
    /// Early: the reason, and the DSO of the last frame.
    Stopped(StopReason, Option<Arc<str>>),
}

impl StackBook {
    /// A sample's user stack ended like this.
    pub fn add(&mut self, tid: u32, time_ns: u64, end: StackEnding) {
        self.quality.stacks += 1;
        self.note(tid, time_ns, &end);
        match end {
            StackEnding::Complete => self.quality.complete += 1,
            StackEnding::Joined => self.quality.joined += 1,
            StackEnding::Stopped(reason, dso) => {
                *self.stops.entry(StackStopKey { reason, dso }).or_default().entry(tid).or_default() += 1;
            }
        }
    }

    /// Writes down how a stack that is not complete by itself ended.
    fn note(&mut self, tid: u32, time_ns: u64, end: &StackEnding) {
        let (end, dso) = match end {
            StackEnding::Complete => return,
            StackEnding::Joined => (StackEnd::Joined, None),
            StackEnding::Stopped(reason, dso) => (StackEnd::Stopped(*reason), dso.clone()),
        };
        let causes = &mut self.notes.causes;
        let cause = *self.causes.entry((end, dso)).or_insert_with_key(|(end, dso)| {
            let dso = dso.as_ref().map_or_else(Vec::new, |d| d.as_bytes().to_vec());
            causes.push(StackCause { end: *end, dso });
            (causes.len() - 1) as u32
        });
        self.notes.stops.push(StackStop { time_ns, tid, cause });
    }

    /// The notes for the appendix of a file, on all stacks since the last call; `None` if none was unwound.
    #[must_use]
    pub fn notes(&mut self) -> Option<StackNotes> {
        let (stacks_before, complete_before) = self.noted;
        self.noted = (self.quality.stacks, self.quality.complete);
        let (stacks, complete) = (self.noted.0 - stacks_before, self.noted.1 - complete_before);
        self.causes.clear();
        let notes = std::mem::take(&mut self.notes);
        (stacks > 0).then_some(StackNotes { stacks, complete, ..notes })
    }

    /// The counts, causes by descending frequency; `name` returns a thread's name.
    pub fn finish(self, name: impl Fn(u32) -> String + Copy) -> StackQuality {
        let mut quality = self.quality;
        quality.stopped = self.stops.into_iter().map(|(key, tids)| stopped(key, &tids, name)).collect();
        quality.stopped.sort_by(|a, b| b.count.cmp(&a.count).then(a.reason.cmp(&b.reason)));
        quality
    }
}

fn stopped(key: StackStopKey, tids: &FxHashMap<u32, u64>, name: impl Fn(u32) -> String) -> StoppedStacks {
    let most = tids.iter().max_by_key(|(tid, n)| (**n, u32::MAX - **tid)).map_or(0, |(tid, _)| *tid);
    StoppedStacks {
        reason: key.reason,
        dso: key.dso.map(|d| d.to_string()),
        thread: (most, name(most)),
        count: tids.values().sum(),
    }
}
