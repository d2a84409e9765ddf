//! To whom a wait leads: a thread that ended it, or no further.

use crate::off_cpu::{RelatedThread, Wait, WaitReason};
use crate::profile::Profile;
use crate::table::CallsiteId;
use crate::view::blame::BlameEnd;
use crate::view::blame::timelines::Timelines;
use crate::view::wall::{NamedTarget, Part, interrupt_of, other_name, ran_instead};
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
        (Part::Runnable, _) => Lead::End(
            ran_instead(profile, of).map_or(BlameEnd::Waited(part), |name| BlameEnd::WaitedFor(part, name)),
        ),
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
                // Whoever ran when the disk was done.
                None if is_for_disk(reason) => Lead::End(waited(profile, of, part)),
                None => Lead::End(BlameEnd::NotRecorded(name_or_id(profile, other))),
            }
        }
        (Part::Blocked(reason), None) if !ends_chain(reason) && of.flags & flag::OPEN_RIGHT == 0 => {
            Lead::End(BlameEnd::WakerUnknown(part))
        }
        _ => Lead::End(waited(profile, of, part)),
    }
}

fn is_for_disk(reason: WaitReason) -> bool {
    matches!(reason, WaitReason::Disk | WaitReason::PageFault | WaitReason::Fsync)
}

fn name_or_id(profile: &Profile, other: RelatedThread) -> String {
    let name = other_name(profile, other);
    if name.is_empty() { format!("thread {}", other.tid) } else { name }
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
