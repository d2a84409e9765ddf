//! The files of one thread in /proc, and what they show.

use std::fs::File;
use std::os::unix::fs::FileExt;

use dso::system_file;
use perfdata::off_cpu::State;
use rustc_hash::FxHashMap;

use super::{Memories, ProcSample, STACK_BYTES};
use crate::machine::proc;
use crate::sys::time::Clock;

/// A thread's opened files.
#[derive(Debug)]
pub(crate) struct ThreadFiles {
    pid: u32,
    schedstat: File,
    syscall: File,
    status: File,
    /// Times it had run at the last look.
    pub(super) runs: Option<u64>,
    /// The same at the last round.
    pub(super) before: Option<u64>,
}

impl ThreadFiles {
    /// `None` if it is gone, or not ours to look at.
    pub(crate) fn open(pid: u32, tid: u32) -> Option<Self> {
        let open = |file: &str| system_file::open(format!("/proc/{pid}/task/{tid}/{file}")).ok();
        let (schedstat, syscall, status) = (open("schedstat")?, open("syscall")?, open("status")?);
        Some(Self { pid, schedstat, syscall, status, runs: None, before: None })
    }

    /// How often the thread has lost its CPU while it could run; `None` if it is gone.
    // Source: linux v6.18 fs/proc/array.c, task_context_switch_counts()
    pub(crate) fn preemptions(&self) -> Option<u64> {
        let text = read_text(&self.status)?;
        text.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?.trim().parse().ok()
    }

    /// Time on a CPU and in the run queue so far, ns, and how often the thread has got a CPU; `None` if it is gone.
    // Source: linux v6.18 fs/proc/base.c, proc_pid_schedstat()
    pub(crate) fn sums(&self) -> Option<[u64; 3]> {
        let text = read_text(&self.schedstat)?;
        let mut words = text.split_whitespace().map(|word| word.parse().ok());
        Some([words.next()??, words.next()??, words.next()??])
    }

    /// How often the thread has got a CPU; `None` if it is gone.
    pub(super) fn runs_now(&self) -> Option<u64> {
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

/// A look, at least by the letter of its state.
pub(super) fn look_anyway(
    pid: u32,
    tid: u32,
    memories: &mut FxHashMap<u32, Option<File>>,
) -> Option<ProcSample> {
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
    // `status` is the longest: about 1,500 bytes, and a mask of CPUs.
    let mut bytes = [0; 4096];
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
