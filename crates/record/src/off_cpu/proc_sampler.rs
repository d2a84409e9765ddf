//! Tier C: waits of threads, found by looking at /proc now and then. No rights are needed for one's own.
//!
//! `syscall` has the system call with stack pointer and pc, `wchan` the kernel function, `stat` the state, and
//! `schedstat` how often the thread has run. A count unchanged since the last look means that it is still the same
//! wait. A count unchanged after the look means that all that was read belongs to one wait. The length of a wait
//! comes from switch records.

mod thread_files;

use std::fs::File;
use std::time::{Duration, Instant};

use perfdata::off_cpu::State;
use rustc_hash::FxHashMap;

use super::Scope;
use crate::machine::proc;
use crate::sys::time::thread_cpu_ns;
use thread_files::look_anyway;
pub(crate) use thread_files::{ThreadFiles, look};
pub use thread_files::{WaitingCall, parse_syscall};

/// No two rounds of looks are nearer, unless asked for.
pub const MIN_INTERVAL: Duration = Duration::from_millis(8);
/// The pause after a round is this many times as long as the round took CPU time: one percent of a CPU.
const REST_TIMES: u32 = 100;
/// Pauses that are longer than this, as many threads or a slow machine would need, are shortened: waits of a second are
/// to be seen.
const LONG_REST: Duration = Duration::from_millis(400);
/// A pause is at least this many times as long as the round: five percent of a CPU.
const LEAST_REST_TIMES: u32 = 20;
/// New threads and processes are searched for so often.
const SEARCH_EVERY: Duration = Duration::from_millis(50);
/// User stack that is read.
const STACK_BYTES: usize = 48 << 10;
/// More threads are not looked at.
const MAX_THREADS: usize = 4096;

/// A thread found waiting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcSample {
    /// Process of the thread.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// When, `CLOCK_MONOTONIC` ns.
    pub time_ns: u64,
    /// Since the round of looks before, ns.
    pub since_last_ns: u64,
    /// Sleeping or uninterruptible.
    pub state: State,
    /// `None` in a page fault.
    pub syscall: Option<u32>,
    /// The call's first arguments.
    pub args: [u64; 3],
    /// The kernel function it waits in; empty if the kernel doesn't show it.
    pub place: String,
    /// User pc.
    pub pc: u64,
    /// User stack pointer.
    pub sp: u64,
    /// The stack from `sp` upwards; empty if it could not be read.
    pub stack: Vec<u8>,
}

impl ProcSample {
    /// Threads of which nothing but the state is known.
    pub(crate) fn of_state(pid: u32, tid: u32, time_ns: u64, state: State) -> Self {
        Self {
            pid,
            tid,
            time_ns,
            since_last_ns: 0,
            state,
            syscall: None,
            args: [0; 3],
            place: String::new(),
            pc: 0,
            sp: 0,
            stack: Vec::new(),
        }
    }
}

/// The pause after a round of looks that took so long.
fn rest_after(round: Duration) -> Duration {
    let longest = LONG_REST.max(round * LEAST_REST_TIMES).min(Duration::from_secs(2));
    (round * REST_TIMES).min(longest)
}

/// Looks at the threads of a target.
#[derive(Debug)]
pub struct ProcSampler {
    roots: Vec<u32>,
    /// Only these threads, not all of their processes.
    only_threads: bool,
    threads: FxHashMap<u32, ThreadFiles>,
    memories: Memories,
    searched: Option<Instant>,
    looked: Option<Instant>,
    interval: Duration,
    /// No two rounds are nearer.
    least: Duration,
    /// CPU time of rounds since the last pause.
    spent: Duration,
    /// The next round looks at waits that the last one found first.
    is_second: bool,
}

/// `/proc/PID/mem` of processes; `None` where it can't be opened.
pub(crate) type Memories = FxHashMap<u32, Option<File>>;

impl ProcSampler {
    /// For the threads of `scope`; `None` for the whole system or a cgroup, which are others' too.
    #[must_use]
    pub fn new(scope: &Scope) -> Option<Self> {
        let (roots, only_threads) = match scope {
            Scope::System | Scope::Cgroup(_) => return None,
            Scope::Command(pid) => (vec![*pid], false),
            Scope::Processes(pids) => (pids.clone(), false),
            Scope::Threads(tids) => (tids.clone(), true),
        };
        Some(Self {
            roots,
            only_threads,
            threads: FxHashMap::default(),
            memories: FxHashMap::default(),
            searched: None,
            looked: None,
            interval: MIN_INTERVAL,
            least: MIN_INTERVAL,
            spent: Duration::ZERO,
            is_second: false,
        })
    }

    /// The same, but for waits at least this long.
    #[must_use]
    pub fn of_long_waits(self, least: Duration) -> Self {
        Self { interval: least, least, ..self }
    }

    /// A round of looks, if it is time for one; hands out the threads found in a wait not seen before.
    pub fn poll(&mut self, sink: &mut dyn FnMut(&ProcSample)) {
        let (begin, begin_cpu_ns) = (Instant::now(), thread_cpu_ns());
        let since_last = self.looked.map_or(self.interval, |looked| begin.duration_since(looked));
        if since_last < self.interval {
            return;
        }
        self.looked = Some(begin);
        if self.searched.is_none_or(|searched| begin.duration_since(searched) >= SEARCH_EVERY) {
            self.searched = Some(begin);
            self.search();
        }
        let since_last_ns = u64::try_from(since_last.as_nanos()).unwrap_or(u64::MAX);
        let (memories, takes_all) = (&mut self.memories, self.least == MIN_INTERVAL);
        let mut has_new = false;
        self.threads.retain(|&tid, thread| {
            let Some(runs) = thread.runs_now() else { return false };
            let is_long = takes_all || thread.before == Some(runs);
            has_new |= !is_long;
            thread.before = Some(runs);
            if thread.runs != Some(runs)
                && is_long
                && let Some(mut look) = look(tid, thread, runs, memories)
            {
                thread.runs = Some(runs);
                look.since_last_ns = since_last_ns;
                sink(&look);
            }
            true
        });
        self.spent += Duration::from_nanos(thread_cpu_ns().saturating_sub(begin_cpu_ns));
        self.rest(has_new);
    }

    /// The pause until the next round. A new wait is long if it is still there after the least pause: to find that out
    /// after a long one would miss waits of a second.
    fn rest(&mut self, has_new: bool) {
        self.is_second = has_new && !self.is_second;
        self.interval = if self.is_second {
            self.least
        } else {
            rest_after(std::mem::take(&mut self.spent)).max(self.least)
        };
    }

    /// The time between two rounds now.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.interval
    }

    fn search(&mut self) {
        if self.only_threads {
            for &tid in &self.roots {
                let pid = proc::status(tid).map_or(tid, |status| status.tgid);
                watch(&mut self.threads, pid, tid);
            }
            return;
        }
        let mut pids = self.roots.clone();
        let mut at = 0;
        while let Some(&pid) = pids.get(at) {
            at += 1;
            for tid in proc::threads(pid).unwrap_or_default() {
                watch(&mut self.threads, pid, tid);
                pids.extend(
                    proc::children(pid, tid)
                        .into_iter()
                        .filter(|child| !pids.contains(child))
                        .collect::<Vec<_>>(),
                );
            }
        }
        self.memories.retain(|pid, _| pids.contains(pid));
    }
}

fn watch(threads: &mut FxHashMap<u32, ThreadFiles>, pid: u32, tid: u32) {
    if threads.contains_key(&tid) || threads.len() >= MAX_THREADS {
        return;
    }
    threads.extend(ThreadFiles::open(pid, tid).map(|thread| (tid, thread)));
}

/// A look at every thread of `scope`, waiting or not: those that are runnable or run have the state [`State::On`]. A
/// command has not begun yet, so it has none.
pub fn everyone(scope: &Scope, sink: &mut dyn FnMut(&ProcSample)) {
    let pids = match scope {
        Scope::Command(_) => return,
        Scope::System | Scope::Cgroup(_) => proc::pids(),
        Scope::Processes(pids) => pids.clone(),
        Scope::Threads(tids) => tids.iter().filter_map(|&tid| proc::status(tid)).map(|of| of.tgid).collect(),
    };
    let is_wanted = |tid: &u32| !matches!(scope, Scope::Threads(tids) if !tids.contains(tid));
    let mut memories = FxHashMap::default();
    for pid in pids {
        for tid in proc::threads(pid).unwrap_or_default().into_iter().filter(is_wanted) {
            if let Some(look) = look_anyway(pid, tid, &mut memories) {
                sink(&look);
            }
        }
        memories.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_cost_one_percent_and_of_slow_rounds_five() {
        let rest = |round_ms| rest_after(Duration::from_millis(round_ms)).as_millis();
        assert_eq!([1, 4, 10, 20, 50, 200].map(rest), [100, 400, 400, 400, 1000, 2000]);
    }

    #[test]
    fn a_new_wait_is_looked_at_again_soon_and_the_pause_is_for_both_rounds() {
        let least = Duration::from_millis(50);
        let scope = Scope::Processes(vec![std::process::id()]);
        let mut looker = ProcSampler::new(&scope).expect("processes").of_long_waits(least);
        let mut after = |round_ms, has_new| {
            looker.spent += Duration::from_millis(round_ms);
            looker.rest(has_new);
            looker.interval().as_millis()
        };
        assert_eq!([after(1, true), after(1, true), after(1, true), after(2, false)], [50, 200, 50, 300]);
    }

    #[test]
    fn a_line_of_proc_syscall_tells_call_stack_and_pc() {
        let call =
            parse_syscall("230 0x0 0x1 0x7ffc 0x4 0x5 0x6 0x7ffc4e116bd8 0x7fd26d27a503\n").expect("a call");
        assert_eq!((call.syscall, &call.args[..3]), (Some(230), &[0, 1, 0x7ffc][..]));
        assert_eq!((call.sp, call.pc), (0x7ffc_4e11_6bd8, 0x7fd2_6d27_a503));
        let fault = parse_syscall("-1 0x10 0x20").expect("a fault");
        assert_eq!((fault.syscall, fault.args, fault.sp, fault.pc), (None, [0; 6], 0x10, 0x20));
        for text in ["running", "", "230", "x 0x1 0x2"] {
            assert_eq!(parse_syscall(text), None, "{text}");
        }
        assert_eq!(proc::state_letter(b"7 (a) (b)) D 1 7"), Some(b'D'));
    }

    #[test]
    fn a_sleeping_thread_is_seen_once_per_wait_with_its_call_and_stack() {
        let (send, receive) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || receive.recv().is_ok());
        let us = std::process::id();
        let mut looker = ProcSampler::new(&Scope::Processes(vec![us])).expect("processes");
        let mut looks = Vec::new();
        for _ in 0..20 {
            std::thread::sleep(looker.interval());
            looker.poll(&mut |look| looks.push(look.clone()));
        }
        send.send(()).expect("it waits");
        assert!(thread.join().expect("no panic"));
        let futex = if cfg!(target_arch = "x86_64") { 202 } else { 98 };
        let waits: Vec<&ProcSample> = looks.iter().filter(|look| look.syscall == Some(futex)).collect();
        assert!(!waits.is_empty(), "{looks:?}");
        assert!(
            waits.iter().all(|look| look.pid == us && look.state == State::Sleep && look.stack.len() > 64)
        );
    }
}
