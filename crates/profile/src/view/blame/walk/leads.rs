//! To whom a wait leads: a thread that ended it, or no further.

use crate::off_cpu::{Wait, WaitReason};
use crate::profile::Profile;
use crate::table::CallsiteId;
use crate::view::blame::BlameEnd;
use crate::view::blame::timelines::Timelines;
use crate::view::wall::{NamedTarget, Part, interrupt_of, other_name};
use perfdata::off_cpu::flag;

/// Where a wait leads.
#[derive(Clone)]
pub enum Lead {
    /// To a thread.
    To(usize, Option<CallsiteId>),
    /// No further.
    End(BlameEnd),
}

/// Where a wait of the recording leads.
pub fn lead(lines: &Timelines<'_>, wait: usize) -> Lead {
    let (profile, part) = (lines.profile, lines.parts[wait]);
    let of = &profile.off_cpu.waits[wait];
    let ended_ns = of.since_ns.saturating_add(of.length_ns);
    match (part, of.other) {
        (Part::Preempted, Some(other)) => {
            let name = other_name(profile, other);
            Lead::End(if name.is_empty() { BlameEnd::Waited(part) } else { BlameEnd::PreemptedBy(name) })
        }
        (Part::Blocked(reason), Some(other)) if !ends_chain(reason) => {
            if interrupt_of(profile, other).is_some() {
                return Lead::End(waited(profile, of, part));
            }
            match lines.thread_at(other.tid, ended_ns) {
                Some(waker) => Lead::To(waker, other.callsite),
                None if reason == WaitReason::Disk => Lead::End(waited(profile, of, part)),
                None => Lead::End(BlameEnd::NotRecorded(other_name(profile, other))),
            }
        }
        (Part::Blocked(reason), None) if !ends_chain(reason) && of.flags & flag::OPEN_RIGHT == 0 => {
            Lead::End(BlameEnd::WakerUnknown(part))
        }
        _ => Lead::End(waited(profile, of, part)),
    }
}

/// A wait that is a cause by itself, with the name of what it was for.
fn waited(profile: &Profile, wait: &Wait, part: Part) -> BlameEnd {
    let name = NamedTarget::of(profile, wait, part).and_then(NamedTarget::known);
    name.map_or(BlameEnd::Waited(part), |name| BlameEnd::WaitedFor(part, name))
}

/// Reasons that are causes by themselves, whoever ran when they ended.
fn ends_chain(reason: WaitReason) -> bool {
    matches!(
        reason,
        WaitReason::Timer
            | WaitReason::Stopped
            | WaitReason::KernelThread
            | WaitReason::NoStack
            | WaitReason::Earlier
            | WaitReason::Unknown
    )
}
