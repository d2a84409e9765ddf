//! Facts that the rules judge by. Shares are of active thread time (idle left out), 0 to 1.

mod parts;
mod regularity;

use super::cause::WaitCause;
use super::holders::LockHolders;
use super::hot_code::{HotCode, HotFunction};
use super::hot_stacks::{HotStacks, most_first};
use super::locks::{self, LockSite};
use super::path::PathFacts;
use super::running::{EntryReason, Running};
use super::short_lived::ShortLived;
use crate::grow::{Grow as _, GrownSum as _, ratio};
use crate::off_cpu::collector::collects;
use crate::off_cpu::wait_names::is_call_of_openmp;
use crate::off_cpu::{OffCpuSource, RelatedThread, WaitReason};
use crate::profile::{Profile, TaskId};
use crate::table::CallsiteId;
use crate::view::blame::{CriticalOpts, critical_path};
use crate::view::goroutines::Goroutines;
use crate::view::ranking::RankRows as _;
use crate::view::wall::{
    Part, PlacedWait, Times, Wall, WallOpts, interrupt_of, kernel_frames, name_of, other_name, placed_waits,
    running_paths,
};
pub use parts::{CodeFacts, OthersRan, QueueFacts, RateFacts, SystemFacts, WaitFacts};
pub(super) use regularity::REGULAR;
pub use regularity::running_samples;
use regularity::{others_ran, timers};
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

/// Everything the rules look at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The target's wall time, s.
    pub wall_s: f64,
    /// Samples of running threads; `None` if that is not known.
    pub samples: Option<u64>,
    /// Living children of the target's processes that were not recorded.
    pub children_left_out: usize,
    /// CPUs used on average.
    pub cpus_used: f64,
    /// CPUs that the recorder's threads used meanwhile; 0 where that isn't known.
    pub recorder_cpus: f64,
    /// CPUs that its BPF programs used, in the time of the threads that they observed.
    pub recorder_bpf_cpus: f64,
    /// Where active thread time went.
    pub times: Times,
    /// Threads that were not idle all the time.
    pub active_threads: usize,
    /// Threads that were.
    pub idle_threads: usize,
    /// Processes that they are of.
    pub processes: usize,
    /// The thread with most running time: name, share of its life, waits for a CPU left out, on the CPU, share of all
    /// running time.
    pub busiest: Option<(String, f64, f64)>,
    /// Where threads run.
    pub running: Running,
    /// Processes that came while recording.
    pub short_lived: ShortLived,
    /// Places of threads.
    pub places: HotStacks,
    /// Code that runs.
    pub code: CodeFacts,
    /// Targets of the waits, and who ends them.
    pub waits: WaitFacts,
    /// Threads that wait for a CPU.
    pub queue: QueueFacts,
    /// Counts of events, related to time.
    pub rates: RateFacts,
    /// The machine.
    pub system: SystemFacts,
}

impl Facts {
    /// A lock inside the kernel that its functions don't identify.
    pub const SOME_LOCK: &'static str = "some lock";

    /// Facts from the samples and waits of a recording. The caller adds counters and /proc.
    #[must_use]
    pub fn of(profile: &Profile, wall: &Wall) -> Self {
        let mut facts =
            Self { times: wall.whole.clone(), wall_s: wall.wall_ns as f64 / 1e9, ..Self::default() };
        facts.active_threads = wall.threads.iter().filter(|row| !row.is_idle()).count();
        facts.idle_threads = wall.threads.len() - facts.active_threads;
        facts.processes = wall.threads.iter().map(|row| row.pid).collect::<BTreeSet<_>>().len();
        let busiest = wall.threads.iter().max_by_key(|row| row.times.on_ns);
        facts.busiest = busiest.filter(|row| row.times.on_ns > 0).map(|row| {
            let waited_ns = row.times.runnable_ns.saturating_add(row.times.preempted_ns);
            let busy = ratio(row.times.on_ns, row.life_ns.saturating_sub(waited_ns)).min(1.0);
            (
                profile.with_purpose(row.pid, &row.comm).to_owned(),
                busy,
                ratio(row.times.on_ns, wall.whole.on_ns),
            )
        });
        facts.cpus_used = ratio(wall.whole.on_ns, wall.wall_ns);
        let queue = &wall.run_queue;
        facts.queue.run_queue_ns = (queue.percentile_ns(50.0), queue.percentile_ns(99.0), queue.max_ns());
        facts.samples = Some(running_samples(profile));
        facts.add_running(wall);
        facts.running = Running::of(profile, wall);
        facts.code.hot_user = HotCode::of(profile, wall);
        (facts.code.hottest, facts.code.below) = HotFunction::of(profile);
        let (short_lived, its_tasks) = ShortLived::of(profile, wall);
        facts.short_lived = short_lived;
        facts.add_waits(profile, wall, &its_tasks);
        facts.queue.others_ran = others_ran(profile, wall);
        facts.rates.switches_per_s = wall.switches as f64 / facts.wall_s.max(1e-9);
        facts
    }

    /// Adds what follows from waits and their wakers: it takes a while, so only for rules that ask for it.
    pub fn follow_waits(&mut self, profile: &Profile) {
        let (others, turns) = (super::rules::waits_for_others(self), super::rules::may_take_turns(self));
        let locks = super::rules::waits_for_locks(self);
        if !(others || turns || locks) || !super::path::can_follow(profile) {
            return;
        }
        self.waits.holders = if locks { LockHolders::of(profile) } else { None };
        let path = LazyCell::new(|| critical_path(profile, &CriticalOpts::default()));
        self.waits.cause = if others { WaitCause::of(profile, &|| &*path) } else { None };
        self.waits.path = if turns { PathFacts::of(profile, &path, self.code.below.as_ref()) } else { None };
    }

    fn add_running(&mut self, wall: &Wall) {
        let on = |kernel: bool| -> u64 {
            wall.functions
                .iter()
                .filter(|row| row.kernel == kernel && !row.name.starts_with("[no "))
                .map(|row| row.own.on_ns)
                .grown_sum()
        };
        let (user, kernel) = (on(false), on(true));
        let whole = user.saturating_add(kernel);
        self.code.user = (whole > 0).then(|| ratio(user, whole));
        let mut rows: Vec<_> = wall.functions.iter().filter(|row| row.own.on_ns > 0).collect();
        rows.rank_by_key(|row| std::cmp::Reverse(row.own.on_ns));
        let share = |row: &&crate::view::wall::FunctionRow| {
            (row.name.clone(), ratio(row.own.on_ns, wall.whole.on_ns))
        };
        self.code.hot_kernel = rows.iter().filter(|row| row.kernel).take(40).map(share).collect();
        self.code.functions =
            wall.functions.iter().map(|row| (row.name.clone(), row.children.clone())).collect();
    }

    fn add_waits(&mut self, profile: &Profile, wall: &Wall, short_lived: &BTreeSet<TaskId>) {
        let waits = placed_waits(profile, &WallOpts::default());
        self.places = HotStacks::of(profile, wall, &waits, short_lived);
        let own: BTreeSet<u32> = wall.threads.iter().map(|row| row.pid.cast_unsigned()).collect();
        self.add_enders(profile, &waits, &own);
        let mut kernel_locks: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for wait in &waits {
            match wait.idle_for {
                Some(WaitReason::Timer) => self.waits.idle_asleep_ns.grow(wait.ns),
                Some(WaitReason::Child) => self.waits.idle_for_own_ns.grow(wait.ns),
                Some(_) if wait.other.is_some_and(|other| is_by_own(profile, other, &own)) => {
                    self.waits.idle_for_own_ns.grow(wait.ns)
                }
                _ => {}
            }
            if let Some(reason) = wait.after {
                self.queue.queued_after.entry(reason).or_default().grow(wait.ns);
            }
            if wait.part == Part::Blocked(WaitReason::KernelLock)
                || wait.after == Some(WaitReason::KernelLock)
            {
                let names = kernel_frames(profile, wait.callsite).filter_map(|frame| name_of(profile, frame));
                let lock = WaitReason::kernel_lock(names).unwrap_or((Self::SOME_LOCK, ""));
                kernel_locks.entry(lock).or_default().grow(wait.ns);
            }
        }
        self.waits.kernel_locks = kernel_locks.into_iter().collect();
        self.waits.kernel_locks.rank_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        self.waits.targets = super::rules::targets(wall);
        self.waits.files = super::rules::files(wall);
        self.waits.locked_files = super::rules::locked_files(wall);
        self.waits.peer = super::peers::slowest_peer(wall);
        self.waits.held_back = super::held_back::held_back(wall);
        self.waits.blocked_loops = super::event_loops::blocked_loops(profile);
        self.waits.timers = timers(profile);
        self.waits.goroutines = Goroutines::of(profile);
        self.waits.by_looks = profile.off_cpu.source == Some(OffCpuSource::Looks);
        let running = running_paths(profile, wall);
        self.waits.locks = locks::sites(profile, &waits, &running);
        self.code.collects = self.collecting(profile, &running);
        self.waits.gil = super::gil::GilFacts::of(profile, &waits, &running);
    }

    /// Share of running time on paths that collect garbage.
    fn collecting(&self, profile: &Profile, running: &[(CallsiteId, u64)]) -> f64 {
        let names =
            |callsite| profile.callsites.leaf_first(callsite).filter_map(|frame| name_of(profile, frame));
        let collects = running.iter().filter(|(callsite, _)| collects(names(*callsite)));
        ratio(collects.map(|(_, ns)| *ns).grown_sum(), self.times.on_ns)
    }

    fn add_enders(&mut self, profile: &Profile, waits: &[PlacedWait], own: &BTreeSet<u32>) {
        let mut by_name: BTreeMap<WaitReason, BTreeMap<String, u64>> = BTreeMap::new();
        for wait in waits.iter().filter(|wait| !locks::is_for_lock(profile, wait)) {
            let (Part::Blocked(reason), Some(other)) = (wait.part, wait.other) else { continue };
            let name = other_name(profile, other);
            if is_by_own(profile, other, own) {
                self.waits.ended_by_own.entry(reason).or_default().grow(wait.ns);
            }
            by_name.entry(reason).or_default().entry(name).or_default().grow(wait.ns);
        }
        self.waits.enders = by_name.into_iter().map(|(reason, names)| (reason, most_first(names))).collect();
    }

    /// Share of active thread time.
    #[must_use]
    pub fn share(&self, ns: u64) -> f64 {
        ratio(ns, self.times.active_ns())
    }

    /// Share of active thread time blocked for this reason.
    #[must_use]
    pub fn blocked(&self, reason: WaitReason) -> f64 {
        self.share(self.times.blocked_ns.get(&reason).copied().unwrap_or(0))
    }

    /// Share of active thread time blocked on locks of user space, and on conditions.
    #[must_use]
    pub fn blocked_on_futexes(&self) -> f64 {
        self.blocked(WaitReason::Futex) + self.blocked(WaitReason::Gil)
    }

    /// Share of active thread time on the CPU.
    #[must_use]
    pub fn on(&self) -> f64 {
        self.share(self.times.on_ns)
    }

    /// Share of active thread time waiting for a CPU, woken or preempted.
    #[must_use]
    pub fn waiting_for_cpu(&self) -> f64 {
        self.share(self.times.runnable_ns.saturating_add(self.times.preempted_ns))
    }

    /// Converts a share of active time into one of the time without waits for a CPU: about the share on a machine with
    /// enough CPUs.
    #[must_use]
    pub fn undisturbed(&self, share: f64) -> f64 {
        let rest = 1.0 - self.waiting_for_cpu();
        if rest > 0.0 { (share / rest).min(1.0) } else { 0.0 }
    }

    /// How many of its threads want a CPU at a time, on average: those that run and those that wait to.
    #[must_use]
    pub fn wants_cpus(&self) -> f64 {
        let wants_ns =
            [self.times.on_ns, self.times.runnable_ns, self.times.preempted_ns].into_iter().grown_sum();
        wants_ns as f64 / 1e9 / self.wall_s.max(1e-9)
    }

    /// True if it is other programs that have the CPUs when the target waits for one.
    #[must_use]
    pub fn others_have_the_cpus(&self) -> bool {
        let by_others = self.share_of_others();
        // Threads that want a CPU at the same moments wait for each other, even if they need less than one on average.
        let is_by_own = by_others.is_some_and(|share| share < 0.3) && self.shows_who_ran();
        // Threads that get little of the machine and wait don't wait for each other, however many they are.
        by_others.is_some_and(|share| share > 0.5)
            || !is_by_own && (self.wants_cpus() <= f64::from(self.system.cpus) || self.gets_little())
    }

    /// Share of other programs in the known time of threads that ran while the target's waited; `None` where none is known.
    fn share_of_others(&self) -> Option<f64> {
        self.queue.others_ran.as_ref().map(|others| others.share)
    }

    /// True if who ran is known for enough of the waits for a CPU.
    fn shows_who_ran(&self) -> bool {
        let known_ns = self.queue.others_ran.as_ref().map_or(0, |others| others.known_ns);
        self.share(known_ns) > 0.1 * self.waiting_for_cpu()
    }

    /// How many CPUs others on the machine used, without tally; `None` where that isn't known.
    #[must_use]
    pub fn others_use_cpus(&self) -> Option<f64> {
        // The kernel counts in ticks of 10 ms, on each CPU for itself.
        const LEAST_S: f64 = 0.3;
        let busy = self.system.busy.filter(|_| self.wall_s >= LEAST_S)?;
        Some((busy * f64::from(self.system.cpus) - self.cpus_used - self.recorder_cpus).max(0.0))
    }

    /// True if its own threads have the CPUs for a good part of the time when others of them wait.
    #[must_use]
    pub fn own_threads_have_the_cpus_too(&self) -> bool {
        self.share_of_others().is_some_and(|share| share < 0.7) && self.shows_who_ran()
    }

    /// True if the target ran on less than half of the machine's CPUs.
    #[must_use]
    pub fn gets_little(&self) -> bool {
        self.cpus_used * 2.0 < f64::from(self.system.cpus)
    }

    /// Share of active thread time woken from waits for this reason, waiting for a CPU.
    #[must_use]
    pub fn queued_after(&self, reason: WaitReason) -> f64 {
        self.share(self.queue.queued_after.get(&reason).copied().unwrap_or(0))
    }

    /// Share of active time blocked until a thread of this name ended it.
    #[must_use]
    pub fn blocked_by(&self, name: &str) -> f64 {
        let ended = self.waits.enders.values().flatten().filter(|(ender, _)| ender == name);
        self.share(ended.map(|(_, ns)| *ns).grown_sum())
    }

    /// Locks in user space that threads wait for: no conditions, no joins. Those that take most time first.
    pub fn contended(&self) -> impl Iterator<Item = &LockSite> {
        self.waits.locks.iter().filter(|site| !site.for_work)
    }

    /// Context switches a second that would be left without the waits for this lock: those of other waits, and at
    /// least those of threads taken off the CPU.
    #[must_use]
    pub fn calm_switches_per_s(&self, site: &LockSite) -> f64 {
        let waits_per_s = site.waits as f64 / self.wall_s.max(1e-9);
        (self.rates.switches_per_s - waits_per_s).max(self.rates.preemptions_per_s).max(1.0)
    }

    /// Share of running time in kernel functions whose names begin with one of these.
    #[must_use]
    pub fn in_kernel(&self, prefixes: &[&str]) -> f64 {
        let is = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
        self.code.hot_kernel.iter().filter(|(name, _)| is(name)).fold(0.0, |sum, (_, share)| sum + share)
    }

    /// Share of running time inside the kernel's futex call: threads that fight over a lock rather than sleep.
    #[must_use]
    pub fn in_futex(&self) -> f64 {
        const ENTRIES: [&str; 3] = ["do_futex", "__x64_sys_futex", "__arm64_sys_futex"];
        ENTRIES.iter().map(|name| self.running_in(name)).fold(0.0, f64::max)
    }

    /// Share of running time spent to have the disk do something: direct I/O, fsync, and what requests need when done.
    #[must_use]
    pub fn in_disk_requests(&self) -> f64 {
        // None of them calls another.
        const WAYS: [&str; 7] = [
            "iomap_dio_rw",
            "blkdev_direct_IO",
            "__blockdev_direct_IO",
            "do_fsync",
            "__x64_sys_io_uring_enter",
            "page_cache_ra_unbounded",
            "blk_complete_reqs",
        ];
        WAYS.iter().map(|name| self.running_in(name)).sum()
    }

    /// Share of running time in a function and all it calls.
    pub(super) fn running_in(&self, name: &str) -> f64 {
        ratio(self.code.functions.get(name).map_or(0, |times| times.on_ns), self.times.on_ns)
    }

    /// Share of running time of this kind. Threads too short for a sample don't count, as in the table of functions.
    #[must_use]
    pub fn running_by(&self, entry: EntryReason) -> f64 {
        ratio(self.running.total_ns(entry), self.running.sampled_ns())
    }

    /// Share of running time in these system calls, of the same base.
    #[must_use]
    pub fn in_calls(&self, calls: &[&str]) -> f64 {
        let of = self.running.calls.iter().filter(|(name, _)| calls.contains(&name.as_str()));
        ratio(of.map(|(_, ns)| *ns).grown_sum(), self.running.sampled_ns())
    }

    /// ns of waits for other threads' work: conditions, joins, semaphores.
    #[must_use]
    pub fn for_work_ns(&self) -> u64 {
        self.waits.locks.iter().filter(|site| site.for_work).map(|site| site.wait_ns).grown_sum()
    }

    /// Part of it in barriers and other calls of OpenMP.
    #[must_use]
    pub fn for_team_ns(&self) -> u64 {
        let of_team = |site: &&LockSite| site.for_work && is_call_of_openmp(&site.taker);
        self.waits.locks.iter().filter(of_team).map(|site| site.wait_ns).grown_sum()
    }
}

/// True if a thread of the target ended the wait, and not an interrupt that hit one.
fn is_by_own(profile: &Profile, other: RelatedThread, own: &BTreeSet<u32>) -> bool {
    own.contains(&other.pid) && interrupt_of(profile, other).is_none()
}

#[cfg(test)]
mod tests {
    use super::regularity::spread;
    use super::*;
    use perfdata::off_cpu::State;

    #[test]
    fn waits_for_a_cpu_after_a_timer_are_no_timer_waits() {
        let nanosleep = if cfg!(target_arch = "x86_64") { 35 } else { 101 };
        let wait = |state, length_ns| crate::off_cpu::Wait {
            state,
            length_ns,
            syscall: Some(nanosleep),
            ..crate::off_cpu::Wait::of(TaskId::from_index(0))
        };
        let mut profile = Profile::default();
        profile.off_cpu.waits = vec![wait(State::Sleep, 1_000_000_000), wait(State::Runnable, 3_000_000)];
        assert_eq!(timers(&profile), Some((1e9, f64::INFINITY, 1)));
    }

    #[test]
    fn a_few_late_timers_do_not_hide_that_all_others_have_one_length() {
        let mut waits: Vec<f64> = (0..40).map(|i| 5e6 + f64::from(i) * 1e3).collect();
        waits.extend([40e6, 90e6, 200e6]);
        let (median, variation, count) = spread(&waits).expect("more than 20");
        assert!((5e6..5.1e6).contains(&median) && variation < 0.01 && count == 43, "{median} {variation}");
        // A nap of a second among many of a millisecond is what the time goes to.
        let mut naps = vec![1e6; 30];
        naps.extend([1e9, 2e6, 3e6, 4e6, 5e6, 6e6, 7e6, 8e6, 9e6, 10e6]);
        assert_eq!(spread(&naps).map(|(length, ..)| length), Some(1e6), "regular but for a quarter");
        naps.truncate(31);
        naps.splice(0..20, (0..20).map(|i| f64::from(i) * 1e5));
        assert_eq!(spread(&naps).map(|(length, ..)| length), Some(1e9));
        let varied: Vec<f64> = (1..40).map(|i| f64::from(i) * 1e6).collect();
        assert!(spread(&varied).expect("more than 20").1 > 0.5);
        assert!(spread(&waits[..19]).expect("some").1.is_infinite());
        assert_eq!(spread(&[]), None);
    }
}
