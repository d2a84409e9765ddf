//! Live unwinding: a sample's registers and stack copy become an ordinary callchain.
//!
//! A stack deeper than its copy is continued from what can be proved to be the same stack: the chain of the same
//! thread taken earlier (same return address at the same stack pointer), or the process's memory as it is now.
//! Such chains are marked as joined. So is one whose leaf is in a signal's handler on a stack of its own: the stack
//! that the signal interrupted is read from memory.

mod deeper;

use dso::unwind::{AddressSpace, GoStackChange, Regs, Stack, Stop, Unwinder, Which};
use dso::{Avma, Machine};
use perfdata::abi::*;
use perfdata::{Sample, UserStack};

use crate::accounting::account::StackEnding;
use crate::accounting::summary::StopReason;
use crate::machine::processes::Processes;
use crate::pipeline::chain_join::{ChainFrame, Earlier};
use crate::runtimes::goroutines::Goroutine;
use crate::runtimes::method_addresses::WalkedFrames;
use crate::runtimes::python::weave::PythonFrames;
use crate::sys::perf_abi::register;
use perfdata::PidTid;

/// More frames than this would not fit a record (65,535 bytes) with the other fields.
const MAX_FRAMES: usize = 7_500;

/// Pages of made code read for one sample.
const MAX_LEARNED: usize = 8;

/// Pages read after the end of a copy: as many as the largest copy has.
const MOST_HOLE_PAGES: usize = 16;

/// More than a sample's other fields take.
const RECORD_BYTES: u32 = 4096;

/// Turns snapshots into chains. One for the unwinding thread.
pub struct LiveUnwinder {
    unwinder: Unwinder,
    machine: Machine,
    /// Sizes of the copies, ascending.
    steps: Vec<u32>,
    earlier: Earlier,
    addresses: Vec<Avma>,
    frames: Vec<ChainFrame>,
    chain: Vec<u64>,
    deep: Vec<u8>,
    /// State of the sample that is unwound next.
    python: Option<PythonFrames>,
    /// The same.
    goroutine: Option<Goroutine>,
    /// Addresses whose code may help the walk; empty between walks.
    unknown_code: Vec<Avma>,
}

/// The thread whose stack is unwound, and its memory.
struct LiveThread<'a> {
    task: PidTid,
    processes: &'a mut Processes,
}

impl LiveThread<'_> {
    fn space(&mut self) -> &AddressSpace {
        self.processes.space(self.task.pid)
    }

    /// Fills `bytes` from this address on; how many could be read.
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> usize {
        self.processes.read_memory(self.task.pid, address, bytes)
    }

    /// Reads the pages at `end`, where the kernel's copy of a stack ended: pages that the program has never touched, in
    /// the middle of a large array, end a copy. Now that they were read they are there, so that later copies go on.
    fn fill_hole(&mut self, end: u64) {
        let pages = (end..).step_by(crate::sys::mem::page_bytes()).take(MOST_HOLE_PAGES);
        for page in pages {
            if self.read(page, &mut [0; 8]) == 0 {
                break;
            }
        }
    }
}

/// The user part of a sample.
#[derive(Clone, Copy)]
struct Snapshot<'a> {
    regs: &'a Regs,
    copied: UserStack<'a>,
}

/// Result of one sample's stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveStack {
    /// How it ended; `None` if the sample has no user stack (a kernel thread).
    pub ending: Option<StackEnding>,
    /// The copy was too short for this stack.
    pub was_cut: bool,
}

impl LiveUnwinder {
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
            goroutine: None,
            unknown_code: Vec::new(),
        }
    }

    /// The chain made by the last [`LiveUnwinder::unwind`]: kernel part as the kernel wrote it, then the user's, leaf
    /// first, with context markers.
    #[must_use]
    pub fn chain(&self) -> &[u64] {
        &self.chain
    }

    /// The chain's address of the method in which the sample unwound last was taken, if an interpreter ran it.
    #[must_use]
    pub fn interpreted_leaf(&self, sample: &Sample<'_>) -> Option<perfdata::Avma> {
        let leaf = self.frames.first().filter(|leaf| sample.ip == Some(perfdata::Avma(leaf.pc.0)))?;
        leaf.method.map(|method| perfdata::Avma(method.0))
    }

    /// Puts these frames between the native ones of the sample that is unwound next.
    pub fn take_python(&mut self, frames: Option<PythonFrames>) {
        self.python = frames;
    }

    /// Goes on with this goroutine where the thread of the sample that is unwound next came from it.
    pub fn take_goroutine(&mut self, goroutine: Option<Goroutine>) {
        self.goroutine = goroutine;
    }

    /// Only the kernel's frames and the user's leaf, for a sample that no time is left for.
    pub fn leaf(&mut self, sample: &Sample<'_>) -> LiveStack {
        self.chain.clear();
        self.frames.clear();
        self.take_kernel_part(sample);
        let is_user = sample.regs_user.is_some_and(|r| r.abi != PERF_SAMPLE_REGS_ABI_NONE);
        self.leaf_only(sample);
        let ending = is_user.then_some(StackEnding::Stopped(StopReason::Behind, None));
        LiveStack { ending, was_cut: false }
    }

    /// Unwinds one sample; the result is in [`LiveUnwinder::chain`].
    pub fn unwind(&mut self, sample: &Sample<'_>, processes: &mut Processes) -> LiveStack {
        let unwound = self.unwind_all(sample, processes);
        self.python = None;
        self.goroutine = None;
        unwound
    }

    fn unwind_all(&mut self, sample: &Sample<'_>, processes: &mut Processes) -> LiveStack {
        self.chain.clear();
        self.take_kernel_part(sample);
        let mut thread = LiveThread { task: PidTid::of_record(sample.pid_tid), processes };
        let values: Vec<u64> = sample.regs_user.map(|r| r.values.iter().collect()).unwrap_or_default();
        let (abi, mask) = sample.regs_user.map_or((PERF_SAMPLE_REGS_ABI_NONE, 0), |r| (r.abi, r.mask));
        let regs = match abi {
            PERF_SAMPLE_REGS_ABI_NONE => return LiveStack { ending: None, was_cut: false },
            register::FORM => Regs::from_perf(self.machine, mask, &values),
            _ => None,
        };
        let Some(regs) = regs else {
            self.leaf_only(sample);
            let ending = StackEnding::Stopped(StopReason::NoRegisters, None);
            return LiveStack { ending: Some(ending), was_cut: false };
        };
        let copied = sample.stack_user.unwrap_or(UserStack { bytes: &[], reserved: 0 });
        if copied.bytes.is_empty() && thread.read(regs.sp().0, &mut [0; 8]) == 0 {
            // The memory doesn't exist: the process is in the middle of exec, or at its end. It has no user stack.
            return LiveStack { ending: None, was_cut: false };
        }
        let stop = self.walk(&mut thread, &regs, Stack::new(regs.sp(), copied.bytes));
        let mut unwound = LiveStack { ending: None, was_cut: false };
        let ending = match stop {
            Stop::ReachedRoot => StackEnding::Complete,
            Stop::StackEnd { .. } => {
                unwound.was_cut = self.full_copy(copied).is_some();
                if !unwound.was_cut {
                    thread.fill_hole(regs.sp().0 + copied.bytes.len() as u64);
                }
                self.go_deeper(&mut thread, Snapshot { regs: &regs, copied })
            }
            Stop::OtherStack { pc } => match self.goes_on_in_goroutine(regs.sp(), thread.space(), pc) {
                Some(ending) => ending,
                None if self.goes_on_by_frame_pointers(sample, thread.space()) => StackEnding::Complete,
                None => self.ending_of(stop, copied),
            },
            Stop::InterruptedStack { sp } => self.leave_handler(&mut thread, &regs, copied.bytes, sp),
            _ if self.is_at_kernel_entry() => {
                unwound.ending = Some(StackEnding::Stopped(StopReason::NoRegisters, None));
                return unwound;
            }
            other => self.ending_of(other, copied),
        };
        unwound.ending = Some(self.push_frames(ending));
        unwound
    }

    /// Fills `frames` from these bytes of the stack.
    fn walk(&mut self, thread: &mut LiveThread<'_>, regs: &Regs, stack: Stack<'_>) -> Stop {
        let mut stop = self.walk_once(thread.space(), regs, stack);
        for _ in 0..MAX_LEARNED {
            let mut unknown = std::mem::take(&mut self.unknown_code);
            unknown.clear();
            unknown.extend_from_slice(self.unwinder.unknown_code());
            if let Stop::NoUnwindInfo { which: Which::Anonymous, pc } = stop {
                unknown.push(pc);
            }
            let learned =
                unknown.iter().filter(|pc| thread.processes.know_code(thread.task.pid, pc.0)).count();
            self.unknown_code = unknown;
            let is_framed = thread.processes.know_frames(thread.task.pid, &self.addresses);
            if learned == 0 && !is_framed {
                break;
            }
            stop = self.walk_once(thread.space(), regs, stack);
        }
        self.frames.clear();
        self.frames.extend(self.addresses.iter().map(|&pc| ChainFrame::returning_to(pc)));
        for &at in self.unwinder.exact_frames() {
            if let Some(frame) = self.frames.get_mut(at) {
                frame.is_exact = true;
            }
        }
        let sps = self.unwinder.stack_pointers();
        let walked = WalkedFrames { frames: &mut self.frames, sps, stack, regs };
        thread.processes.name_methods(thread.task.pid, walked);
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

    /// The thread came from its goroutine to the function around `pc`, and `sp` is where it is now: its frames go on
    /// with what was copied at this sample. `None` if that isn't there or leads to no goroutine's start.
    fn goes_on_in_goroutine(&mut self, sp: Avma, space: &AddressSpace, pc: Avma) -> Option<StackEnding> {
        let change = space.go_stack_change(pc)?;
        let schedules = || self.frames.iter().any(|frame| space.is_in_go_scheduler(frame.pc));
        if change == GoStackChange::Growth && schedules() {
            return Some(StackEnding::Complete);
        }
        let goroutine = self.goroutine.take().filter(|goroutine| goroutine.sp == sp.0)?;
        let Some(callers) = goroutine.callers(change) else {
            // The scheduler runs: it came from a goroutine that has been left since.
            return (change == GoStackChange::Growth).then_some(StackEnding::Complete);
        };
        let is_complete = callers.last().is_some_and(|last| space.is_outermost_in_go(Avma(*last)));
        if !is_complete && !goroutine.is_cut {
            return None;
        }
        self.frames.extend(callers.into_iter().map(|pc| ChainFrame::returning_to(Avma(pc))));
        let too_deep = StackEnding::Stopped(StopReason::TooDeep, None);
        Some(if is_complete { StackEnding::Complete } else { too_deep })
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
        self.frames.extend(outer.iter().map(|&pc| ChainFrame::returning_to(Avma(pc))));
        true
    }

    /// Appends the user part. As the leaf has, a frame that made no call has a marker before it: readers take the
    /// address after one as it is, and all others for return addresses. How the stack ends then: some of Python's
    /// frames may be missing, and outer native ones are left out if Python's wouldn't fit into a record with them.
    fn push_frames(&mut self, ending: StackEnding) -> StackEnding {
        let is_complete = matches!(ending, StackEnding::Complete | StackEnding::Joined);
        let python = self.python.take().unwrap_or_default();
        let places =
            if python.groups.is_empty() { Vec::new() } else { self.python_places(&python, is_complete) };
        let added: usize = python.groups.iter().map(Vec::len).sum();
        let kept = self.frames.len().min(MAX_FRAMES.saturating_sub(added).max(1));
        let mut groups = python.groups.iter().zip(places).peekable();
        for (at, frame) in self.frames.iter().take(kept).enumerate() {
            if at == 0 || frame.is_exact {
                self.chain.push(PERF_CONTEXT_USER);
            }
            self.chain.push(frame.in_chain());
            let is_last = at + 1 == kept;
            while let Some((group, _)) = groups.next_if(|(_, place)| *place <= at || is_last) {
                self.chain.extend(group);
            }
        }
        let too_deep = (kept < self.frames.len()).then_some(StopReason::TooDeep);
        let stop = too_deep.or_else(|| python.end.stop().filter(|_| is_complete));
        stop.map_or(ending, |reason| StackEnding::Stopped(reason, None))
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
    pub fn forget(&mut self, task: PidTid) {
        self.earlier.forget(task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::python::weave::FramesEnd;

    #[test]
    fn frames_that_made_no_call_have_a_marker_of_their_own() {
        let mut stacks = LiveUnwinder::new(&[]);
        let frames = [(0x10, false), (0x20, true), (0x30, true), (0x40, false)];
        stacks.frames = frames
            .map(|(pc, is_exact)| ChainFrame { is_exact, ..ChainFrame::returning_to(Avma(pc)) })
            .to_vec();
        stacks.push_frames(StackEnding::Complete);
        let user = PERF_CONTEXT_USER;
        assert_eq!(stacks.chain(), [user, 0x10, user, 0x20, user, 0x30, 0x40]);
    }
    #[test]
    fn outer_native_frames_make_room_for_pythons() {
        let mut stacks = LiveUnwinder::new(&[]);
        let native = |pc: u64| ChainFrame::returning_to(Avma(pc));
        // Each frame of Python's has two native ones, the outer of which runs it.
        stacks.frames = (0..3000).flat_map(|_| [native(0x10), native(0x20)]).collect();
        let groups: Vec<Vec<u64>> = (0..3000).map(|at| vec![0x5000 + at]).collect();
        let python =
            PythonFrames { groups: groups.clone(), eval: vec![(0x18, 0x20)], end: FramesEnd::Unread };
        stacks.take_python(Some(python.clone()));
        let too_deep = StackEnding::Stopped(StopReason::TooDeep, None);
        assert_eq!(stacks.push_frames(StackEnding::Complete), too_deep);
        let chain = stacks.chain();
        assert_eq!(
            (chain.len(), &chain[..4]),
            (MAX_FRAMES + 1, &[PERF_CONTEXT_USER, 0x10, 0x20, 0x5000][..])
        );
        let shown: Vec<u64> = chain.iter().copied().filter(|pc| (0x5000..0x6000).contains(pc)).collect();
        assert_eq!(shown, groups.concat(), "all of Python's, in their order");
        stacks.chain.clear();
        stacks.frames.truncate(4000);
        stacks.take_python(Some(PythonFrames { groups: groups[..2000].to_vec(), ..python.clone() }));
        let unread = StackEnding::Stopped(StopReason::PythonUnread, None);
        assert_eq!((stacks.push_frames(StackEnding::Joined), stacks.chain().len()), (unread, 6001));
        // A native stack that stopped keeps its own reason.
        stacks.take_python(Some(python));
        stacks.frames.truncate(1000);
        let stopped = StackEnding::Stopped(StopReason::CopyEnd(512), None);
        assert_eq!(stacks.push_frames(stopped.clone()), stopped);
    }
}
