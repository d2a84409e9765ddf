//! Tiers D and E: sampling where the kernel gives no events.
//!
//! A preloaded library (`tracer::timers`) has a timer on each thread's CPU time, and hands registers and stack out
//! through shared memory. From here it looks as if the kernel had sampled: the same records go the same way. Waits are
//! found by looks at `/proc`, and each thread's clock is completed from the kernel's own sums.
//!
//! Threads without a timer (of static programs, and of processes that run already) are stopped now and then and
//! sampled from outside: see `stop_sampler`.

mod processes;
mod records;
mod start;
mod stop_sampler;
mod waits;

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashSet;

use tracer::layout::slots::{ERRNO_WORD, LOST_WORD, RESTRICTED_WORD, UNTIMED_WORD, kind, word};

use crate::accounting::summary::Notice;
use crate::files::scratch::ScratchFolder;
use crate::machine::{proc, process_tree};
use crate::off_cpu::Encoder;
use crate::open::plan::Plan;
use crate::runtimes::python::PythonReader;
use crate::sys::time::{self, Clock};
use crate::sys::{SharedSlots, SlotRecord};
use perfdata::PidTid;
use processes::KnownProcesses;
use records::RecordMaker;
use stop_sampler::{StopCounts, StopSampler};
use waits::ThreadClocks;

pub use start::{Preparation, event_id, prepare, setup};

/// CPU time between two samples of a thread, ns: the kernel looks at such timers once per tick (4 ms at 250 Hz).
pub const PERIOD_NS: u64 = 4_000_000;

/// More passes over the slots than these are left to the next round.
const PASSES: usize = 4;

/// No round is nearer to the one before.
const MIN_INTERVAL: Duration = Duration::from_millis(8);

/// The pause after a round is this many times as long as its CPU time: one percent of a CPU.
const REST_TIMES: u32 = 100;

/// The longest pause.
const LONGEST: Duration = Duration::from_secs(2);

/// The preloaded timers of one recording, and what is known of their threads.
#[derive(Debug)]
pub struct Timers {
    /// The shared file, and the folder that holds it and the library; `None` for processes that run already.
    preloaded: Option<(Arc<SharedSlots>, ScratchFolder)>,
    stops: StopSampler,
    maker: RecordMaker,
    processes: KnownProcesses,
    clocks: ThreadClocks,
    roots: Roots,
    /// Reads Python's frames.
    python: Option<PythonReader>,
    has_loaded: bool,
    /// Samples that timers took inside the programs.
    from_inside: u64,
    /// Processes whose program has not loaded the timers.
    without: FxHashSet<u32>,
    cleaned: Option<Instant>,
}

impl Timers {
    /// For `roots`; samples in the layouts of `plan`. A command has not begun yet.
    #[must_use]
    pub fn new(preparation: Preparation, plan: &Plan, roots: Roots) -> Self {
        let child = if let Roots::Command(pid) = roots { Some(pid) } else { None };
        Self {
            preloaded: preparation.into_parts().map(|(slots, folder)| (Arc::new(slots), folder)),
            stops: StopSampler::new(child),
            maker: RecordMaker::new(plan),
            processes: KnownProcesses::default(),
            clocks: ThreadClocks::new(plan.off_cpu.map(Encoder::new)),
            roots,
            python: None,
            has_loaded: false,
            from_inside: 0,
            without: FxHashSet::default(),
            cleaned: None,
        }
    }

    /// Samples and waits get Python's frames from now on; the reader of them.
    pub fn read_python(&mut self) -> PythonReader {
        let slots = self.preloaded.as_ref().map(|(slots, _)| Arc::clone(slots));
        let python = PythonReader::of_timers(slots);
        self.python = Some(python.clone());
        self.clocks.read_python(python.clone());
        self.stops.read_python(python.clone());
        python
    }

    /// Takes up threads that run already and that the file describes.
    pub fn attach(&mut self, tids: &[u32]) {
        let time_ns = Clock::Monotonic.now_ns();
        for &tid in tids {
            let Some(status) = proc::status(tid) else { continue };
            if !self.processes.is_known(status.tgid) {
                self.processes.read_again(status.tgid);
            }
            self.clocks.begin_found(PidTid { pid: status.tgid, tid }, time_ns);
        }
    }

    /// Polls no less often than this.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.clocks.interval().min(self.stops.interval()).min(Duration::from_millis(20))
    }

    /// Appends what threads have handed out, and what looks have shown.
    pub fn poll(&mut self, out: &mut Vec<u8>) {
        self.take_records(out);
        if self.clocks.is_due() {
            if let Some(found) = self.clocks.search(&self.roots) {
                self.find_other_programs(out);
                found.into_iter().for_each(|task| self.meet(task, out));
            }
            let gone = self.clocks.look(out);
            self.end_unseen(&gone, out);
        }
        for record in self.stops.take_late() {
            self.take(&record, out);
        }
        if self.stops.is_due() {
            for record in self.stops.take(&mut self.clocks) {
                self.take(&record, out);
            }
        }
        let now = Instant::now();
        if self.cleaned.is_none_or(|at| now.duration_since(at) > Duration::from_secs(1)) {
            self.cleaned = Some(now);
            if let Some((slots, _)) = &self.preloaded {
                slots.free_those_of(|tid| !proc::is_alive(tid));
            }
        }
    }

    /// The target has ended: the last records, all clocks stop.
    pub fn finish(mut self, end_ns: u64, out: &mut Vec<u8>, notices: &mut Vec<Notice>) {
        self.take_records(out);
        // Main threads have no record of their own end.
        for ended in self.clocks.finish(&self.roots, end_ns, out) {
            self.maker.exit(ended, end_ns, out);
        }
        let refusal = self.stops.take_refusal();
        let StopCounts { samples, refused, restarted, blocking } = self.stops.finish();
        if blocking > 0 {
            notices.push(Notice::TimersBlocked(blocking));
        }
        if let Some(refusal) = refusal {
            notices.push(Notice::StopsRefused(refused, refusal.to_string()));
        }
        if restarted > 0 {
            notices.push(Notice::CallsRestarted(restarted));
        }
        let Some((slots, _)) = &self.preloaded else { return };
        let restricted = slots.header(RESTRICTED_WORD);
        if restricted > 0 {
            notices.push(Notice::TimersRestricted(restricted));
        }
        let lost = slots.header(LOST_WORD);
        if lost > 0 {
            notices.push(Notice::TimerSamplesLost(lost));
        }
        let untimed = slots.header(UNTIMED_WORD);
        if untimed > 0 {
            let errno = slots.header(ERRNO_WORD);
            notices.push(Notice::ThreadsUntimed { count: untimed, errno, is_stopped: samples > 0 });
        }
        let has_timers = untimed == 0 || self.from_inside > 0;
        let replace: fn(String, String) -> Notice = match (self.has_loaded, samples) {
            (true, 0) if !has_timers => Notice::TimersRefused,
            (true, _) if !has_timers => Notice::ByStops,
            (true, _) => {
                let some = self.without.len();
                notices.extend((some > 0).then_some(Notice::SomeWithoutTimers(some)));
                return;
            }
            (false, 0) => Notice::TimersNotLoaded,
            (false, _) => {
                notices.push(Notice::TimersReplacedByStops);
                Notice::ByStops
            }
        };
        for notice in notices.iter_mut() {
            if let Notice::ByTimers(why, remedy) = notice {
                *notice = replace(std::mem::take(why), std::mem::take(remedy));
            }
        }
    }

    /// Closes the clocks of threads that are gone, after the last records that these have handed out.
    fn end_unseen(&mut self, gone: &[PidTid], out: &mut Vec<u8>) {
        if !gone.is_empty() {
            self.take_records(out);
        }
        for &task in gone {
            if let Some(seen_ns) = self.clocks.end_unseen(task.tid, out) {
                self.maker.exit(task, seen_ns, out);
            }
        }
    }

    fn take_records(&mut self, out: &mut Vec<u8>) {
        let Some((slots, _)) = &self.preloaded else { return };
        // Until there are none: a thread's later record may be in a slot that is looked at before its earlier one's.
        let mut records = slots.take();
        for _ in 0..PASSES {
            let more = slots.take();
            if more.is_empty() {
                break;
            }
            records.extend(more);
        }
        records.sort_by_key(|record| record.words[word::TIME]);
        for record in &records {
            self.take(record, out);
        }
    }

    fn take(&mut self, record: &SlotRecord, out: &mut Vec<u8>) {
        let of = SlotEvent::of(record);
        match of.kind {
            kind::EXEC => self.exec(&of, &record.bytes, out),
            kind::FORK => {
                self.without.remove(&of.task.pid);
                self.processes.fork(of.task.pid, of.parent);
                // A child that waited long for a CPU was found before it could report itself.
                if !self.clocks.is_found(of.task.tid) {
                    self.maker.fork(of.task, of.parent, of.time_ns, out);
                    self.clocks.begin(of.task, of.time_ns, of.cpu_ns);
                }
            }
            kind::THREAD => self.thread(&of, out),
            kind::SAMPLE => self.sample(&of, record, out),
            kind::END => {
                self.clocks.queued(of.task.tid, of.queue);
                self.clocks.end(of.task.tid, of.time_ns, of.cpu_ns, out);
                self.maker.exit(of.task, of.time_ns, out);
            }
            kind::LAST => {
                let (_, text) = split_name(&record.bytes);
                self.map(of.task.pid, text, of.time_ns, out);
                self.clocks.seen(of.task.tid, of.time_ns, of.cpu_ns);
                self.clocks.queued(of.task.tid, of.queue);
            }
            kind::GONE => {
                self.clocks.queued(of.task.tid, of.queue);
                self.clocks.seen(of.task.tid, of.time_ns, of.cpu_ns);
                for task in self.clocks.end_process(of.task.pid, of.time_ns, out) {
                    self.maker.exit(task, of.time_ns, out);
                }
            }
            _ => {}
        }
    }

    fn exec(&mut self, of: &SlotEvent, bytes: &[u8], out: &mut Vec<u8>) {
        self.has_loaded = true;
        self.without.remove(&of.task.pid);
        if !self.processes.is_known(of.task.pid) && !self.roots.is_command(of.task.pid) {
            self.maker.fork(of.task, of.parent, of.time_ns, out);
        }
        let (name, text) = split_name(bytes);
        self.processes.exec(of.task.pid);
        self.python.iter().for_each(|python| python.exec_seen(of.task.pid));
        self.maker.exec(of.task, name, of.time_ns, out);
        self.map(of.task.pid, text, of.time_ns, out);
        self.clocks.only(of.task.pid, of.task.tid, of.time_ns, out);
        self.clocks.begin(of.task, of.time_ns, of.cpu_ns);
    }

    fn thread(&mut self, of: &SlotEvent, out: &mut Vec<u8>) {
        if of.task.tid != of.task.pid && self.clocks.begin(of.task, of.time_ns, of.cpu_ns) {
            self.maker.fork(of.task, of.task.pid, of.time_ns, out);
        }
        self.clocks.seen(of.task.tid, of.time_ns, of.cpu_ns);
        self.clocks.queued(of.task.tid, of.queue);
    }

    fn sample(&mut self, of: &SlotEvent, record: &SlotRecord, out: &mut Vec<u8>) {
        let pc = records::pc_of(record);
        if !self.processes.has_code_at(of.task.pid, pc, of.time_ns) {
            let lines = self.processes.read_again(of.task.pid);
            self.maker.mmaps(of.task.pid, &lines, of.time_ns.saturating_sub(1), out);
        }
        self.from_inside += u64::from(record.is_from_inside());
        if let Some(python) = self.python.as_ref().filter(|_| record.is_from_inside()) {
            python.sampled(of.task, of.time_ns, record.words[word::PYTHON], &record.python);
        }
        let weight_ns = self.clocks.ran(of.task, of.time_ns, of.cpu_ns);
        let cgroup = self.maker.wants_cgroups().then(|| self.processes.cgroup(of.task.pid));
        self.maker.sample(record, &SlotEvent { cgroup, ..*of }, weight_ns, out);
    }

    fn map(&mut self, pid: u32, text: &[u8], time_ns: u64, out: &mut Vec<u8>) {
        let lines = self.processes.mapped(pid, text, time_ns);
        self.maker.mmaps(pid, &lines, time_ns, out);
    }

    /// Processes whose program has been replaced by one without timers.
    fn find_other_programs(&mut self, out: &mut Vec<u8>) {
        for pid in self.clocks.some_processes() {
            if !self.processes.has_other_program(pid) {
                continue;
            }
            let Some(status) = proc::status(pid) else { continue };
            let time_ns = Clock::Monotonic.now_ns();
            self.processes.exec(pid);
            self.python.iter().for_each(|python| python.exec_seen(pid));
            self.maker.exec(PidTid::leader(pid), &status.comm, time_ns, out);
            let lines = self.processes.read_again(pid);
            self.maker.mmaps(pid, &lines, time_ns, out);
            self.clocks.lost_timer(pid);
            self.without.insert(pid);
        }
    }

    /// A thread of which no timer has reported: its process may be static, or clear its environment.
    fn meet(&mut self, task: PidTid, out: &mut Vec<u8>) {
        let PidTid { pid, tid } = task;
        // One that has ended, and nobody has waited for yet, may have had its clock.
        if !proc::is_alive(tid) {
            return;
        }
        let leader = PidTid::leader(pid);
        let time_ns = Clock::Monotonic.now_ns();
        if !self.processes.is_known(pid) {
            let Some(status) = proc::status(pid) else { return };
            if !self.roots.is_command(pid) {
                self.maker.fork(leader, status.parent, time_ns, out);
            }
            self.maker.exec(leader, &status.comm, time_ns, out);
            let lines = self.processes.read_again(pid);
            self.maker.mmaps(pid, &lines, time_ns, out);
            self.without.insert(pid);
        }
        if tid != pid {
            self.maker.fork(task, pid, time_ns, out);
        }
        self.clocks.begin_found(task, time_ns);
    }
}

/// The tasks that are sampled, from which others may descend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Roots {
    /// The command that we start, and all below it.
    Command(u32),
    /// Running processes, and all below them.
    Trees(Vec<u32>),
    /// Running processes without their children.
    Processes(Vec<u32>),
    /// Just these threads.
    Threads(Vec<u32>),
}

impl Roots {
    fn is_command(&self, pid: u32) -> bool {
        *self == Self::Command(pid)
    }

    /// The tasks that live now.
    pub(crate) fn tasks(&self) -> Vec<PidTid> {
        let of_tree = |roots: &[u32]| {
            let mut pids = roots.to_vec();
            pids.extend(process_tree::descendants(roots));
            pids
        };
        let pids = match self {
            Self::Command(pid) => of_tree(&[*pid]),
            Self::Trees(pids) => of_tree(pids),
            Self::Processes(pids) => pids.clone(),
            Self::Threads(tids) => {
                let task = |&tid: &u32| Some(PidTid { pid: proc::status(tid)?.tgid, tid });
                return tids.iter().filter_map(task).collect();
            }
        };
        let threads = |pid: u32| {
            let tids = proc::threads(pid).unwrap_or_default().into_iter();
            tids.map(move |tid| PidTid { pid, tid })
        };
        pids.into_iter().flat_map(threads).collect()
    }
}

/// Thread and time of a record.
#[derive(Debug, Clone, Copy)]
struct SlotEvent {
    kind: u64,
    task: PidTid,
    parent: u32,
    time_ns: u64,
    cpu_ns: u64,
    /// Time in the run queue, ns, and number of runs.
    queue: [u64; 2],
    /// Number of the process's cgroup; `None` if samples don't have it.
    cgroup: Option<u64>,
}

impl SlotEvent {
    fn of(record: &SlotRecord) -> Self {
        let task = record.words[word::TASK];
        Self {
            kind: record.words[word::KIND],
            task: PidTid { pid: task as u32, tid: (task >> 32) as u32 },
            parent: record.words[word::PARENT] as u32,
            time_ns: record.words[word::TIME],
            cpu_ns: record.words[word::CPU],
            queue: [record.words[word::QUEUE], record.words[word::RUNS]],
            cgroup: None,
        }
    }
}

/// The pause after a round that began when this thread had used `begin_cpu_ns`.
fn rest_after(begin_cpu_ns: u64) -> Duration {
    let used = Duration::from_nanos(time::thread_cpu_ns().saturating_sub(begin_cpu_ns));
    uneven((used * REST_TIMES).clamp(MIN_INTERVAL, LONGEST))
}

/// From half of `pause` to one and a half: even rounds would be in step with programs that wait evenly.
fn uneven(pause: Duration) -> Duration {
    let random = Clock::Monotonic.now_ns().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
    pause * (512 + random as u32) / 1024
}

/// The program's name, and what follows its line.
fn split_name(bytes: &[u8]) -> (&[u8], &[u8]) {
    let at = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    (&bytes[..at], bytes.get(at + 1..).unwrap_or_default())
}
