//! Ring records into samples: pairs wakers with sleepers, makes perf callchains, names the system call.
//!
//! Knows the payload and the callchain format; how user stacks are unwound is the caller's ([`StackUnwinder`]).
//! Conservation: the periods of all samples of a thread, by event, add up to its totals.

use dso::unwind::Regs;
use perfdata::off_cpu::{Interval, Other, State, Totals, event_name, flag};
use rustc_hash::FxHashMap;

use super::layout::{EndRecord, Kind, OffRecord, Record};

/// `PERF_CONTEXT_KERNEL` and `PERF_CONTEXT_USER`: include/uapi/linux/perf_event.h
const CONTEXT_KERNEL: u64 = -128i64 as u64;
const CONTEXT_USER: u64 = -512i64 as u64;

/// How a user stack becomes return addresses.
pub trait StackUnwinder {
    /// Appends the user chain of a thread to `chain`, leaf first, without marker.
    ///
    /// `stack` starts at the stack pointer. Answers how many bytes of stack more it would have needed; 0 if it
    /// ended for any other reason.
    fn unwind(&mut self, pid: u32, tid: u32, regs: &Regs, stack: &[u8], chain: &mut Vec<u64>) -> u64;
}

/// One sample, ready to be written as a perf record of the event `event`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffSample {
    /// One of [`event_name`].
    pub event: &'static str,
    /// End of the interval, `CLOCK_MONOTONIC` ns.
    pub time_ns: u64,
    /// The sleeper's process.
    pub pid: u32,
    /// The sleeper.
    pub tid: u32,
    /// Where it came back.
    pub cpu: u32,
    /// What it stands for, ns.
    pub period: u64,
    /// Leaf first, with perf's context markers; empty if there is no stack.
    pub chain: Vec<u64>,
    /// A payload of [`perfdata::off_cpu`].
    pub raw: Vec<u8>,
}

/// Turns the engine's records into samples. Keeps wakers until their sleeper's sample comes.
#[derive(Debug, Default)]
pub struct Converter {
    wakers: FxHashMap<u32, (u64, Other)>,
    /// Processes whose stacks were cut short, with the bytes that would have been needed.
    short: Vec<(u32, u32)>,
    stacks: u64,
    complete: u64,
}

impl Converter {
    /// Hands the samples of one record to `out`.
    pub fn convert(
        &mut self,
        record: &Record<'_>,
        unwinder: &mut dyn StackUnwinder,
        out: &mut dyn FnMut(OffSample),
    ) {
        match record {
            Record::Waker(waker) => {
                let chain = self.chain_of(waker, waker.other_pid(), waker.other_tid(), unwinder);
                self.wakers.insert(waker.tid(), (waker.since_ns(), other_of(waker, chain)));
            }
            Record::Sample(sample) => self.convert_sample(sample, unwinder, out),
            Record::End(end) => {
                self.wakers.remove(&end.tid);
                convert_end(end, out);
            }
        }
    }

    /// Processes whose stacks need more bytes than were copied; give them to [`super::Engine::want_stack`].
    pub fn take_short(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.short)
    }

    /// Samples of user threads, and how many of them have a user stack that did not end for want of bytes.
    #[must_use]
    pub fn stack_quality(&self) -> (u64, u64) {
        (self.stacks, self.complete)
    }

    fn convert_sample(
        &mut self,
        sample: &OffRecord<'_>,
        unwinder: &mut dyn StackUnwinder,
        out: &mut dyn FnMut(OffSample),
    ) {
        let chain = self.chain_of(sample, sample.pid(), sample.tid(), unwinder);
        if !sample.regs().is_empty() {
            self.stacks += 1;
            self.complete += u64::from(!sample.stack().is_empty());
        }
        let waker = self.wakers.remove(&sample.tid()).filter(|(since, _)| *since == sample.since_ns());
        let other = waker.map_or_else(|| other_of(sample, Vec::new()), |(_, other)| other);
        let (syscall, args) = syscall_of(sample.regs());
        let base = |event, period, raw: Interval, chain| OffSample {
            event,
            time_ns: sample.time_ns(),
            pid: sample.pid(),
            tid: sample.tid(),
            cpu: sample.cpu(),
            period,
            chain,
            raw: raw.to_bytes(),
        };
        let interval = |state, length_ns, other| Interval {
            state,
            flags: sample.flags(),
            length_ns,
            syscall,
            args,
            other,
        };
        let kind = sample.kind();
        if sample.runnable_weight_ns() > 0 {
            let raw = interval(State::Runnable, sample.runnable_ns(), other.clone());
            out(base(event_name::RUNNABLE, sample.runnable_weight_ns(), raw, chain.clone()));
        }
        if sample.wait_weight_ns() > 0 {
            let raw = interval(state_of(kind), sample.wait_ns(), other);
            out(base(event_of(kind), sample.wait_weight_ns(), raw, chain));
        }
    }

    fn chain_of(
        &mut self,
        record: &OffRecord<'_>,
        pid: u32,
        tid: u32,
        unwinder: &mut dyn StackUnwinder,
    ) -> Vec<u64> {
        let mut chain = Vec::with_capacity(48);
        chain.push(CONTEXT_KERNEL);
        chain.extend(record.kernel_chain());
        if chain.len() == 1 {
            chain.clear();
        }
        if let Some(regs) = dwarf_regs(record.regs()) {
            chain.push(CONTEXT_USER);
            let missing = unwinder.unwind(pid, tid, &regs, record.stack(), &mut chain);
            if missing > 0 && !record.stack().is_empty() {
                let want = (record.stack().len() as u64 + missing).next_multiple_of(4096);
                self.short.push((pid, u32::try_from(want).unwrap_or(u32::MAX).max(16384)));
            }
        }
        chain
    }
}

fn convert_end(end: &EndRecord, out: &mut dyn FnMut(OffSample)) {
    let comm = String::from_utf8_lossy(&end.comm).into_owned();
    let base = |event, period, raw| OffSample {
        event,
        time_ns: end.end_ns,
        pid: end.pid,
        tid: end.tid,
        cpu: 0,
        period,
        chain: Vec::new(),
        raw,
    };
    for (code, &rest) in (0u8..).zip(&end.carry_ns) {
        let state = State::from_code(code);
        if rest == 0 || state == State::On {
            continue;
        }
        let event = match state {
            State::Runnable => event_name::RUNNABLE,
            State::Preempted => event_name::PREEMPTED,
            _ => event_name::OFF_CPU,
        };
        let interval = Interval {
            state,
            flags: flag::REST,
            length_ns: 0,
            syscall: None,
            args: [0; 3],
            other: Other::default(),
        };
        out(base(event, rest, interval.to_bytes()));
    }
    let totals = Totals {
        start_ns: end.start_ns,
        end_ns: end.end_ns,
        total_ns: end.total_ns,
        switches: end.switches,
        flags: end.flags,
        comm,
    };
    out(base(event_name::TOTALS, end.total_ns[Kind::On as usize], totals.to_bytes()));
}

fn other_of(record: &OffRecord<'_>, chain: Vec<u64>) -> Other {
    Other {
        pid: record.other_pid(),
        tid: record.other_tid(),
        comm: String::from_utf8_lossy(record.other_comm()).into_owned(),
        chain,
    }
}

fn state_of(kind: Kind) -> State {
    State::from_code(kind as u8)
}

fn event_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Runnable => event_name::RUNNABLE,
        Kind::Preempted => event_name::PREEMPTED,
        _ => event_name::OFF_CPU,
    }
}

/// A word of `struct pt_regs`.
fn word(regs: &[u8], index: usize) -> u64 {
    let bytes = regs.get(index * 8..index * 8 + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_ne_bytes)
}

// Layout: struct pt_regs { r15 r14 r13 r12 bp bx r11 r10 r9 r8 ax cx dx si di orig_ax ip cs flags sp ss }
// Source: linux v6.18 arch/x86/include/asm/ptrace.h
#[cfg(target_arch = "x86_64")]
fn dwarf_regs(regs: &[u8]) -> Option<Regs> {
    /// Of each DWARF number, the index in `pt_regs`: rax rdx rcx rbx rsi rdi rbp rsp r8…r15 rip.
    const INDEX: [usize; 17] = [10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16];
    (regs.len() >= 168).then(|| Regs::X86_64(dso::unwind::X86_64(INDEX.map(|i| word(regs, i)))))
}

/// The system call and its first arguments; `orig_ax` is −1 after exceptions and interrupts, and a 32-bit
/// task (cs ≠ 0x33) has another table.
#[cfg(target_arch = "x86_64")]
fn syscall_of(regs: &[u8]) -> (Option<u32>, [u64; 3]) {
    const USER_CS: u64 = 0x33;
    let number = word(regs, 15);
    let known = regs.len() >= 168 && number < 1 << 16 && word(regs, 17) == USER_CS;
    if !known {
        return (None, [0; 3]);
    }
    (u32::try_from(number).ok(), [word(regs, 14), word(regs, 13), word(regs, 12)])
}

// Layout: struct pt_regs { user_pt_regs { regs[31] sp pc pstate } orig_x0 syscallno … }
// Source: linux v6.18 arch/arm64/include/asm/ptrace.h
#[cfg(target_arch = "aarch64")]
fn dwarf_regs(regs: &[u8]) -> Option<Regs> {
    (regs.len() >= 264).then(|| Regs::Aarch64(dso::unwind::Aarch64(std::array::from_fn(|i| word(regs, i)))))
}

/// The copied prefix ends before `syscallno`; x8 holds the number while in a system call.
#[cfg(target_arch = "aarch64")]
fn syscall_of(regs: &[u8]) -> (Option<u32>, [u64; 3]) {
    let number = word(regs, 8);
    if regs.len() < 264 || number >= 1 << 16 {
        return (None, [0; 3]);
    }
    (u32::try_from(number).ok(), [word(regs, 0), word(regs, 1), word(regs, 2)])
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn dwarf_regs(_regs: &[u8]) -> Option<Regs> {
    None
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn syscall_of(_regs: &[u8]) -> (Option<u32>, [u64; 3]) {
    (None, [0; 3])
}
