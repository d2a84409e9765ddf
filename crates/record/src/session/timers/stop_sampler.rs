//! Tier E: CPU samples from outside, of threads in which no timer can be: of static programs and running processes.
//!
//! A thread that runs is stopped for some microseconds while its registers and its stack are copied. Threads that wait
//! are not stopped, for that would end some of their system calls: what they wait for is found by looks at `/proc`.
//!
//! `/proc` shows a thread that has a CPU and one that waits for a CPU alike. The second may have been woken just now, and
//! a sample of it would give CPU time to a system call that only waited. It has to be switched in before it can stop,
//! which its number of runs shows. Its sample counts only if it was preempted in user code.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use tracer::layout::slots::{STACK_BYTES, kind, word};

use super::waits::ThreadClocks;
use crate::machine::proc;
use crate::machine::refusal::{AccessFacts, AccessRefusal, RefusedStop};
use crate::runtimes::python::{PythonReader, StackMoment};
use crate::sys::SlotRecord;
use crate::sys::perf_abi::register;
use crate::sys::stop::{self, StopAttempt, StoppedThread, StoppingThread};
use crate::sys::time::{self, Clock};
use dso::system_file;
use perfdata::PidTid;

/// CPU time between two samples of a thread, ns.
pub(super) const PERIOD_NS: u64 = 10_000_000;

/// A thread rests this many times as long as it was stopped: at most one percent of its time is taken.
const REST_TIMES: u32 = 100;

/// A thread that does not stop for so long is in the kernel: it is let go when it leaves it.
const PATIENCE: Duration = Duration::from_micros(300);

/// Threads stopped one after another in one round.
const MOST_IN_ROUND: usize = 64;

/// The signal of the timers, which a program can block only without its C library.
const TIMER_SIGNAL: u32 = 33;

const PC: usize = register::PC as usize;
const SP: usize = register::SP as usize;

/// A thread that may be stopped, with the CPU time it has used, ns.
#[derive(Debug, Clone, Copy)]
pub(super) struct StopCandidate {
    pub(super) task: PidTid,
    pub(super) cpu_ns: u64,
    pub(super) sampled_ns: u64,
    /// It has a timer, which does not report.
    pub(super) is_silent: bool,
}

/// Stops threads and copies registers and stacks.
#[derive(Debug, Default)]
pub(super) struct StopSampler {
    /// The command's process, whose end is waited for elsewhere.
    child: Option<u32>,
    /// Threads that had to wait for a CPU before they could stop.
    stopping: Vec<(StoppingThread, StopCandidate)>,
    rest_until: FxHashMap<u32, Instant>,
    /// Threads with a silent timer, and whether they block its signal.
    silent: FxHashMap<u32, bool>,
    /// The last round, and the pause after it.
    round: Option<(Instant, Duration)>,
    counts: StopCounts,
    /// The first refused stop's reason, found while its thread lived.
    refused: Option<AccessRefusal>,
    /// Reads Python's frames of stopped threads.
    python: Option<PythonReader>,
}

/// Sums for the notices at the end.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct StopCounts {
    /// Samples taken.
    pub(super) samples: u64,
    /// Stops refused: a debugger has the thread, or tracing is forbidden.
    pub(super) refused: u64,
    /// System calls made again because a stop had ended them.
    pub(super) restarted: u64,
    /// Threads that block the signal of their timer.
    pub(super) blocking: u64,
}

impl StopSampler {
    /// `child`: the command, if there is one.
    pub(super) fn new(child: Option<u32>) -> Self {
        Self { child, ..Self::default() }
    }

    /// Samples get the frames that `python` reads.
    pub(super) fn read_python(&mut self, python: PythonReader) {
        self.python = Some(python);
    }

    /// Why stops were refused, as far as they were.
    pub(super) fn take_refusal(&mut self) -> Option<AccessRefusal> {
        self.refused.take()
    }

    /// Lets all threads go.
    pub(super) fn finish(mut self) -> StopCounts {
        /// Should a thread stay in the kernel longer, our own end lets it go.
        const LONGEST: Duration = Duration::from_millis(200);
        let begin = Instant::now();
        while !self.stopping.is_empty() && begin.elapsed() < LONGEST {
            self.take_late();
            std::thread::sleep(Duration::from_millis(1));
        }
        self.counts.blocking = self.silent.values().filter(|blocks| **blocks).count() as u64;
        self.counts
    }

    /// True if the pause after the last round is over.
    pub(super) fn is_due(&self) -> bool {
        self.round.is_none_or(|(at, pause)| at.elapsed() >= pause)
    }

    /// The pause between two rounds now.
    pub(super) fn interval(&self) -> Duration {
        self.round.map_or(super::MIN_INTERVAL, |(_, pause)| pause)
    }

    /// Samples of those threads without timer that run now and have used enough CPU time since their last sample.
    pub(super) fn take(&mut self, clocks: &mut ThreadClocks) -> Vec<SlotRecord> {
        let (now, begin_cpu_ns) = (Instant::now(), time::thread_cpu_ns());
        let candidates = clocks.without_timer();
        self.rest_until.retain(|_, until| *until > now);
        let is_due = |of: &&StopCandidate| {
            let tid = of.task.tid;
            of.cpu_ns.saturating_sub(of.sampled_ns) >= PERIOD_NS
                && !self.rest_until.contains_key(&tid)
                && self.stopping.iter().all(|(thread, _)| thread.tid() != tid)
                && runs(of.task)
        };
        let due: Vec<StopCandidate> = candidates.iter().filter(is_due).take(MOST_IN_ROUND).copied().collect();
        for silent in due.iter().filter(|of| of.is_silent) {
            let tid = silent.task.tid;
            self.silent.entry(tid).or_insert_with(|| proc::blocks_signal(tid, TIMER_SIGNAL));
        }
        let records = due.iter().filter_map(|of| self.sample(of)).collect();
        self.round = Some((now, super::rest_after(begin_cpu_ns)));
        records
    }

    fn sample(&mut self, of: &StopCandidate) -> Option<SlotRecord> {
        let runs_before = runs_of(of.task);
        let begin = Instant::now();
        let record = match stop::stop(of.task.tid, || begin.elapsed() < PATIENCE) {
            StopAttempt::Stopped(stopped) => {
                let had_cpu = runs_before.is_some() && runs_of(of.task) == runs_before;
                self.copy(of, &stopped, had_cpu)
            }
            StopAttempt::Stopping(thread) => {
                self.stopping.push((thread, *of));
                None
            }
            StopAttempt::Refused(error) => {
                if matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES)) {
                    self.counts.refused += 1;
                    let tid = of.task.tid;
                    self.refused
                        .get_or_insert_with(|| AccessFacts::own().of_stops(RefusedStop::of(tid, &error)));
                }
                None
            }
        };
        self.rest_until.insert(of.task.tid, begin + begin.elapsed() * REST_TIMES);
        record
    }

    fn copy(&mut self, of: &StopCandidate, stopped: &StoppedThread, had_cpu: bool) -> Option<SlotRecord> {
        let counts = had_cpu || !stopped.is_in_call();
        let registers = stopped.registers().ok().filter(|_| counts);
        let record = registers.map(|registers| record_of(of, &registers));
        if let (Some(python), Some(record)) = (&self.python, &record) {
            python.read_resting(of.task, StackMoment::Sample(record.words[word::TIME]), &|| true);
        }
        self.counts.restarted += u64::from(stopped.restart_interrupted_call());
        self.counts.samples += u64::from(record.is_some());
        record
    }

    /// Samples of threads that stopped late, which run on. To be called at each signal of a child: until then they wait.
    pub(super) fn take_late(&mut self) -> Vec<SlotRecord> {
        let mut records = Vec::new();
        for (thread, of) in std::mem::take(&mut self.stopping) {
            match thread.stopped() {
                Some(stopped) => records.extend(self.copy(&of, &stopped, false)),
                None if thread.is_gone(self.child) => {}
                None => self.stopping.push((thread, of)),
            }
        }
        records
    }
}

/// Whether a thread may be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopAccess {
    /// It may.
    Granted,
    /// Not before this process, a debugger, lets it go.
    TracedBy(u32),
    /// The system forbids it.
    Denied(RefusedStop),
    /// There is no such thread any more.
    Gone,
}

/// Tries it with one living thread.
pub(super) fn access_to(tid: u32) -> StopAccess {
    let begin = Instant::now();
    match stop::stop(tid, || begin.elapsed() < Duration::from_millis(20)) {
        StopAttempt::Stopped(stopped) => {
            stopped.restart_interrupted_call();
            StopAccess::Granted
        }
        StopAttempt::Stopping(thread) => {
            let waits = Instant::now();
            while waits.elapsed() < Duration::from_secs(1) {
                if let Some(stopped) = thread.stopped() {
                    stopped.restart_interrupted_call();
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            StopAccess::Granted
        }
        StopAttempt::Refused(error) if error.raw_os_error() == Some(libc::ESRCH) => StopAccess::Gone,
        StopAttempt::Refused(error) => {
            let denied = StopAccess::Denied(RefusedStop::of(tid, &error));
            proc::tracer_of(tid).map_or(denied, StopAccess::TracedBy)
        }
    }
}

/// True if the thread has a CPU or waits for one.
fn runs(of: PidTid) -> bool {
    let stat = system_file::read(format!("/proc/{}/task/{}/stat", of.pid, of.tid)).unwrap_or_default();
    proc::state_letter(&stat) == Some(b'R')
}

/// How often the thread got a CPU.
fn runs_of(of: PidTid) -> Option<u64> {
    let text = system_file::read_text(format!("/proc/{}/task/{}/schedstat", of.pid, of.tid)).ok()?;
    text.split_whitespace().nth(2)?.parse().ok()
}

/// A record as a timer inside would have written it.
fn record_of(of: &StopCandidate, registers: &stop::PerfRegisters) -> SlotRecord {
    let stack = read_stack(of.task.pid, registers[SP]);
    let mut words = vec![0; word::REGS];
    words[word::KIND] = kind::SAMPLE;
    words[word::TIME] = Clock::Monotonic.now_ns();
    words[word::CPU] = of.cpu_ns;
    words[word::TASK] = u64::from(of.task.tid) << 32 | u64::from(of.task.pid);
    words[word::BYTES] = stack.len() as u64;
    words.extend(registers);
    debug_assert_eq!(words[word::REGS + PC], registers[PC]);
    SlotRecord { words, bytes: stack, python: Vec::new() }
}

/// The stack from `sp` upwards; empty if it can't be read.
fn read_stack(pid: u32, sp: u64) -> Vec<u8> {
    let Ok(memory) = system_file::open(format!("/proc/{pid}/mem")) else { return Vec::new() };
    read_up_to(&memory, sp, STACK_BYTES)
}

fn read_up_to(memory: &File, from: u64, most: usize) -> Vec<u8> {
    let mut bytes = vec![0; most];
    // The kernel reads up to the first page that is not there.
    let len = memory.read_at(&mut bytes, from).unwrap_or(0);
    bytes.truncate(len);
    bytes
}
