//! Classes of waits: their part of the wall clock, and whether they are shown.

use super::idle::mark_idle;
use super::{Part, ThreadRow, WallOpts, kernel_frames, name_of, threads};
use crate::off_cpu::collector::waits_for_collector;
use crate::off_cpu::wait_names::wait_names;
use crate::off_cpu::work_waits::{is_sleep, waits_for_gil};
use crate::off_cpu::{Wait, WaitReason, of_user_frames};
use crate::profile::{Profile, TaskId};
use crate::table::{CallsiteId, FrameId};
use perfdata::appendix::descriptors::CallOfWait;
use perfdata::off_cpu::{State, flag};
use rustc_hash::FxHashMap;

/// A wait, classified.
#[derive(Clone, Copy, Debug)]
pub struct Classified<'p> {
    /// The wait.
    pub wait: &'p Wait,
    /// Part of the wall clock.
    pub part: Part,
}

/// Classes of all waits, and which threads are shown.
pub(crate) struct Classes {
    parts: Vec<Part>,
    shown: Vec<bool>,
    min_block_ns: u64,
}

impl Classes {
    pub fn of(profile: &Profile, opts: &WallOpts) -> Self {
        let shown =
            (0..profile.tasks().len()).map(|i| is_shown(profile, TaskId::from_index(i), opts)).collect();
        let mut reasons = Reasons::default();
        let mut parts: Vec<Part> =
            profile.off_cpu.waits.iter().map(|wait| reasons.part(profile, wait)).collect();
        if !opts.with_idle {
            let unmarked = opts.never_empty.then(|| parts.clone());
            mark_idle(profile, &mut parts, &mut reasons);
            let classes = Self { parts, shown, min_block_ns: opts.min_block_ns };
            let all_idle =
                unmarked.filter(|_| threads::rows(profile, &classes).iter().all(ThreadRow::is_idle));
            let parts = all_idle.unwrap_or(classes.parts);
            return Self { parts, ..classes };
        }
        Self { parts, shown, min_block_ns: opts.min_block_ns }
    }

    /// True if the thread's time is shown.
    pub fn shows(&self, task: TaskId) -> bool {
        self.shown.get(task.index()).copied().unwrap_or(true)
    }

    /// All waits shown.
    pub fn iter<'p>(&'p self, profile: &'p Profile) -> impl Iterator<Item = Classified<'p>> {
        let waits = profile.off_cpu.waits.iter().zip(&self.parts);
        waits.filter(|(wait, _)| self.shows(wait.task)).map(|(wait, &part)| Classified { wait, part })
    }

    /// Those long enough to be named.
    pub fn named<'p>(&'p self, profile: &'p Profile) -> impl Iterator<Item = Classified<'p>> {
        self.iter(profile).filter(|c| c.wait.longest_ns() >= self.min_block_ns)
    }
}

fn is_shown(profile: &Profile, task: TaskId, opts: &WallOpts) -> bool {
    opts.thread.as_ref().is_none_or(|wanted| is_called(profile, task, wanted))
}

/// True if `wanted` is a name that the thread had, its last one, that with what its process is for (`git gc`), or its id.
#[must_use]
pub fn is_called(profile: &Profile, task: TaskId, wanted: &str) -> bool {
    let of = profile.task(task);
    let last = profile.strings.of(profile.last_comm(task));
    last == wanted
        || profile.strings.of(of.comm) == wanted
        || profile.with_purpose(of.pid, last) == wanted
        || of.tid.to_string() == wanted
}

/// Remembers the reason of each path.
#[derive(Default)]
pub(super) struct Reasons {
    by_callsite: FxHashMap<CallsiteId, Option<WaitReason>>,
}

impl Reasons {
    fn part(&mut self, profile: &Profile, wait: &Wait) -> Part {
        match wait.state {
            State::On => Part::On,
            State::Runnable => Part::Runnable,
            State::Preempted => Part::Preempted,
            State::Idle => Part::Idle,
            State::Stopped => Part::Blocked(WaitReason::Stopped),
            State::Sleep | State::Disk | State::Unknown => Part::Blocked(self.reason(profile, wait)),
        }
    }

    pub fn reason(&mut self, profile: &Profile, wait: &Wait) -> WaitReason {
        if wait.flags & flag::REST != 0 && wait.sums.is_none() {
            // The thread's state while records were lost: a wait that was not observed.
            return if wait.state == State::Unknown { WaitReason::Unknown } else { WaitReason::NoStack };
        }
        let user_names = |callsite| wait_names(profile, callsite).into_iter().map(|(name, _)| name);
        let of_path = |callsite| {
            let frames: Vec<FrameId> = kernel_frames(profile, callsite).collect();
            let names = frames.iter().filter_map(|&frame| name_of(profile, frame));
            match WaitReason::of_kernel_frames(names) {
                Some(WaitReason::Futex | WaitReason::Poll) if is_sleep(user_names(callsite)) => {
                    Some(WaitReason::Timer)
                }
                Some(WaitReason::Futex) if waits_for_gil(user_names(callsite)) => Some(WaitReason::Gil),
                Some(WaitReason::Futex) if waits_for_collector(user_names(callsite)) => {
                    Some(WaitReason::Collector)
                }
                reason => reason,
            }
        };
        // For a woken thread: its reason for the wait before.
        if matches!(wait.state, State::Disk | State::Runnable)
            && let Some(leaf) = wait.callsite.and_then(|id| kernel_frames(profile, id).next())
            && name_of(profile, leaf).is_some_and(WaitReason::is_lock_taker)
        {
            return WaitReason::KernelLock;
        }
        if let Some(told) = wait.told {
            return told;
        }
        let by_path = wait.callsite.and_then(|id| *self.by_callsite.entry(id).or_insert_with(|| of_path(id)));
        let by_call = || wait.syscall.and_then(|nr| WaitReason::of_syscall(nr, profile.off_cpu.numbering));
        let by_user = || {
            let callsite =
                wait.callsite.filter(|_| wait.state == State::Unknown && wait.syscall.is_none())?;
            of_user_frames(profile.callsites.leaf_first(callsite).filter_map(|frame| name_of(profile, frame)))
        };
        let fallback = match (wait.state, wait.callsite, wait.syscall) {
            (State::Disk, ..) => WaitReason::Disk,
            (State::Sleep, Some(callsite), _) if is_of_kernel_thread(profile, callsite) => {
                WaitReason::KernelThread
            }
            (State::Unknown, None, None) if wait.flags & flag::OPEN_LEFT != 0 => WaitReason::Earlier,
            // Neither a stack nor a system call: nothing shows the reason.
            (_, None, None) => WaitReason::Unknown,
            _ => WaitReason::Other,
        };
        let is_sleep = |number| WaitReason::is_sleep_call(number, &wait.args, profile.off_cpu.numbering);
        let by_descriptor = || by_descriptor(profile, wait).filter(|_| fallback == WaitReason::Other);
        let found = by_path.or_else(by_call).or_else(by_user).or_else(by_descriptor);
        match found.unwrap_or(fallback) {
            WaitReason::Poll if wait.syscall.is_some_and(is_sleep) => WaitReason::Timer,
            reason => reason,
        }
    }
}

/// Reason by the kind of descriptor that a call such as `read` waits for; `None` where the kind isn't known.
fn by_descriptor(profile: &Profile, wait: &Wait) -> Option<WaitReason> {
    let names = &profile.off_cpu.descriptors;
    let syscall = wait.syscall.filter(|&syscall| names.takes_descriptor(syscall))?;
    let pid = profile.task(wait.task).pid.cast_unsigned();
    let call = CallOfWait { pid, syscall, argument: wait.args[0] };
    let (name, _) = names.name_in(call, wait.begins_ns())?;
    WaitReason::of_descriptor(name)
}

/// Where the kernel's threads begin, innermost first.
// Source: linux v6.18 kernel/kthread.c, arch/x86/entry/entry_64.S
const KERNEL_STARTS: [&str; 2] = ["kthread", "ret_from_fork"];

/// True for the stack of a thread of the kernel.
fn is_of_kernel_thread(profile: &Profile, callsite: CallsiteId) -> bool {
    let is_start = |frame| name_of(profile, frame).is_some_and(|name| KERNEL_STARTS.contains(&name));
    kernel_frames(profile, callsite).any(is_start)
}

#[cfg(test)]
mod tests {
    use super::is_called;
    use crate::profile::{Profile, Task};

    #[test]
    fn a_thread_is_selected_by_its_name_with_and_without_what_it_is_for() {
        let mut profile = Profile::default();
        let [git, worker] = ["git", "worker"].map(|name| profile.strings.intern(name));
        let first = profile.intern_task(Task { pid: 7, tid: 7, process: 0, comm: git });
        let second = profile.intern_task(Task { pid: 7, tid: 8, process: 0, comm: worker });
        profile.off_cpu.titles.insert(7, "git pack-objects".to_owned());
        for wanted in ["git", "git pack-objects", "7"] {
            assert!(is_called(&profile, first, wanted) && !is_called(&profile, second, wanted), "{wanted}");
        }
        assert!(!is_called(&profile, first, "git gc") && is_called(&profile, second, "worker"));
    }
}
