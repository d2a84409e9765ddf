//! The thread that had an interpreter's global lock when another gave up waiting for it for a moment.
//!
//! CPython's threads wait 5 ms at a time. A wait that such a limit ends has no waker, and yet it is for the thread that
//! has the lock: the one that next lets it go.

use super::Lead;
use crate::off_cpu::WaitReason;
use crate::view::blame::timelines::Timelines;
use crate::view::wall::Part;
use rustc_hash::FxHashMap;

/// Moments at which threads let go of their interpreter's lock.
pub struct LockReleases {
    /// By process: (moment, thread) in order of time.
    by_process: FxHashMap<u32, Vec<(u64, usize)>>,
}

impl LockReleases {
    /// From the waits for the lock that another thread ended.
    pub fn of(lines: &Timelines<'_>, leads: &[Lead]) -> Self {
        let mut by_process: FxHashMap<u32, Vec<(u64, usize)>> = FxHashMap::default();
        for wait in waits_for_lock(lines) {
            if let Lead::To(waker, _) = leads[wait] {
                let moment = end_of(lines, wait);
                by_process.entry(process_of(lines, wait)).or_default().push((moment, waker));
            }
        }
        by_process.values_mut().for_each(|releases| releases.sort_unstable());
        Self { by_process }
    }

    /// Has the waits that ended without a waker lead to the lock's holder, where that is known.
    pub fn lead_to_holders(&self, lines: &Timelines<'_>, leads: &mut [Lead]) {
        for wait in waits_for_lock(lines) {
            if matches!(leads[wait], Lead::End(_))
                && let Some(holder) = self.holder(lines, wait)
            {
                leads[wait] = Lead::To(holder, None);
            }
        }
    }

    /// The first thread that lets go of the lock after the wait, of those that were not blocked at its end.
    fn holder(&self, lines: &Timelines<'_>, wait: usize) -> Option<usize> {
        // Each of the others may have had its turn between.
        const LOOKED_AT: usize = 16;
        let releases = self.by_process.get(&process_of(lines, wait))?;
        let task = lines.profile.off_cpu.waits[wait].task;
        let ended_ns = end_of(lines, wait);
        let is_free = |thread: usize| {
            let (born, died) = lines.threads[thread].life();
            let is_awake = match lines.threads[thread].around(ended_ns) {
                (_, Some(inside)) => matches!(lines.parts[inside.wait], Part::Runnable | Part::Preempted),
                _ => true,
            };
            (born..=died).contains(&ended_ns) && is_awake
        };
        let after = releases.partition_point(|(moment, _)| *moment <= ended_ns);
        let coming = releases[after..].iter().take(LOOKED_AT).map(|(_, thread)| *thread);
        coming.filter(|thread| !lines.threads[*thread].tasks.contains(&task)).find(|thread| is_free(*thread))
    }
}

fn waits_for_lock(lines: &Timelines<'_>) -> impl Iterator<Item = usize> {
    let is_for_lock = |&wait: &usize| lines.parts[wait] == Part::Blocked(WaitReason::Gil);
    (0..lines.parts.len()).filter(is_for_lock)
}

fn end_of(lines: &Timelines<'_>, wait: usize) -> u64 {
    let of = &lines.profile.off_cpu.waits[wait];
    of.since_ns.saturating_add(of.length_ns)
}

fn process_of(lines: &Timelines<'_>, wait: usize) -> u32 {
    lines.profile.task(lines.profile.off_cpu.waits[wait].task).process
}
