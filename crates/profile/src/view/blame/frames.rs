//! Selects the frames of a stack that explain a chain: neither start code nor the code that waits.

use super::BlameEnd;
use crate::off_cpu::work_waits::is_locking;
use crate::profile::Profile;
use crate::table::{CallsiteId, FrameId};
use crate::view::hot_functions::is_start_code;
use crate::view::wall::{is_kernel, name_of, unnamed_starts, waker_frames};

/// The frames of a wait, root first: without start code, kernel, and functions of locking libraries.
#[must_use]
pub fn waiting_frames(profile: &Profile, callsite: CallsiteId) -> Vec<FrameId> {
    let mut frames = user_frames(profile, profile.callsites.leaf_first(callsite).collect());
    let is_how = |&frame: &FrameId| name_of(profile, frame).is_some_and(is_locking);
    while frames.len() > 1 && frames.last().is_some_and(is_how) {
        frames.pop();
    }
    frames
}

/// Kind of the stack at the end of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum EndStack {
    Running,
    WakeUp,
    Waiting,
}

impl EndStack {
    pub fn of(end: &BlameEnd) -> Self {
        match end {
            BlameEnd::Ran => Self::Running,
            BlameEnd::RanUnsampled => Self::WakeUp,
            _ => Self::Waiting,
        }
    }

    /// The frames that matter, root first.
    pub fn frames(self, profile: &Profile, callsite: CallsiteId) -> Vec<FrameId> {
        match self {
            Self::Running => {
                let mut frames: Vec<FrameId> = profile.callsites.leaf_first(callsite).collect();
                frames.reverse();
                without_start(profile, frames)
            }
            Self::WakeUp => user_frames(profile, waker_frames(profile, callsite)),
            Self::Waiting => waiting_frames(profile, callsite),
        }
    }
}

/// The frames of what a chain ends with, root first.
#[must_use]
pub fn end_frames(profile: &Profile, callsite: CallsiteId, end: &BlameEnd) -> Vec<FrameId> {
    EndStack::of(end).frames(profile, callsite)
}

/// From leaf first to root first.
fn user_frames(profile: &Profile, leaf_first: Vec<FrameId>) -> Vec<FrameId> {
    let user: Vec<FrameId> = leaf_first.iter().copied().filter(|&frame| !is_kernel(profile, frame)).collect();
    let mut frames = if user.is_empty() { leaf_first } else { user };
    frames.reverse();
    without_start(profile, frames)
}

fn without_start(profile: &Profile, mut frames: Vec<FrameId>) -> Vec<FrameId> {
    let is_start = |frame: &FrameId| name_of(profile, *frame).is_some_and(is_start_code);
    let named = frames.iter().take_while(|frame| is_start(frame)).count();
    let from = named.max(unnamed_starts(profile, &frames));
    frames.drain(..from.min(frames.len().saturating_sub(1)));
    frames
}
