//! Tier C: waits of threads, found by looking at /proc now and then. No rights are needed for one's own.
//!
//! `syscall` has the system call with stack pointer and pc, `wchan` the kernel function, `stat` the state, and
//! `schedstat` how often the thread has run. A count unchanged since the last look means that it is still the same
//! wait. A count unchanged after the look means that all that was read belongs to one wait. The length of a wait
//! comes from switch records.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use dso::system_file;
use perfdata::off_cpu::State;
use rustc_hash::FxHashMap;

use super::Scope;
use crate::machine::proc;
use crate::sys::time::Clock;

/// No two rounds of looks are nearer, unless asked for.
pub const MIN_INTERVAL: Duration = Duration::from_millis(8);
/// The pause after a round is this many times as long as the round: one percent of a CPU.
const REST_TIMES: u32 = 100;
/// New threads and processes are searched for so often.
const SEARCH_EVERY: Duration = Duration::from_millis(50);
/// User stack that is read.
const STACK_BYTES: usize = 16 << 10;
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
    /// Of which nothing but the state is known.
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
}

/// `/proc/PID/mem` of processes; `None` where it can't be opened.
pub(crate) type Memories = FxHashMap<u32, Option<File>>;

/// A thread's opened files.
#[derive(Debug)]
pub(crate) struct ThreadFiles {
    pid: u32,
    schedstat: File,
    syscall: File,
    /// Times it had run at the last look.
    runs: Option<u64>,
    /// The same at the last round.
    before: Option<u64>,
}

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
        })
    }

    /// The same, but for waits at least this long.
    #[must_use]
    pub fn of_long_waits(self, least: Duration) -> Self {
        Self { interval: least, least, ..self }
    }

    /// A round of looks, if it is time for one; hands out the threads found in a wait not seen before.
    pub fn poll(&mut self, sink: &mut dyn FnMut(&ProcSample)) {
        let begin = Instant::now();
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
        self.threads.retain(|&tid, thread| {
            let Some(runs) = thread.runs_now() else { return false };
            let is_long = takes_all || thread.before == Some(runs);
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
        self.interval = (begin.elapsed() * REST_TIMES).clamp(self.least, Duration::from_secs(2));
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

impl ThreadFiles {
    /// `None` if it is gone, or not ours to look at.
    pub(crate) fn open(pid: u32, tid: u32) -> Option<Self> {
        let open = |file: &str| system_file::open(format!("/proc/{pid}/task/{tid}/{file}")).ok();
        Some(Self { pid, schedstat: open("schedstat")?, syscall: open("syscall")?, runs: None, before: None })
    }

    /// Time on a CPU and in the run queue so far, ns, and how often the thread has got a CPU; `None` if it is gone.
    // Source: linux v6.18 fs/proc/base.c, proc_pid_schedstat()
    pub(crate) fn sums(&self) -> Option<[u64; 3]> {
        let text = read_text(&self.schedstat)?;
        let mut words = text.split_whitespace().map(|word| word.parse().ok());
        Some([words.next()??, words.next()??, words.next()??])
    }

    /// How often the thread has got a CPU; `None` if it is gone.
    fn runs_now(&self) -> Option<u64> {
        self.sums().map(|[_, _, runs]| runs)
    }
}

/// The current wait of a thread; `None` if it does not wait, or not long enough to be looked at. The time between
/// looks is left 0. Call and stack are read first. Values read later may already belong to another wait, and are left
/// out then.
pub(crate) fn look(tid: u32, thread: &ThreadFiles, runs: u64, memories: &mut Memories) -> Option<ProcSample> {
    let time_ns = Clock::Monotonic.now_ns();
    let WaitingCall { syscall, args, sp, pc } = parse_syscall(&read_text(&thread.syscall)?)?;
    let pid = thread.pid;
    let stack = read_stack(memories, pid, sp);
    if thread.runs_now() != Some(runs) {
        return None;
    }
    let dir = format!("/proc/{pid}/task/{tid}");
    let letter = proc::state_letter(&system_file::read(format!("{dir}/stat")).ok()?)?;
    let place = system_file::read_text(format!("{dir}/wchan")).unwrap_or_default();
    let is_same = thread.runs_now() == Some(runs);
    let state = match letter {
        b'D' if is_same => State::Disk,
        b'S' | b'D' | b'R' => State::Sleep,
        _ => return None,
    };
    let place = if is_same && place != "0" { place } else { String::new() };
    let args = [args[0], args[1], args[2]];
    Some(ProcSample { pid, tid, time_ns, since_last_ns: 0, state, syscall, args, place, pc, sp, stack })
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

/// A look, at least by the letter of its state.
fn look_anyway(pid: u32, tid: u32, memories: &mut FxHashMap<u32, Option<File>>) -> Option<ProcSample> {
    let time_ns = Clock::Monotonic.now_ns();
    let opened = ThreadFiles::open(pid, tid);
    let waits = opened.and_then(|thread| look(tid, &thread, thread.runs_now()?, memories));
    let letter = proc::state_letter(&system_file::read(format!("/proc/{pid}/task/{tid}/stat")).ok()?)?;
    let state = match letter {
        b'S' => State::Sleep,
        b'D' => State::Disk,
        b'I' => State::Idle,
        b'T' | b't' | b'P' => State::Stopped,
        b'R' => State::On,
        _ => return None,
    };
    match waits {
        Some(look) if state != State::On => Some(ProcSample { state, ..look }),
        _ => Some(ProcSample::of_state(pid, tid, time_ns, state)),
    }
}

/// A line of `/proc/TID/syscall`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingCall {
    /// The system call's number; `None` outside of one (a page fault).
    pub syscall: Option<u32>,
    /// Arguments of the call; 0 without a call.
    pub args: [u64; 6],
    /// User stack pointer.
    pub sp: u64,
    /// User pc.
    pub pc: u64,
}

/// Reads `/proc/TID/syscall`: "NR ARG0 … ARG5 SP PC", or "-1 SP PC"; `None` if the thread runs ("running").
// Source: linux v6.18 fs/proc/base.c, proc_pid_syscall()
#[must_use]
pub fn parse_syscall(text: &str) -> Option<WaitingCall> {
    let mut words = text.split_whitespace();
    let number: i64 = words.next()?.parse().ok()?;
    let numbers: Option<Vec<u64>> =
        words.map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()).collect();
    let numbers = numbers?;
    let (&pc, rest) = numbers.split_last()?;
    let (&sp, args) = rest.split_last()?;
    let args = std::array::from_fn(|i| args.get(i).copied().unwrap_or(0));
    Some(WaitingCall { syscall: u32::try_from(number).ok(), args, sp, pc })
}

fn read_text(file: &File) -> Option<String> {
    let mut bytes = [0; 256];
    let len = file.read_at(&mut bytes, 0).ok().filter(|&len| len > 0)?;
    Some(String::from_utf8_lossy(&bytes[..len]).into_owned())
}

fn read_stack(memories: &mut FxHashMap<u32, Option<File>>, pid: u32, sp: u64) -> Vec<u8> {
    let memory = memories.entry(pid).or_insert_with(|| system_file::open(format!("/proc/{pid}/mem")).ok());
    let mut stack = vec![0; STACK_BYTES];
    let len = memory.as_ref().and_then(|memory| memory.read_at(&mut stack, sp).ok()).unwrap_or(0);
    stack.truncate(len);
    stack
}

#[cfg(test)]
mod tests {
    use super::*;

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
