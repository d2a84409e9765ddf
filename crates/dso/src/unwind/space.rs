//! Address space of the unwinder: files and where they are mapped.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use gimli::UnwindContext;

use super::arm::{ArmRules, CodePosition};
use super::cfi::Cfi;
use super::frame_step::is_entry_code;
use super::go_runtime::{GoRuntime, GoStackChange};
use super::made_frames::{FrameSize, MadeFrame, MadeFrames};
use super::rule::Step;
use super::shared_rules::SharedRules;
use super::sigreturn;
use crate::code::function_starts::FunctionStarts;
use crate::{Avma, Machine, ObjectFile, Svma};

/// Unwind information of one object file. Make it once per file and share it between processes.
#[derive(Debug)]
pub struct UnwindInfo {
    pub(super) id: u32,
    machine: Machine,
    object: Arc<ObjectFile>,
    cfi: OnceLock<Cfi>,
    go: OnceLock<Option<GoRuntime>>,
    starts: OnceLock<FunctionStarts>,
    arm: OnceLock<ArmRules>,
    known: SharedRules,
}

impl UnwindInfo {
    /// From the file. Always succeeds: a file without unwind information is walked by frame pointers.
    pub fn new(object: Arc<ObjectFile>) -> Arc<Self> {
        Arc::new(Self {
            id: next_id(),
            machine: object.machine(),
            object,
            cfi: OnceLock::new(),
            go: OnceLock::new(),
            starts: OnceLock::new(),
            arm: OnceLock::new(),
            known: SharedRules::default(),
        })
    }

    /// The file.
    pub fn object(&self) -> &Arc<ObjectFile> {
        &self.object
    }

    /// The processor.
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// The function around `svma` as .eh_frame bounds it (first address, past the last): there even when the file
    /// was stripped of symbols.
    pub fn function_range(&self, svma: Svma) -> Option<(Svma, Svma)> {
        self.cfi().function_range(svma.0).map(|(start, end)| (Svma(start), Svma(end)))
    }

    /// The same; where the file has no unwind table, as the calls in its code bound it: good for a name, no more.
    pub fn likely_function_range(&self, svma: Svma) -> Option<(Svma, Svma)> {
        let by_code = || self.starts.get_or_init(|| FunctionStarts::of_object(&self.object)).around(svma);
        self.function_range(svma).or_else(by_code)
    }

    /// The same as [`Self::step`]; common rules are worked out once for all threads.
    pub(super) fn shared_step(&self, context: &mut UnwindContext<usize>, svma: u64, is_call: bool) -> Step {
        if let Some(rule) = self.known.find(svma, is_call) {
            return Step::Simple(rule);
        }
        let step = self.step(context, svma, is_call);
        if let Step::Simple(rule) = &step {
            self.known.keep(svma, is_call, rule);
        }
        step
    }

    /// From the code at `svma` to its caller; the thread called something there, or was interrupted.
    pub(super) fn step(&self, context: &mut UnwindContext<usize>, svma: u64, is_call: bool) -> Step {
        if let Some(step) = sigreturn::step(&self.object, svma) {
            return step;
        }
        if self.machine == Machine::Arm {
            return match self.cfi().step(context, svma) {
                Step::Nothing => self.arm().step(&self.object, CodePosition { svma, is_call, set: None }),
                step => step,
            };
        }
        let go = self.go();
        if let Some(step) = go.filter(|_| is_call).and_then(|go| go.step_of_caller(svma)) {
            return step;
        }
        match self.cfi().step(context, svma) {
            Step::Nothing => go.and_then(|go| go.step(svma)).unwrap_or(Step::Nothing),
            step => step,
        }
    }

    /// Whether `svma` is in the code at `entry`, which nobody calls: near it, and by the symbols not in another function.
    pub(super) fn is_entry(&self, entry: u64, svma: u64) -> bool {
        let is_other = || self.machine == Machine::Arm && self.arm().is_in_other_function(entry, svma);
        is_entry_code(entry, svma) && !is_other()
    }

    /// Whether it has no rules.
    pub(super) fn has_no_tables(&self) -> bool {
        self.cfi().is_empty() && (self.machine != Machine::Arm || self.arm().is_empty())
    }

    /// What a file for 32-bit ARM has, found at the first question.
    pub(super) fn arm(&self) -> &ArmRules {
        self.arm.get_or_init(|| ArmRules::new(&self.object))
    }

    fn go(&self) -> Option<&GoRuntime> {
        self.go.get_or_init(|| GoRuntime::of_object(&self.object)).as_ref()
    }

    /// Rules, found at the first question.
    pub(super) fn cfi(&self) -> &Cfi {
        self.cfi.get_or_init(|| Cfi::new(&self.object))
    }
}

/// A mapped file, or executable memory without one.
#[derive(Clone, Debug)]
pub(super) struct Mapped {
    pub start: u64,
    pub end: u64,
    /// avma − svma.
    pub bias: u64,
    /// `None`: JIT code and other anonymous memory.
    pub info: Option<Arc<UnwindInfo>>,
}

/// Mappings of the files of one process. Cheap to clone at fork.
#[derive(Clone, Debug, Default)]
pub struct AddressSpace {
    /// Sorted by start, disjoint.
    mapped: Vec<Mapped>,
    /// Code of anonymous memory, as far as it was needed: sorted by start.
    made: Vec<Arc<MadeCode>>,
    frames: MadeFrames,
    /// Number of this state of `mapped`; 0 while nothing was mapped.
    version: u64,
}

/// Code that a program made, copied from its memory.
#[derive(Debug)]
pub(super) struct MadeCode {
    /// As [`UnwindInfo::id`].
    pub id: u32,
    start: u64,
    bytes: Vec<u8>,
}

impl MadeCode {
    /// Bytes from this address on.
    pub(super) fn from(&self, address: u64) -> &[u8] {
        let at = address.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.bytes.get(at..)).unwrap_or_default()
    }
}

/// Pages of made code kept for one process.
const MOST_MADE: usize = 1024;
/// Bytes of [`AddressSpace::know_code`]'s pages.
const PAGE: u64 = 4096;

/// A number that no other file or piece of code has.
fn next_id() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A number that no other state of mappings has.
fn next_version() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl AddressSpace {
    /// Nothing mapped.
    pub fn new() -> Self {
        Self::default()
    }

    /// Maps `[start, end)`, whose first byte is the file's stated address `svma`
    /// ([`ObjectFile::svma_of_mapping`]). Earlier mappings of that range are removed, as mmap does.
    pub fn map(&mut self, start: Avma, end: Avma, svma: Svma, info: Arc<UnwindInfo>) {
        self.insert(Mapped {
            start: start.0,
            end: end.0,
            bias: start.0.wrapping_sub(svma.0),
            info: Some(info),
        });
    }

    /// Maps executable memory that no object file describes (JIT code): walked by frame pointers.
    pub fn map_anonymous(&mut self, start: Avma, end: Avma) {
        self.insert(Mapped { start: start.0, end: end.0, bias: 0, info: None });
    }

    /// Makes known the code of the page at `start` in memory that no file describes; `bytes` may go on past the page,
    /// to the ends of its functions. JIT compilers change and fill pages, so different bytes replace those known.
    /// False if they are known already, or too much is.
    pub fn know_code(&mut self, start: Avma, bytes: Vec<u8>) -> bool {
        let at = self.made.partition_point(|code| code.start < start.0);
        let known = self.made.get(at).filter(|code| code.start == start.0);
        let is_known = known.is_some();
        if bytes.is_empty() || known.is_some_and(|code| code.bytes == bytes) {
            return false;
        }
        let code = Arc::new(MadeCode { id: next_id(), start: start.0, bytes });
        if is_known {
            self.made[at] = code;
        } else if self.made.len() < MOST_MADE {
            self.made.insert(at, code);
        } else {
            return false;
        }
        true
    }

    /// The made code that is known of the page of `address`.
    pub(super) fn made_code(&self, address: u64) -> Option<&MadeCode> {
        let at = self.made.partition_point(|code| code.start <= address).checked_sub(1)?;
        self.made.get(at).map(AsRef::as_ref).filter(|code| address - code.start < PAGE)
    }

    /// Makes known the size of a piece of code's frames, in memory that no file describes; false if it is known already,
    /// or too much is.
    pub fn know_frame(&mut self, frame: &MadeFrame) -> bool {
        self.frames.insert(frame)
    }

    /// How the frames of the code at `address` are left, if a runtime stated that.
    pub(super) fn made_frame(&self, address: u64) -> Option<FrameSize> {
        self.frames.at(address)
    }

    /// Forgets what is mapped in `[start, end)`.
    pub fn unmap(&mut self, start: Avma, end: Avma) {
        self.cut(start.0, end.0);
    }

    /// Forgets everything (exec).
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Address spaces of one version have the same files mapped at the same places.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Number of mappings.
    pub fn len(&self) -> usize {
        self.mapped.len()
    }

    /// Whether nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.mapped.is_empty()
    }

    fn insert(&mut self, new: Mapped) {
        if new.start >= new.end {
            return;
        }
        self.cut(new.start, new.end);
        let at = self.mapped.partition_point(|m| m.start < new.start);
        self.mapped.insert(at, new);
    }

    fn cut(&mut self, start: u64, end: u64) {
        self.version = next_version();
        self.frames.remove(start, end);
        self.made.retain(|code| end <= code.start || code.start + code.bytes.len() as u64 <= start);
        let first = self.mapped.partition_point(|m| m.end <= start);
        let last = self.mapped.partition_point(|m| m.start < end);
        if first >= last {
            return;
        }
        let left = Mapped { end: start, ..self.mapped[first].clone() };
        let right = Mapped { start: end, ..self.mapped[last - 1].clone() };
        let rest = [left, right].into_iter().filter(|m| m.start < m.end);
        self.mapped.splice(first..last, rest);
    }

    /// Whether the call that returns to `address` is the outermost of a goroutine or of a thread of Go's.
    pub fn is_outermost_in_go(&self, address: Avma) -> bool {
        self.go_around(address).is_some_and(|(go, call)| go.is_outermost(call))
    }

    /// Whether a call returns to `address` in the loop of Go's scheduler: what called that has been left for good.
    pub fn is_in_go_scheduler(&self, address: Avma) -> bool {
        self.go_around(address).is_some_and(|(go, call)| go.is_in_scheduler(call))
    }

    /// How the function of Go's that a call returns to at `address` changed stacks; `None` if it didn't.
    pub fn go_stack_change(&self, address: Avma) -> Option<GoStackChange> {
        self.go_around(address).and_then(|(go, call)| go.stack_change(call))
    }

    /// Go's runtime in the program where a call returns to `address`, and the call's place there.
    fn go_around(&self, address: Avma) -> Option<(&GoRuntime, u64)> {
        let call = address.0.wrapping_sub(1);
        let mapped = self.find(call)?;
        Some((mapped.info.as_ref()?.go()?, call.wrapping_sub(mapped.bias)))
    }

    /// The mapping at `address`.
    pub(super) fn find(&self, address: u64) -> Option<&Mapped> {
        let at = self.mapped.partition_point(|m| m.start <= address).checked_sub(1)?;
        self.mapped.get(at).filter(|m| address < m.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_mapping_cuts_what_it_covers() {
        let mut space = AddressSpace::new();
        space.map_anonymous(Avma(100), Avma(200));
        space.map_anonymous(Avma(300), Avma(400));
        space.map_anonymous(Avma(150), Avma(350));
        space.unmap(Avma(200), Avma(210));
        let ranges: Vec<(u64, u64)> = space.mapped.iter().map(|m| (m.start, m.end)).collect();
        assert_eq!(ranges, [(100, 150), (150, 200), (210, 350), (350, 400)]);
        assert!(
            space.find(149).is_some()
                && space.find(205).is_none()
                && space.find(399).is_some()
                && space.find(400).is_none()
        );
    }
}
