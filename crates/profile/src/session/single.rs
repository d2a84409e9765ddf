//! Samples one by one, for views that show each of them (`script`): resolved, but not added up.

use super::frames::has_recorded_user_chain;
use super::{Session, UnwindJob, UnwoundStack, ids_of, job};
use crate::callchain::{ChainStep, LeafOrigin, steps_of};
use crate::machine::{LookupAddr, Mode};
use crate::profile::{ExtraId, Sums};
use crate::table::{FrameId, StringId};
use perfdata::Sample;

/// A sample with names for its task and places for its addresses.
#[derive(Clone, Debug)]
pub struct SingleSample<'a> {
    /// The thread's name at that moment.
    pub comm: StringId,
    /// Frame of the sampled address; `None` if the sample has none.
    pub leaf: Option<FrameId>,
    /// Recorded chain, **leaf first**, without the sampled address if the chain does not hold it.
    pub frames: Vec<FrameId>,
    /// The user part still to be unwound. Its frames go after `frames` (see [`Session::frames_of_unwound`]).
    pub job: Option<UnwindJob<'a>>,
}

impl Session {
    /// Resolves one sample against the present state of the machine. It is not counted and not filtered.
    pub fn resolve_single<'a>(&mut self, event: Option<usize>, sample: &Sample<'a>) -> SingleSample<'a> {
        let (pid, tid) = ids_of(sample);
        let span = self.machine.span_of(pid, tid);
        let comm = self.machine.comm_of(span, &mut self.profile.strings);
        let call_stack_lbr = event.is_some_and(|event| self.events.is_call_stack_lbr(event));
        let process = self.machine.process_of(pid);
        steps_of(sample, call_stack_lbr, &mut self.path.steps);
        self.note_user_code(process);
        let mode = Mode::of_cpu(sample.cpu_mode());
        let leaf = sample.ip.map(|ip| ChainStep { mode, addr: LookupAddr::exact(ip.0) });
        let leaf = leaf.map(|step| self.frame_of_step(pid, process, step));
        let mut frames = Vec::new();
        if self.opts.callchains {
            steps_of(&Sample { ip: None, ..*sample }, call_stack_lbr, &mut self.path.steps);
            for at in 0..self.path.steps.len().min(self.opts.max_frames) {
                frames.push(self.frame_of_step(pid, process, self.path.steps[at]));
            }
        }
        let job = self.single_job(pid, span, sample, frames.len());
        SingleSample { comm, leaf, frames, job }
    }

    fn single_job<'a>(
        &mut self,
        pid: i32,
        span: crate::machine::TaskSpanId,
        sample: &Sample<'a>,
        known: usize,
    ) -> Option<UnwindJob<'a>> {
        let wanted = self.opts.callchains && !has_recorded_user_chain(sample);
        let stack = sample.stack_user.filter(|_| wanted)?;
        let regs = sample.regs_user.filter(|regs| regs.abi != 0)?;
        let task = self.task_of(span);
        let (process, maps, map_version) = self.machine.mappings_of(pid);
        let max_frames = self.opts.max_frames.saturating_sub(known);
        let sums = Sums { count: 0, period: 0, weight: 0, ..Sums::default() };
        let ticket = job::Ticket {
            event: 0,
            task,
            cpu: -1,
            sums,
            extra: ExtraId::NONE,
            frames: job::KernelFrames::new(),
            leaf_origin: LeafOrigin::Chain,
            request: None,
            ran_ns: None,
            ran_on: None,
            switched_ns: None,
        };
        Some(UnwindJob { regs, stack, process, maps, map_version, max_frames, ticket })
    }

    /// Appends the frames of an unwound user part, leaf first.
    pub fn frames_of_unwound(
        &mut self,
        job: &UnwindJob<'_>,
        unwound: &UnwoundStack<'_>,
        frames: &mut Vec<FrameId>,
    ) {
        self.resolve_unwound(job, unwound, frames);
    }

    /// Text of the labels that a sample's goroutine has.
    #[must_use]
    pub fn labels_of(&self, sample: &Sample<'_>) -> Option<StringId> {
        self.labels.of_sample(sample)
    }

    /// The name a thread has now.
    pub fn comm_of_thread(&mut self, pid: i32, tid: i32) -> StringId {
        let span = self.machine.span_of(pid, tid);
        self.machine.comm_of(span, &mut self.profile.strings)
    }

    /// Frame of `avma`, seen from `pid`, in the mapping that holds it now.
    pub fn frame_at(&mut self, pid: i32, mode: Mode, avma: u64) -> FrameId {
        let frame = self.machine.resolve(pid, mode, LookupAddr::exact(avma), &mut self.profile.dsos);
        self.intern_frame(frame)
    }

    /// The end of a branch, which has no mode: it belongs to whoever has it mapped, the process first.
    pub fn branch_end_at(&mut self, pid: i32, avma: u64) -> FrameId {
        self.branch_frame(pid, avma)
    }

    /// The profile, to put names into its frames ([`crate::profile::Profile::requests`]) while reading goes on.
    pub fn profile_mut(&mut self) -> &mut crate::profile::Profile {
        &mut self.profile
    }
}
