//! To whom a wait leads: a thread that ended it, or no further.

use crate::off_cpu::{RelatedThread, Wait, WaitReason};
use crate::profile::Profile;
use crate::table::CallsiteId;
use crate::view::blame::BlameEnd;
use crate::view::blame::timelines::Timelines;
use crate::view::wall::{NamedTarget, Part, interrupt_of, is_deliverer, other_name, ran_instead};
use perfdata::off_cpu::flag;
use rustc_hash::FxHashSet;

/// Where a wait leads.
#[derive(Clone)]
pub enum Lead {
    /// To a thread.
    To(usize, Option<CallsiteId>),
    /// To a thread that this one has woken, and that took its CPU; how the chain ends while that one doesn't work.
    HandedOver(usize, BlameEnd),
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
            let name = other_name(profile, other);
            match lines.thread_at(other.tid, ended_ns) {
                Some(waker) if !name.starts_with("ksoftirqd") => Lead::To(waker, other.callsite),
                // These threads of the kernel hand over what came over the network. It is somebody else's.
                Some(_) => Lead::End(waited(profile, of, part)),
                None if is_deliverer(&name) => Lead::End(waited(profile, of, part)),
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

/// From the end of a wait to the preemption by the thread that waited, ns.
const AT_ONCE_NS: u64 = 200_000;

/// Threads that wake others, and may hand their CPU over to them.
///
/// ```text
///   main     |■ wakes feeder |····· preempted ·····|■ waits for the result
///   feeder                   |■■■■■■ crunch ■■■■■■■|
/// ```
/// Main would have waited for feeder's work in any case. So that work has the time, and not the want of a CPU.
pub struct Handovers {
    /// Waker and sleeper.
    wakes: FxHashSet<(usize, usize)>,
}

impl Handovers {
    /// From where the waits lead.
    pub fn of(lines: &Timelines<'_>, leads: &[Lead]) -> Self {
        let waits = lines.profile.off_cpu.waits.iter().zip(leads);
        let pair = |(wait, lead): (&Wait, &Lead)| match lead {
            Lead::To(waker, _) => Some((*waker, lines.thread_of(wait.task)?)),
            _ => None,
        };
        Self { wakes: waits.filter_map(pair).collect() }
    }

    /// Has the preemptions lead to the threads that the CPU was handed to.
    pub fn lead_on(&self, lines: &Timelines<'_>, leads: &mut [Lead]) {
        for wait in (0..leads.len()).filter(|wait| lines.parts[*wait] == Part::Preempted) {
            if let Some(to) = self.handed_to(lines, leads, wait)
                && let Lead::End(end) = leads[wait].clone()
            {
                leads[wait] = Lead::HandedOver(to, end);
            }
        }
    }

    fn handed_to(&self, lines: &Timelines<'_>, leads: &[Lead], wait: usize) -> Option<usize> {
        let of = &lines.profile.off_cpu.waits[wait];
        // Wake-ups are system calls: outside of them it was the scheduler's choice, or an interrupt's.
        of.syscall?;
        let sleeper = lines.thread_of(of.task)?;
        let to = lines.thread_at(of.other?.tid, of.since_ns)?;
        let woke_it = |lead: &Lead| matches!(lead, Lead::To(waker, _) if *waker == sleeper);
        let now = of.since_ns.saturating_add(AT_ONCE_NS);
        let before = lines.threads[to].timed_in(of.since_ns.saturating_sub(AT_ONCE_NS), now);
        let mut before = before.iter().filter(|timed| matches!(lines.parts[timed.wait], Part::Blocked(_)));
        // Short waits have no moments: then it counts that this thread wakes that one.
        let is_woken = match before.rfind(|timed| timed.to <= now) {
            Some(ended) => woke_it(&leads[ended.wait]),
            None => self.wakes.contains(&(sleeper, to)),
        };
        (to != sleeper && is_woken).then_some(to)
    }
}
