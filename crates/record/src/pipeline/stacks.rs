//! Live unwinding: a sample's registers and stack copy become an ordinary callchain.
//!
//! A stack deeper than its copy is continued from what can be proved to be the same stack: the chain of the same
//! thread taken earlier (same return address at the same stack pointer), or the process's memory as it is now.
//! Such chains are marked as joined. So is one whose leaf is in a signal's handler on a stack of its own: the stack
//! that the signal interrupted is read from memory.

use dso::unwind::{AddressSpace, Regs, Stack, Stop, Unwinder, Which};
use dso::{Avma, Machine};
use perfdata::abi::*;
use perfdata::{Sample, UserStack};

use crate::accounting::account::StackEnding;
use crate::accounting::summary::StopReason;
use crate::machine::processes::Processes;
use crate::pipeline::chain_join::{ChainFrame, Earlier};
use crate::runtimes::python::weave::PythonFrames;

/// More frames than this would not fit a record (65,535 bytes) with the other fields.
const MAX_FRAMES: usize = 7_500;

/// How much of a stack is read from memory at most, beyond the copy.
const MAX_DEEP_BYTES: usize = 8 << 20;

/// Pages of made code read for one sample.
const MAX_LEARNED: usize = 8;

/// More than a sample's other fields take.
const RECORD_BYTES: u32 = 4096;

/// Bytes at the end of a copy that must be the same in memory for the stack to be continued from there.
const SEAM_BYTES: usize = 1024;

/// A signal's `ucontext` up to the last register the kernel keeps there.
const SIGNAL_REGISTER_BYTES: usize = 256;

/// Turns snapshots into chains. One for the unwinding thread.
pub struct Stacks {
    unwinder: Unwinder,
    machine: Machine,
    /// Sizes of the copies, ascending.
    steps: Vec<u32>,
    earlier: Earlier,
    addresses: Vec<Avma>,
    frames: Vec<ChainFrame>,
    chain: Vec<u64>,
    deep: Vec<u8>,
    /// Of the sample that is unwound next.
    python: Option<PythonFrames>,
}

/// Result of one sample's stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unwound {
    /// How it ended; `None` if the sample has no user stack (a kernel thread).
    pub ending: Option<StackEnding>,
    /// The copy was too short for this stack.
    pub was_cut: bool,
}

impl Stacks {
    /// For samples with stack copies of these sizes.
    #[must_use]
    pub fn new(steps: &[u32]) -> Self {
        Self {
            unwinder: Unwinder::new(),
            machine: Machine::host(),
            steps: steps.to_vec(),
            earlier: Earlier::default(),
            addresses: Vec::new(),
            frames: Vec::new(),
            chain: Vec::new(),
            deep: Vec::new(),
            python: None,
        }
    }

    /// The chain made by the last [`Stacks::unwind`]: kernel part as the kernel wrote it, then the user's, leaf
    /// first, with context markers.
    #[must_use]
    pub fn chain(&self) -> &[u64] {
        &self.chain
    }

    /// Puts these frames between the native ones of the sample that is unwound next.
    pub fn take_python(&mut self, frames: Option<PythonFrames>) {
        self.python = frames;
    }

    /// Only the kernel's frames and the user's leaf, for a sample that no time is left for.
    pub fn leaf(&mut self, sample: &Sample<'_>) -> Unwound {
        self.chain.clear();
        self.frames.clear();
        self.take_kernel_part(sample);
        let is_user = sample.regs_user.is_some_and(|r| r.abi != PERF_SAMPLE_REGS_ABI_NONE);
        self.leaf_only(sample);
        let ending = is_user.then_some(StackEnding::Stopped(StopReason::Behind, None));
        Unwound { ending, was_cut: false }
    }

    /// Unwinds one sample; the result is in [`Stacks::chain`].
    pub fn unwind(&mut self, sample: &Sample<'_>, processes: &mut Processes) -> Unwound {
        let unwound = self.unwind_all(sample, processes);
        self.python = None;
        unwound
    }

    fn unwind_all(&mut self, sample: &Sample<'_>, processes: &mut Processes) -> Unwound {
        self.chain.clear();
        self.take_kernel_part(sample);
        let (pid, tid) = sample.pid_tid.unwrap_or_default();
        let values: Vec<u64> = sample.regs_user.map(|r| r.values.iter().collect()).unwrap_or_default();
        let (abi, mask) = sample.regs_user.map_or((PERF_SAMPLE_REGS_ABI_NONE, 0), |r| (r.abi, r.mask));
        let regs = match abi {
            PERF_SAMPLE_REGS_ABI_NONE => return Unwound { ending: None, was_cut: false },
            PERF_SAMPLE_REGS_ABI_64 => Regs::from_perf(self.machine, mask, &values),
            _ => None,
        };
        let Some(regs) = regs else {
            self.leaf_only(sample);
            let ending = StackEnding::Stopped(StopReason::NoRegisters, None);
            return Unwound { ending: Some(ending), was_cut: false };
        };
        let copied = sample.stack_user.unwrap_or(UserStack { bytes: &[], reserved: 0 });
        if copied.bytes.is_empty() && processes.read_memory(pid, regs.sp().0, &mut [0; 8]) == 0 {
            // The memory doesn't exist: the process is in the middle of exec, or at its end. It has no user stack.
            return Unwound { ending: None, was_cut: false };
        }
        let stop = self.walk((pid, processes), &regs, Stack::new(regs.sp(), copied.bytes));
        let mut unwound = Unwound { ending: None, was_cut: false };
        let ending = match stop {
            Stop::ReachedRoot => StackEnding::Complete,
            Stop::StackEnd { .. } => {
                unwound.was_cut = self.full_copy(copied).is_some();
                self.go_deeper(pid, tid, &regs, copied, processes)
            }
            Stop::OtherStack { .. } if self.goes_on_by_frame_pointers(sample, processes.space(pid)) => {
                StackEnding::Complete
            }
            Stop::InterruptedStack { sp } => self.leave_handler((pid, processes), &regs, copied.bytes, sp),
            _ if self.is_at_kernel_entry() => {
                unwound.ending = Some(StackEnding::Stopped(StopReason::NoRegisters, None));
                return unwound;
            }
            other => self.ending_of(other, copied),
        };
        self.push_frames(matches!(ending, StackEnding::Complete | StackEnding::Joined));
        unwound.ending = Some(ending);
        unwound
    }

    /// Fills `frames` from these bytes of the stack.
    fn walk(&mut self, (pid, processes): (u32, &mut Processes), regs: &Regs, stack: Stack<'_>) -> Stop {
        let mut stop = self.walk_once(processes.space(pid), regs, stack);
        for _ in 0..MAX_LEARNED {
            let Stop::NoUnwindInfo { which: Which::Anonymous, pc } = stop else { break };
            if !processes.know_code(pid, pc.0) {
                break;
            }
            stop = self.walk_once(processes.space(pid), regs, stack);
        }
        self.frames.clear();
        self.frames.extend(self.addresses.iter().map(|&pc| ChainFrame { pc, is_exact: false }));
        for &at in self.unwinder.exact_frames() {
            if let Some(frame) = self.frames.get_mut(at) {
                frame.is_exact = true;
            }
        }
        stop
    }

    fn walk_once(&mut self, space: &AddressSpace, regs: &Regs, stack: Stack<'_>) -> Stop {
        self.addresses.clear();
        self.unwinder.unwind(space, regs, stack, MAX_FRAMES, &mut self.addresses)
    }

    /// Begins the chain with the frames of the kernel.
    fn take_kernel_part(&mut self, sample: &Sample<'_>) {
        let entries = sample.callchain.iter().flat_map(|chain| chain.0.iter());
        self.chain.extend(entries.take_while(|entry| *entry != PERF_CONTEXT_USER));
    }

    /// The thread has changed stacks, and only one of them was copied. The kernel followed the frame pointers at the
    /// moment of the sample, across both: its frames go on where the copy ends, if they lead to a goroutine's start.
    fn goes_on_by_frame_pointers(&mut self, sample: &Sample<'_>, space: &AddressSpace) -> bool {
        let Some(last) = self.frames.last().map(|frame| frame.pc.0) else { return false };
        let by_kernel: Vec<u64> = sample.callchain.iter().flat_map(|chain| chain.0.iter()).collect();
        let user = by_kernel.iter().rposition(|entry| *entry == PERF_CONTEXT_USER).map_or(0, |at| at + 1);
        let frames = &by_kernel[user..];
        // The vdso has no frame pointers: the leaf is there, and the next frame is what called the caller of the vdso.
        let seam = frames.iter().position(|pc| *pc == last).unwrap_or(0);
        let outer = frames.get(seam + 1..).unwrap_or_default();
        if !outer.last().is_some_and(|pc| space.is_outermost_in_go(Avma(*pc))) {
            return false;
        }
        self.frames.extend(outer.iter().map(|&pc| ChainFrame { pc: Avma(pc), is_exact: false }));
        true
    }

    /// Appends the user part. As the leaf has, a frame that made no call has a marker before it: readers take the
    /// address after one as it is, and all others for return addresses.
    fn push_frames(&mut self, is_complete: bool) {
        let python = self.python.take().unwrap_or_default();
        let places =
            if python.groups.is_empty() { Vec::new() } else { self.python_places(&python, is_complete) };
        for (at, frame) in self.frames.iter().enumerate() {
            if at == 0 || frame.is_exact {
                self.chain.push(PERF_CONTEXT_USER);
            }
            self.chain.push(frame.pc.0);
            let groups = python.groups.iter().zip(&places).filter(|(_, place)| **place == at);
            self.chain.extend(groups.flat_map(|(group, _)| group));
        }
    }

    /// After which of the frames each group of Python's goes.
    fn python_places(&self, python: &PythonFrames, is_complete: bool) -> Vec<usize> {
        let native: Vec<_> = self.frames.iter().map(|frame| (frame.pc.0, frame.is_exact)).collect();
        python.places(&native, is_complete)
    }

    /// The kernel's part of the chain is a single frame: its entry code. On the first instructions there, the user's
    /// registers are not saved yet, and the kernel hands out those of the entry before.
    fn is_at_kernel_entry(&self) -> bool {
        matches!(self.chain[..], [PERF_CONTEXT_KERNEL, _])
    }

    /// The stack goes on past the copy.
    fn go_deeper(
        &mut self,
        pid: u32,
        tid: u32,
        regs: &Regs,
        copied: UserStack<'_>,
        processes: &mut Processes,
    ) -> StackEnding {
        let sps = self.unwinder.stack_pointers().to_vec();
        let mut probe = |address: u64| {
            let mut bytes = [0; 8];
            (processes.read_memory(pid, address, &mut bytes) == 8).then(|| u64::from_le_bytes(bytes))
        };
        if self.earlier.join((pid, tid), &mut self.frames, &sps, &mut probe) {
            return StackEnding::Joined;
        }
        let shown = self.frames.clone();
        if seam_is_unchanged(pid, regs, copied, processes) {
            match self.unwind_memory(pid, regs, copied, processes) {
                Stop::ReachedRoot => {
                    self.earlier.remember((pid, tid), &self.frames, self.unwinder.stack_pointers());
                    return StackEnding::Joined;
                }
                Stop::InterruptedStack { sp } => {
                    let handler = std::mem::take(&mut self.deep);
                    return self.leave_handler((pid, processes), regs, &handler, sp);
                }
                _ => {}
            }
        }
        // Memory holds another stack now, so only the copy counts.
        self.frames = shown;
        self.ending_of(Stop::StackEnd { bytes: 8 }, copied)
    }

    /// The walk went through a handler on a stack of its own, in `handler`, and came to the interrupted stack at `sp`.
    /// That isn't in the copy, but the interrupted frames stay in memory while the handler runs.
    fn leave_handler(
        &mut self,
        (pid, processes): (u32, &mut Processes),
        regs: &Regs,
        handler: &[u8],
        sp: Avma,
    ) -> StackEnding {
        let shown = self.frames.clone();
        // The signal's registers: another signal would have overwritten them.
        let registers = self.unwinder.stack_pointers().iter().rev().nth(1);
        let at = registers.map_or(usize::MAX, |at| at.wrapping_sub(regs.sp().0) as usize);
        let end = at.saturating_add(SIGNAL_REGISTER_BYTES).min(handler.len());
        let is_unchanged = handler
            .get(at..end)
            .is_some_and(|bytes| is_unchanged((pid, processes), regs.sp().0.wrapping_add(at as u64), bytes));
        self.deep.clear();
        if is_unchanged && self.unwind_growing((pid, processes), regs, sp, Some(handler)) == Stop::ReachedRoot
        {
            return StackEnding::Joined;
        }
        self.frames = shown;
        StackEnding::Stopped(StopReason::InterruptedStack, None)
    }

    /// Walks again over the copy and, after it, the process's present memory: more and more of it.
    fn unwind_memory(
        &mut self,
        pid: u32,
        regs: &Regs,
        copied: UserStack<'_>,
        processes: &mut Processes,
    ) -> Stop {
        self.deep.clear();
        self.deep.extend_from_slice(copied.bytes);
        self.unwind_growing((pid, processes), regs, regs.sp(), None)
    }

    /// Walks over the stack at `start`: the bytes in `deep` and, after them, the process's present memory, more and
    /// more of it. `handler` is the stack of the handler that interrupted it.
    fn unwind_growing(
        &mut self,
        (pid, processes): (u32, &mut Processes),
        regs: &Regs,
        start: Avma,
        handler: Option<&[u8]>,
    ) -> Stop {
        let mut want = 128 << 10;
        loop {
            let have = self.deep.len();
            self.deep.resize(have + want, 0);
            let from = start.0.wrapping_add(have as u64);
            let got = processes.read_memory(pid, from, &mut self.deep[have..]);
            self.deep.truncate(have + got);
            let deep = std::mem::take(&mut self.deep);
            let stack = match handler {
                Some(handler) => Stack::new(regs.sp(), handler).with_interrupted(start, &deep),
                None => Stack::new(start, &deep),
            };
            let stop = self.walk((pid, processes), regs, stack);
            self.deep = deep;
            let at_end = got < want || self.deep.len() >= MAX_DEEP_BYTES;
            if at_end || !matches!(stop, Stop::StackEnd { .. }) {
                return stop;
            }
            want *= 2;
        }
    }

    /// Without usable registers, where it executed is still known.
    fn leaf_only(&mut self, sample: &Sample<'_>) {
        if sample.cpu_mode() == perfdata::CpuMode::User {
            self.chain.push(PERF_CONTEXT_USER);
            self.chain.extend(sample.ip.map(|ip| ip.0));
        }
    }

    /// The size of the copy, if it ended by its size and not by the end of readable memory. A large copy is some
    /// words short of its size, for the record to stay below 64 KiB.
    fn full_copy(&self, copied: UserStack<'_>) -> Option<u32> {
        let bytes = u32::try_from(copied.bytes.len()).ok()?;
        self.steps.iter().copied().find(|&step| bytes <= step && bytes + RECORD_BYTES >= step)
    }

    fn ending_of(&self, stop: Stop, copied: UserStack<'_>) -> StackEnding {
        let copied_bytes = self.full_copy(copied).unwrap_or(copied.bytes.len() as u32);
        let reason = match stop {
            Stop::ReachedRoot => return StackEnding::Complete,
            Stop::StackEnd { .. } => StopReason::CopyEnd(copied_bytes),
            Stop::NoUnwindInfo { .. } => StopReason::NoUnwindInfo,
            Stop::FileShrank { .. } => StopReason::FileShrank,
            Stop::OtherStack { .. } => StopReason::OtherStack,
            Stop::NoModule { .. } => StopReason::NoMapping,
            Stop::BadCfa { .. } => StopReason::Bad,
            Stop::Loop => StopReason::Loop,
            Stop::TooDeep => StopReason::TooDeep,
            Stop::InterruptedStack { .. } => StopReason::InterruptedStack,
        };
        StackEnding::Stopped(reason, None)
    }

    /// The address of the outermost frame found.
    #[must_use]
    pub fn last_frame(&self) -> Option<u64> {
        self.frames.last().map(|f| f.pc.0)
    }

    /// A thread has ended: what is remembered of it is of no use.
    pub fn forget(&mut self, pid: u32, tid: u32) {
        self.earlier.forget((pid, tid));
    }
}

/// Whether the last bytes of the copy are still in memory: if the thread had returned past the end of the copy
/// meanwhile and called something else, they would have been overwritten.
fn seam_is_unchanged(pid: u32, regs: &Regs, copied: UserStack<'_>, processes: &mut Processes) -> bool {
    let at = copied.bytes.len().saturating_sub(SEAM_BYTES);
    is_unchanged((pid, processes), regs.sp().0.wrapping_add(at as u64), &copied.bytes[at..])
}

/// Whether memory has these bytes at this address, [`SEAM_BYTES`] at most. Without a byte to compare with nothing is
/// proved.
fn is_unchanged((pid, processes): (u32, &mut Processes), address: u64, bytes: &[u8]) -> bool {
    let mut now = [0; SEAM_BYTES];
    let Some(now) = now.get_mut(..bytes.len()).filter(|now| !now.is_empty()) else { return false };
    processes.read_memory(pid, address, now) == bytes.len() && *now == *bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_made_no_call_have_a_marker_of_their_own() {
        let mut stacks = Stacks::new(&[]);
        let frames = [(0x10, false), (0x20, true), (0x30, true), (0x40, false)];
        stacks.frames = frames.map(|(pc, is_exact)| ChainFrame { pc: Avma(pc), is_exact }).to_vec();
        stacks.push_frames(true);
        let user = PERF_CONTEXT_USER;
        assert_eq!(stacks.chain(), [user, 0x10, user, 0x20, user, 0x30, 0x40]);
    }
}
