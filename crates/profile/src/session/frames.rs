//! Addresses of samples become frames, looked up once a version of the mappings.

use crate::callchain::{ChainStep, LeafOrigin, has_user_part, steps_of};
use crate::machine::{LookupAddr, Mode, ProcessId};
use crate::reason::StackEnd;
use crate::table::{CallsiteId, Frame, FrameId};
use perfdata::Sample;

use super::cache::Known;
use super::recent_stack::RecentStacks;
use super::{Session, UnwindJob, UnwoundStack};

/// The path of the sample at hand.
#[derive(Default)]
pub(super) struct SamplePath {
    /// Addresses that the sample itself carries, leaf first.
    pub steps: Vec<ChainStep>,
    /// Origin of the leaf of `frames`.
    pub leaf_origin: LeafOrigin,
    /// Resolved, leaf first.
    pub frames: Vec<FrameId>,
    /// Callers of stacks recorded as chains before.
    recorded: RecentStacks,
}

impl Session {
    /// Resolves what the sample itself carries into `self.path`, leaf first.
    pub(super) fn resolve_steps(&mut self, event: usize, pid: i32, sample: &Sample<'_>) {
        let has_runtimes = self.runtimes.has_any();
        self.path.leaf_origin = if self.opts.callchains || has_runtimes {
            steps_of(sample, self.events.of(event).is_call_stack_lbr, &mut self.path.steps)
        } else {
            let bare = Sample { callchain: None, ..*sample };
            steps_of(&bare, false, &mut self.path.steps)
        };
        self.path.frames.clear();
        let process = self.machine.process_of(pid);
        self.note_user_code(process);
        self.resolve_chain(process, sample);
        let tables = (&self.profile.frames, &self.profile.dsos);
        self.runtimes.fold(&mut self.path.frames, &mut self.path.leaf_origin, tables);
        if !self.opts.callchains && has_runtimes {
            self.path.frames.truncate(1);
        }
    }

    /// Informs the machine which user code the process runs, by `self.path`.
    pub(super) fn note_user_code(&mut self, process: ProcessId) {
        if let Some(step) = self.path.steps.iter().find(|step| step.mode == Mode::User) {
            self.machine.note_user_code(process, step.addr.avma);
        }
    }

    /// How many steps are wanted. The sampled address of a precise sample is not one of the chain's.
    fn max_steps(&self) -> usize {
        self.opts.max_frames.saturating_add(usize::from(self.path.leaf_origin == LeafOrigin::Precise))
    }

    /// The id of the path in `self.path`; `None` if it is empty.
    pub(super) fn callsite_of_frames(&mut self) -> Option<CallsiteId> {
        match self.path.leaf_origin {
            LeafOrigin::Chain => self.profile.callsites.intern_leaf_first(&self.path.frames),
            LeafOrigin::Precise => self.profile.callsites.intern_precise(&self.path.frames),
        }
    }

    /// Resolves `self.path.steps` into `self.path.frames`.
    fn resolve_chain(&mut self, process: ProcessId, sample: &Sample<'_>) {
        let (pid, tid) = super::ids_of(sample);
        let thread = tid.cast_unsigned();
        let steps = std::mem::take(&mut self.path.steps);
        let wanted = steps.len().min(self.max_steps());
        let callers = || steps[..wanted].iter().rev().take_while(|step| is_user_caller(step));
        let version = self.machine.version_of(process, Mode::User);
        let is_whole = wanted == steps.len();
        let avmas = callers().take(if is_whole { wanted } else { 0 }).map(|step| step.addr.avma);
        let mut shared = Shared::from(self.path.recorded.shared(thread, version, avmas));
        let unmapped = self.profile.diagnostics.unmapped_frames;
        for step in &steps[..wanted - shared.len()] {
            let frame = self.frame_of_step(pid, process, *step);
            self.path.frames.push(frame);
        }
        if is_whole && unmapped == self.profile.diagnostics.unmapped_frames {
            let new = callers().skip(shared.len()).map(|step| step.addr.avma);
            let new = new.zip(self.path.frames.iter().rev().copied());
            self.path.recorded.keep(thread, shared.len(), new);
        }
        shared.reverse();
        self.path.frames.extend_from_slice(&shared);
        self.path.steps = steps;
    }

    /// Appends an unwound user part to `self.path`. Where nothing but a user address is known
    /// before it, its first frame is that address again, or the interrupt's after a precise sample.
    pub(super) fn push_unwound(&mut self, job: &UnwindJob<'_>, unwound: &UnwoundStack<'_>) {
        let mut frames = std::mem::take(&mut self.path.frames);
        self.resolve_unwound(job, unwound, &mut frames);
        if let [leaf, first, ..] = frames[..]
            && job.ticket.frames.len() == 1
        {
            if leaf == first {
                frames.remove(1);
            } else if self.is_user_code(leaf) {
                self.path.leaf_origin = LeafOrigin::Precise;
            }
        }
        self.path.frames = frames;
    }

    /// Appends the frames of an unwound user part to `frames`, leaf first.
    pub(super) fn resolve_unwound(
        &mut self,
        job: &UnwindJob<'_>,
        unwound: &UnwoundStack<'_>,
        frames: &mut Vec<FrameId>,
    ) {
        for (at, &avma) in unwound.addrs.iter().enumerate() {
            let known = unwound.known.get(at).copied().flatten();
            let frame =
                known.unwrap_or_else(|| self.frame_of_unwound(job, unwound_addr(unwound.exact, at, avma)));
            frames.push(frame);
        }
    }

    fn is_user_code(&self, frame: FrameId) -> bool {
        self.profile.dsos.of(self.profile.frames.of(frame).dso).level == Mode::User.level()
    }

    pub(super) fn frame_of_step(&mut self, pid: i32, process: ProcessId, step: ChainStep) -> FrameId {
        let ChainStep { mode, addr } = step;
        let version = self.machine.version_of(process, mode);
        if let Some(known) = self.cache.find(version, addr) {
            return self.count_known(known);
        }
        let frame = self.machine.resolve(pid, mode, addr, &mut self.profile.dsos);
        self.intern_new(version, addr, frame)
    }

    fn frame_of_unwound(&mut self, job: &UnwindJob<'_>, addr: LookupAddr) -> FrameId {
        if let Some(known) = self.cache.find(job.map_version, addr) {
            return self.count_known(known);
        }
        let frame = self.machine.resolve_in(&job.maps, addr, &mut self.profile.dsos);
        self.intern_new(job.map_version, addr, frame)
    }

    pub(super) fn count_known(&mut self, known: Known) -> FrameId {
        self.profile.diagnostics.unmapped_frames += u64::from(known.unmapped);
        known.frame
    }

    pub(super) fn intern_new(&mut self, version: u64, addr: LookupAddr, frame: Frame) -> FrameId {
        let unmapped = self.profile.dsos.of(frame.dso).is_unknown();
        let frame = self.intern_frame(frame);
        self.cache.keep(version, addr, Known { frame, unmapped });
        frame
    }

    pub(super) fn intern_frame(&mut self, frame: Frame) -> FrameId {
        let unmapped = self.profile.dsos.of(frame.dso).is_unknown();
        self.profile.diagnostics.unmapped_frames += u64::from(unmapped);
        self.profile.frames.intern_within(frame, self.most_frames).unwrap_or_else(|| {
            self.profile.diagnostics.merged_frames += 1;
            self.profile.frames.intern(Frame { addr: 0, lookup: 0, first_avma: 0, ..frame })
        })
    }

    /// How the chain in `self.path` ended, from the recording's notes where it has some.
    pub(super) fn recorded_end(&self, sample: &Sample<'_>) -> StackEnd {
        if self.path.steps.len() > self.max_steps() {
            StackEnd::MaxStack
        } else if let Some(end) = self.noted_end(sample) {
            end
        } else if has_user_part(&self.path.steps) {
            StackEnd::AsRecorded
        } else {
            StackEnd::NoUserStack
        }
    }

    /// `None` for a chain without a note: it is complete, or was not unwound while recording.
    fn noted_end(&self, sample: &Sample<'_>) -> Option<StackEnd> {
        let (_, tid) = sample.pid_tid.filter(|_| sample.callchain.is_some())?;
        Some(self.stack_notes.as_ref()?.end_of(sample.time_ns?, tid)?.end.into())
    }

    /// A branch end has no mode: it belongs to whoever has it mapped, the process first. An address without a mapping
    /// has no mode (perf shows `H`).
    pub(super) fn branch_frame(&mut self, pid: i32, avma: u64) -> FrameId {
        let mapped = |mappings: &crate::machine::Mappings| mappings.find(avma).is_some();
        let mode = if mapped(&self.machine.mappings_of(pid).1) {
            Mode::User
        } else if mapped(self.machine.kernel()) {
            Mode::Kernel
        } else {
            Mode::Hypervisor
        };
        let frame = self.machine.resolve(pid, mode, LookupAddr::exact(avma), &mut self.profile.dsos);
        self.intern_frame(frame)
    }
}

/// The address to look up for the one at a position of an unwound stack, in which `exact` are at no call. As perf: the
/// address shown for an unwound caller is the one looked up.
pub(super) fn unwound_addr(exact: &[usize], at: usize, avma: u64) -> LookupAddr {
    let is_exact = at == 0 || exact.contains(&at);
    LookupAddr::exact(if is_exact { avma } else { avma.wrapping_sub(1) })
}

/// Frames that a stack shares with the one before, root first.
pub(super) type Shared = smallvec::SmallVec<[FrameId; 64]>;

/// Whether the step is where a call in the process's own code returns to.
fn is_user_caller(step: &ChainStep) -> bool {
    step.mode == Mode::User && step.addr.is_return
}

/// A user chain was recorded in addition to the registers (a live unwinder's file): no need to unwind.
pub(super) fn has_recorded_user_chain(sample: &Sample<'_>) -> bool {
    let Some(chain) = sample.callchain else { return false };
    let mut in_user = false;
    chain.iter().any(|entry| match entry {
        perfdata::ChainEntry::Context(context) => {
            in_user = context == perfdata::Context::User;
            false
        }
        perfdata::ChainEntry::Address(_) => in_user,
    })
}
