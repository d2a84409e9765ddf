//! The wall-clock view: on-CPU, runnable and blocked time in one scale, per thread and per function.
//!
//! ```text
//!   waits ─ classify (reason, idle?) ─┬─ threads    on + runnable + preempted + Σ reasons = life
//!   CPU samples, scaled to exact ns ──┼─ functions  self and children, by state
//!                                     └─ histograms, longest waits
//! ```
//! Conservation: the whole is Σ threads × life; nanoseconds without stack have a row of their own.

mod functions;
mod histogram;
mod paths;
mod threads;

pub use functions::FunctionRow;
pub use histogram::Histogram;
pub use paths::{WallPath, paths};
pub use threads::ThreadRow;

use crate::off_cpu::{Reason, Source, Wait};
use crate::profile::{Profile, TaskId};
use crate::table::{CallsiteId, DsoKind, FrameId};
use perfdata::off_cpu::{State, flag};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What to show.
#[derive(Clone, Debug, Default)]
pub struct WallOpts {
    /// Only threads with this name, or this thread id.
    pub thread: Option<String>,
    /// Leave out shorter waits (their time still counts in the totals).
    pub min_block_ns: u64,
    /// Count idle waits like all others.
    pub with_idle: bool,
    /// How many of the longest waits to keep.
    pub longest: usize,
}

/// A share of time: ns by what the thread was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Running.
    pub on_ns: u64,
    /// Woken, waiting for a CPU.
    pub runnable_ns: u64,
    /// Another thread ran instead.
    pub preempted_ns: u64,
    /// Blocked, by reason; idle waits are not in here.
    pub blocked_ns: BTreeMap<Reason, u64>,
    /// Waiting for work, nothing to do.
    pub idle_ns: u64,
}

impl Times {
    /// Blocked for any reason, idle left out.
    #[must_use]
    pub fn blocked_total_ns(&self) -> u64 {
        self.blocked_ns.values().sum()
    }

    /// All but idle.
    #[must_use]
    pub fn active_ns(&self) -> u64 {
        self.on_ns + self.runnable_ns + self.preempted_ns + self.blocked_total_ns()
    }

    /// All.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.active_ns() + self.idle_ns
    }

    /// Adds another's.
    pub fn add(&mut self, other: &Self) {
        self.on_ns += other.on_ns;
        self.runnable_ns += other.runnable_ns;
        self.preempted_ns += other.preempted_ns;
        self.idle_ns += other.idle_ns;
        for (&reason, ns) in &other.blocked_ns {
            *self.blocked_ns.entry(reason).or_default() += ns;
        }
    }

    /// Adds ns of one state.
    pub fn add_part(&mut self, part: Part, ns: u64) {
        match part {
            Part::On => self.on_ns += ns,
            Part::Runnable => self.runnable_ns += ns,
            Part::Preempted => self.preempted_ns += ns,
            Part::Idle => self.idle_ns += ns,
            Part::Blocked(reason) => *self.blocked_ns.entry(reason).or_default() += ns,
        }
    }
}

/// One part of a thread's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// Running.
    On,
    /// Woken, waiting for a CPU.
    Runnable,
    /// Another thread ran instead.
    Preempted,
    /// Blocked.
    Blocked(Reason),
    /// Waiting for work.
    Idle,
}

/// A wait, classified.
#[derive(Clone, Copy, Debug)]
pub struct Classified<'p> {
    /// The wait.
    pub wait: &'p Wait,
    /// What it counts as.
    pub part: Part,
}

/// One of the longest waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongWait {
    /// Who.
    pub task: TaskId,
    /// What it counts as.
    pub part: Part,
    /// Its begin, ns since the recording's first moment.
    pub at_ns: u64,
    /// Its length.
    pub length_ns: u64,
    /// Where.
    pub callsite: Option<CallsiteId>,
    /// Who ended it: name and thread id, if told.
    pub waker: Option<(String, u32)>,
    /// It began before the recording, or did not end in it.
    pub open: bool,
}

/// The whole view.
#[derive(Clone, Debug, Default)]
pub struct Wall {
    /// Who told; `None`: the recording says nothing about time off the CPU.
    pub source: Option<Source>,
    /// Σ over threads.
    pub whole: Times,
    /// By time, most first; idle threads last.
    pub threads: Vec<ThreadRow>,
    /// By children time, most first.
    pub functions: Vec<FunctionRow>,
    /// Lengths of run-queue waits (wake-up to running).
    pub run_queue: Histogram,
    /// Lengths of waits by reason.
    pub waits: BTreeMap<Reason, Histogram>,
    /// The longest waits, longest first; idle ones only if asked for.
    pub longest: Vec<LongWait>,
    /// Times threads left a CPU.
    pub switches: u64,
    /// First moment, ns of the recording's clock.
    pub begin_ns: u64,
    /// From the first to the last moment of any thread.
    pub wall_ns: u64,
}

/// Computes the view.
#[must_use]
pub fn wall(profile: &Profile, opts: &WallOpts) -> Wall {
    let classes = Classes::of(profile, opts);
    let mut wall = Wall { source: profile.off_cpu.source, ..Wall::default() };
    wall.begin_ns = profile.off_cpu.totals.iter().map(|t| t.start_ns).min().unwrap_or(0);
    let end_ns = profile.off_cpu.totals.iter().map(|t| t.end_ns).max().unwrap_or(0);
    wall.wall_ns = end_ns.saturating_sub(wall.begin_ns);
    wall.threads = threads::rows(profile, &classes);
    for row in &wall.threads {
        wall.whole.add(&row.times);
        wall.switches += row.switches;
    }
    wall.functions = functions::rows(profile, &classes, &wall.threads);
    for Classified { wait, part } in classes.iter(profile) {
        // A sample of a short wait stands for as many waits as its weight has lengths.
        let many = (wait.weight_ns / wait.length_ns.max(1)).max(1);
        match part {
            _ if wait.length_ns == 0 => {}
            Part::Runnable => wall.run_queue.add(wait.length_ns, many),
            Part::Blocked(reason) => wall.waits.entry(reason).or_default().add(wait.length_ns, many),
            _ => {}
        }
    }
    wall.longest = longest(profile, &classes, wall.begin_ns, opts);
    wall
}

/// All waits with a stack: path, what it counts as, ns it stands for.
pub(crate) fn classified_paths(profile: &Profile, opts: &WallOpts) -> Vec<(CallsiteId, Part, u64)> {
    let classes = Classes::of(profile, opts);
    let path = |c: Classified<'_>| Some((c.wait.callsite?, c.part, c.wait.weight_ns));
    classes.iter(profile).filter_map(path).collect()
}

/// What each wait counts as, and whose time is shown.
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
            mark_idle(profile, &mut parts, &mut reasons);
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
        self.iter(profile).filter(|c| c.wait.length_ns >= self.min_block_ns)
    }
}

fn is_shown(profile: &Profile, task: TaskId, opts: &WallOpts) -> bool {
    let Some(wanted) = &opts.thread else { return true };
    let of = profile.task(task);
    profile.strings.of(profile.last_comm(task)) == wanted
        || profile.strings.of(of.comm) == wanted
        || of.tid.to_string() == *wanted
}

/// Remembers the reason of each path.
#[derive(Default)]
struct Reasons {
    by_callsite: FxHashMap<CallsiteId, Option<Reason>>,
}

impl Reasons {
    fn part(&mut self, profile: &Profile, wait: &Wait) -> Part {
        match wait.state {
            State::On => Part::On,
            State::Runnable => Part::Runnable,
            State::Preempted => Part::Preempted,
            State::Idle => Part::Idle,
            State::Stopped => Part::Blocked(Reason::Stopped),
            State::Sleep | State::Disk | State::Unknown => Part::Blocked(self.reason(profile, wait)),
        }
    }

    fn reason(&mut self, profile: &Profile, wait: &Wait) -> Reason {
        if wait.flags & flag::REST != 0 {
            return Reason::NoStack;
        }
        let of_path = |callsite| {
            let frames: Vec<FrameId> = kernel_frames(profile, callsite).collect();
            let names = frames.iter().filter_map(|&frame| name_of(profile, frame));
            Reason::of_kernel_frames(names)
        };
        let by_path = wait.callsite.and_then(|id| *self.by_callsite.entry(id).or_insert_with(|| of_path(id)));
        let by_call = || wait.syscall.and_then(|nr| Reason::of_syscall(nr, cfg!(target_arch = "x86_64")));
        let fallback = match (wait.state, wait.callsite, wait.syscall) {
            (State::Disk, ..) => Reason::Disk,
            (State::Unknown, None, None) => Reason::Unknown,
            _ => Reason::Other,
        };
        by_path.or_else(by_call).unwrap_or(fallback)
    }
}

/// The kernel frames of a path, leaf first.
pub(crate) fn kernel_frames(profile: &Profile, callsite: CallsiteId) -> impl Iterator<Item = FrameId> + '_ {
    profile.callsites.leaf_first(callsite).take_while(|&frame| is_kernel(profile, frame))
}

pub(crate) fn is_kernel(profile: &Profile, frame: FrameId) -> bool {
    let kind = profile.dsos.of(profile.frames.of(frame).dso).kind;
    matches!(kind, DsoKind::Kernel | DsoKind::KernelModule | DsoKind::Bpf)
}

/// The symbol-table name of a frame.
pub(crate) fn name_of(profile: &Profile, frame: FrameId) -> Option<&str> {
    profile.frame_names(frame).last().map(|inline| profile.strings.of(profile.symbols.of(inline.symbol).name))
}

/// User functions in which a thread waits for work to come.
const IDLE_FUNCTIONS: &[&str] = &[
    "epoll_wait",
    "epoll_pwait",
    "__poll",
    "poll",
    "ppoll",
    "select",
    "__select",
    "accept",
    "accept4",
    "pthread_cond_",
    "__pthread_cond_",
    "pthread_join",
    "__pthread_clockjoin",
    "__pthread_timedjoin",
    "sem_wait",
    "sem_timedwait",
    "__new_sem_wait",
    "sigwait",
    "sigtimedwait",
    "pause",
    "nanosleep",
    "__nanosleep",
    "clock_nanosleep",
    "__clock_nanosleep",
    "sleep",
    "usleep",
    "wait4",
    "__wait4",
    "waitpid",
    "__waitpid",
    "parking_lot",
    "std::thread::park",
    "tokio::",
    "runtime.futexsleep",
    "runtime.stopm",
    "runtime.findRunnable",
    "runtime.netpoll",
    "Unsafe_Park",
    "io_uring_wait",
    "__io_uring_get_cqe",
];

/// An idle wait: the thread spends nearly all its life in this one place, and the place is one where threads wait
/// for work (not a lock, not a disk).
fn mark_idle(profile: &Profile, parts: &mut [Part], reasons: &mut Reasons) {
    const NEARLY_ALL_PCT: u64 = 80;
    let lives: FxHashMap<TaskId, u64> =
        profile.off_cpu.totals.iter().map(|t| (t.task, t.life_ns())).collect();
    let mut by_place: FxHashMap<(TaskId, CallsiteId), u64> = FxHashMap::default();
    let places = profile.off_cpu.waits.iter().zip(parts.iter());
    for (wait, _) in places.filter(|(_, part)| matches!(part, Part::Blocked(_))) {
        if let Some(callsite) = wait.callsite {
            *by_place.entry((wait.task, callsite)).or_default() += wait.weight_ns;
        }
    }
    for (wait, part) in profile.off_cpu.waits.iter().zip(parts) {
        let (Part::Blocked(_), Some(callsite)) = (*part, wait.callsite) else { continue };
        let reason = reasons.reason(profile, wait);
        if reason == Reason::KernelThread {
            *part = Part::Idle;
            continue;
        }
        let in_place = by_place.get(&(wait.task, callsite)).copied().unwrap_or(0);
        let life = lives.get(&wait.task).copied().unwrap_or(u64::MAX);
        if in_place.saturating_mul(100) >= life.saturating_mul(NEARLY_ALL_PCT)
            && waits_for_work(profile, callsite, reason)
        {
            *part = Part::Idle;
        }
    }
}

fn waits_for_work(profile: &Profile, callsite: CallsiteId, reason: Reason) -> bool {
    if matches!(reason, Reason::Poll | Reason::Timer | Reason::Child | Reason::Signal) {
        return true;
    }
    let may = matches!(reason, Reason::Futex | Reason::Socket | Reason::Aio | Reason::Ipc);
    let user = profile.callsites.leaf_first(callsite).filter(|&frame| !is_kernel(profile, frame));
    may && user.take(12).filter_map(|frame| name_of(profile, frame)).any(|name| {
        IDLE_FUNCTIONS
            .iter()
            .any(|idle| name.starts_with(idle) || idle.ends_with("::") && name.contains(idle))
    })
}

fn longest(profile: &Profile, classes: &Classes, begin_ns: u64, opts: &WallOpts) -> Vec<LongWait> {
    let mut found: Vec<Classified<'_>> = classes
        .named(profile)
        .filter(|c| c.wait.length_ns > 0 && (c.part != Part::Idle || opts.with_idle))
        .collect();
    found.sort_by_key(|c| (std::cmp::Reverse(c.wait.length_ns), c.wait.since_ns, c.wait.task));
    found.truncate(opts.longest);
    let waker = |wait: &Wait| wait.other.map(|other| (other_name(profile, other), other.tid));
    let row = |c: Classified<'_>| LongWait {
        task: c.wait.task,
        part: c.part,
        at_ns: c.wait.since_ns.saturating_sub(begin_ns),
        length_ns: c.wait.length_ns,
        callsite: c.wait.callsite,
        waker: waker(c.wait),
        open: c.wait.flags & (flag::OPEN_LEFT | flag::OPEN_RIGHT) != 0,
    };
    found.into_iter().map(row).collect()
}

/// The waker's name: "irq" for interrupts, else its kernel name, else the name its thread has in this recording.
pub(crate) fn other_name(profile: &Profile, other: crate::off_cpu::Other) -> String {
    if let Some(irq) = interrupt_of(profile, other) {
        return irq;
    }
    match profile.strings.of(other.comm) {
        "" => {
            let tid = i32::try_from(other.tid).unwrap_or(-1);
            profile.last_comms.get(&tid).map_or_else(String::new, |&comm| profile.strings.of(comm).to_owned())
        }
        name => name.to_owned(),
    }
}

/// The frames of a waker, leaf first, without those of the BPF program that looked at it.
pub fn waker_frames(profile: &Profile, callsite: CallsiteId) -> Vec<FrameId> {
    const LOOKING_ON: [&str; 3] = ["bpf_trace_run", "__bpf_trace_", "__traceiter_"];
    let frames: Vec<FrameId> = profile.callsites.leaf_first(callsite).collect();
    let looks_on = |&frame: &FrameId| {
        name_of(profile, frame).is_some_and(|name| LOOKING_ON.iter().any(|begin| name.starts_with(begin)))
    };
    let own = frames.iter().rposition(looks_on).map_or(0, |at| at + 1);
    frames[own..].to_vec()
}

/// Entries of interrupts in kernel stacks, and what to call them.
const INTERRUPTS: &[(&str, &str)] = &[
    ("asm_sysvec_apic_timer_interrupt", "irq:timer"),
    ("sysvec_apic_timer_interrupt", "irq:timer"),
    ("hrtimer_interrupt", "irq:timer"),
    ("arch_timer_handler", "irq:timer"),
    ("asm_sysvec_call_function", "irq:ipi"),
    ("asm_sysvec_reschedule", "irq:ipi"),
    ("asm_common_interrupt", "irq:device"),
    ("common_interrupt", "irq:device"),
    ("gic_handle_irq", "irq:device"),
    ("irq_exit", "irq:soft"),
    ("__irq_exit_rcu", "irq:soft"),
];

/// If the wake-up came from an interrupt: its name. An interrupt says nothing about the thread it hit.
pub(crate) fn interrupt_of(profile: &Profile, other: crate::off_cpu::Other) -> Option<String> {
    let by_stack = other.callsite.and_then(|callsite| {
        // Not only up to the first frame that is no kernel's: our own BPF program may have no name.
        let frames = profile.callsites.leaf_first(callsite).filter(|&frame| is_kernel(profile, frame));
        let names: Vec<&str> = frames.filter_map(|frame| name_of(profile, frame)).collect();
        INTERRUPTS
            .iter()
            .find(|(entry, _)| names.iter().any(|name| name.starts_with(entry)))
            .map(|(_, irq)| *irq)
    });
    match by_stack {
        Some(irq) => Some(irq.to_owned()),
        None if other.tid == 0 => Some("irq".to_owned()),
        None => None,
    }
}
