//! Reasons: the one list of why something is incomplete, and the counts of a whole session.
//!
//! The law of conservation kept here: **samples read = samples attributed + samples under a
//! [`Reason`]**. Attributed but imperfect samples (a stack cut short, a name missing) are counted in addition, never
//! instead.

use crate::grow::Grow as _;
use std::collections::BTreeMap;
use std::fmt;

use perfdata::appendix::stack_notes::{self, StopReason};

/// Why a sample was not attributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// The sample's id belongs to no event of the file.
    UnknownEvent,
    /// The sample carries neither an address nor a callchain.
    NoAddress,
    /// The sample carries no branch stack, and branches were requested.
    NoBranches,
    /// Left out by `--comms`, `--tid`, `--pid`, `--cpu` or `--time`.
    Filtered,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownEvent => "of an unknown event",
            Self::NoAddress => "without an address",
            Self::NoBranches => "without branches",
            Self::Filtered => "filtered out",
        })
    }
}

/// How a user stack ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum StackEnd {
    /// The sample had no user part (kernel thread, or not requested).
    NoUserStack,
    /// A chain collected by the kernel (frame pointers) or the recorder: taken as it is.
    AsRecorded,
    /// Unwinding reached the thread's start.
    ReachedRoot,
    /// Unwound while recording: it reaches the thread's start with a part taken at another moment.
    Joined,
    /// Unwound while recording: it ends early.
    Stopped(StopReason),
    /// The copied bytes of the stack ended first.
    StackCut,
    /// No unwind information for a frame.
    NoUnwindInfo,
    /// The unwind information or the memory it points to made no sense.
    BadUnwind,
    /// Unwinding came to a frame that it had visited, or could not leave one.
    Loop,
    /// Cut at `--max-stack` frames.
    MaxStack,
    /// The registers of the sample are missing or of another architecture.
    NoRegisters,
}

impl StackEnd {
    /// True when the path is whole as far as can be known.
    #[must_use]
    pub fn is_complete(self) -> bool {
        matches!(self, Self::NoUserStack | Self::AsRecorded | Self::ReachedRoot | Self::Joined)
    }
}

impl From<stack_notes::StackEnd> for StackEnd {
    fn from(noted: stack_notes::StackEnd) -> Self {
        match noted {
            stack_notes::StackEnd::Joined => Self::Joined,
            stack_notes::StackEnd::Stopped(reason) => Self::Stopped(reason),
        }
    }
}

impl fmt::Display for StackEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoUserStack => "no user stack",
            Self::AsRecorded => "as recorded",
            Self::ReachedRoot => "complete",
            Self::Joined => "complete with a part of another moment",
            Self::Stopped(reason) => return reason.fmt(f),
            Self::StackCut => "cut at the end of the copied stack",
            Self::NoUnwindInfo => "no unwind information",
            Self::BadUnwind => "unwind information unusable",
            Self::Loop => "endless loop of frames",
            Self::MaxStack => "cut at the longest stack asked for",
            Self::NoRegisters => "no usable registers",
        })
    }
}

/// Counts of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    /// Samples that came in.
    pub samples_read: u64,
    /// Samples that are in the profile.
    pub samples_attributed: u64,
    /// Samples that are not, by reason.
    pub dropped: BTreeMap<Reason, u64>,
    /// Samples by how their user stack ended.
    pub stack_ends: BTreeMap<StackEnd, u64>,
    /// Records the kernel dropped because a ring was full (`PERF_RECORD_LOST`).
    pub lost_records: u64,
    /// Samples the hardware or the kernel dropped (`PERF_RECORD_LOST_SAMPLES`).
    pub lost_samples: u64,
    /// How often `PERF_RECORD_LOST` came.
    pub lost_events: u64,
    /// Frames (of all chains) that no mapping held.
    pub unmapped_frames: u64,
    /// Frames (of all chains) shown as one of their DSO: more distinct addresses than the input justifies.
    pub merged_frames: u64,
    /// Throttle records: the kernel thinned the samples.
    pub throttled: u64,
}

impl Diagnostics {
    /// Percent of the stacks that are whole. `None` without stacks, and where most were taken as recorded: nobody knows
    /// whether frame pointers led to the start, as programs without them break the chain unseen.
    #[must_use]
    pub fn complete_percent(&self) -> Option<u64> {
        let stacks: u64 = self.stack_ends.values().sum();
        let taken = self.stack_ends.get(&StackEnd::AsRecorded).copied().unwrap_or(0);
        let complete: u64 =
            self.stack_ends.iter().filter(|(end, _)| end.is_complete()).map(|(_, count)| count).sum();
        let percent = complete.saturating_mul(100).checked_div(stacks);
        percent.filter(|_| taken <= stacks / 2)
    }

    /// Counts a sample that is left out.
    pub fn drop_sample(&mut self, reason: Reason) {
        *self.dropped.entry(reason).or_default() += 1;
    }

    /// Samples left out, for whatever reason.
    #[must_use]
    pub fn dropped_total(&self) -> u64 {
        self.dropped.values().sum()
    }

    /// Does every sample have its place? Always true once a session is finished.
    #[must_use]
    pub fn is_conserved(&self) -> bool {
        self.samples_read == self.samples_attributed + self.dropped_total()
    }

    /// Adds the counts of another session.
    pub fn merge(&mut self, other: &Self) {
        self.samples_read.grow(other.samples_read);
        self.samples_attributed.grow(other.samples_attributed);
        self.lost_records.grow(other.lost_records);
        self.lost_samples.grow(other.lost_samples);
        self.lost_events.grow(other.lost_events);
        self.unmapped_frames.grow(other.unmapped_frames);
        self.merged_frames.grow(other.merged_frames);
        self.throttled.grow(other.throttled);
        for (&reason, count) in &other.dropped {
            self.dropped.entry(reason).or_default().grow(*count);
        }
        for (&end, count) in &other.stack_ends {
            self.stack_ends.entry(end).or_default().grow(*count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ends: &[(StackEnd, u64)]) -> Option<u64> {
        Diagnostics { stack_ends: ends.iter().copied().collect(), ..Diagnostics::default() }
            .complete_percent()
    }

    #[test]
    fn stacks_taken_as_recorded_are_not_known_to_be_whole() {
        assert_eq!(of(&[(StackEnd::AsRecorded, 9), (StackEnd::NoUserStack, 1)]), None);
        assert_eq!(
            of(&[(StackEnd::AsRecorded, 1), (StackEnd::ReachedRoot, 2), (StackEnd::StackCut, 1)]),
            Some(75)
        );
        assert_eq!(of(&[]), None);
    }
}
