//! Names of the states of calls.

use super::SpanState;
use crate::off_cpu::known_lock::lock_by_latch;
use crate::off_cpu::wait_names::wait_names;
use crate::off_cpu::{Wait, WaitReason};
use crate::profile::Profile;
use crate::verdict::futex_words;
use crate::view::blame::timelines::Timelines;
use crate::view::wall::{NamedTarget, Part, part_name, part_words, ran_instead};

/// The state that a wait is.
pub(super) fn state_of(lines: &Timelines<'_>, wait: usize) -> SpanState {
    let (profile, part) = (lines.profile, lines.parts[wait]);
    SpanState { part, target: target_words(profile, &profile.off_cpu.waits[wait], part) }
}

/// Target of a wait: a lock, a descriptor, who ran instead; `None` if it has no name.
pub(crate) fn target_words(profile: &Profile, of: &Wait, part: Part) -> Option<String> {
    let polled = of.callsite.filter(|_| part == Part::Blocked(WaitReason::Poll));
    let names = polled.map(|callsite| wait_names(profile, callsite));
    let latch = names
        .and_then(|names| lock_by_latch(names.into_iter().map(|(name, _)| name)))
        .map(|known| known.name);
    match part {
        Part::Blocked(WaitReason::Futex | WaitReason::Gil) => futex_words(profile, of),
        Part::Blocked(WaitReason::Poll) if latch.is_some() => latch.map(str::to_owned),
        Part::Blocked(_) | Part::Idle => NamedTarget::of(profile, of, part).and_then(NamedTarget::known),
        Part::Preempted | Part::Runnable => ran_instead(profile, of),
        _ => None,
    }
}

impl SpanState {
    /// This part, for nothing that has a name.
    pub(super) fn unnamed(part: Part) -> Self {
        Self { part, target: None }
    }

    /// As a user reads it: `lock in put()`, `disk: /var/log/x`, `preempted by cc1`.
    #[must_use]
    pub fn words(&self) -> String {
        match (&self.target, self.part) {
            (None, part) => part_name(part).to_owned(),
            (Some(target), Part::Blocked(WaitReason::Futex | WaitReason::Gil)) => target.clone(),
            (Some(target), part) => part_words(part, target),
        }
    }
}
