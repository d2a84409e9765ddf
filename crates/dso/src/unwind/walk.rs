//! The walk from frame to frame.

use gimli::UnwindContext;

use super::arch::{Arch, Arm, Arm64, REGISTERS, X86};
use super::arm::{CodePosition, InstructionSet};
use super::code_rule;
use super::frame_step::Walk;
use super::registers::Regs;
use super::rule::Step;
use super::rule_cache::RuleCache;
use super::space::{AddressSpace, Mapped, UnwindInfo};
use super::stack::Stack;
use super::stop::{Stop, Which};
use super::trail::Trails;
use crate::{Avma, Machine};

/// How often a walk may go back to a lower address of the copied stack, through a signal frame whose handler has a
/// stack of its own. A thread has one such stack, and programs that keep several nest few of them.
const MAX_SWITCHES_DOWN: usize = 8;

/// More than the kernel puts on the stack for a signal: with all of AVX-512 and AMX it is 11 KB.
const SIGNAL_FRAME_LIMIT: u64 = 64 << 10;

/// Addresses of unknown code kept of one walk.
const MAX_UNKNOWN: usize = 16;

/// Walks stacks and remembers the rules it has met. One per thread; `Send`.
pub struct Unwinder {
    cache: RuleCache,
    trails: Trails,
    context: UnwindContext<usize>,
    stack_pointers: Vec<u64>,
    exact_frames: Vec<usize>,
    unknown_code: Vec<Avma>,
}

impl Default for Unwinder {
    fn default() -> Self {
        Self::new()
    }
}

impl Unwinder {
    /// With an empty cache.
    pub fn new() -> Self {
        Self {
            cache: RuleCache::new(),
            trails: Trails::default(),
            context: UnwindContext::new(),
            stack_pointers: Vec::new(),
            exact_frames: Vec::new(),
            unknown_code: Vec::new(),
        }
    }

    /// Appends the code addresses of the stack to `out`, **leaf first**: the pc itself, then return addresses
    /// (after a signal frame the interrupted pc itself). At most `max` of them. Memory is read from `stack`
    /// only.
    pub fn unwind(
        &mut self,
        space: &AddressSpace,
        regs: &Regs,
        stack: Stack<'_>,
        max: usize,
        out: &mut Vec<Avma>,
    ) -> Stop {
        let mut registers = [0; REGISTERS];
        self.stack_pointers.clear();
        self.exact_frames.clear();
        self.unknown_code.clear();
        let values: &[u64] = match regs {
            Regs::X86_64(r) => &r.0,
            Regs::Aarch64(r) => &r.0,
            Regs::Arm(r) => &r.0,
        };
        registers[..values.len()].copy_from_slice(values);
        let mut walk = Walk { registers, space, stack, is_exact: true, set: None };
        match regs {
            Regs::X86_64(_) => self.walk_on_trail::<X86>(&mut walk, max, out),
            Regs::Aarch64(_) => self.walk_on_trail::<Arm64>(&mut walk, max, out),
            Regs::Arm(_) => self.walk_on_trail::<Arm>(&mut walk, max, out),
        }
    }

    /// A walk that finds the rules of an earlier one, and leaves its own for the next.
    fn walk_on_trail<A: Arch>(&mut self, walk: &mut Walk<'_>, max: usize, out: &mut Vec<Avma>) -> Stop {
        self.trails.begin(walk.space.version(), A::MACHINE, walk.registers[A::SP]);
        self.trails.read_ahead(walk.stack);
        let stop = self.walk::<A>(walk, max, out);
        self.trails.end();
        stop
    }

    /// The stack pointer in each frame of the last walk, leaf first: as many as frames were found.
    pub fn stack_pointers(&self) -> &[u64] {
        &self.stack_pointers
    }

    /// Positions in the last walk, ascending and after the leaf's, of frames that made no call: their address is
    /// to be looked up as it is. Such are what a signal interrupted, and its return trampoline.
    pub fn exact_frames(&self) -> &[usize] {
        &self.exact_frames
    }

    /// Addresses in the last walk, leaf first, in memory without a file whose code gave no rule, or isn't known: such
    /// frames were left by their frame pointer, which may lead past callers. See [`AddressSpace::know_code`].
    pub fn unknown_code(&self) -> &[Avma] {
        &self.unknown_code
    }

    /// Notes a frame left by its frame pointer though its code may give a rule.
    fn note_unknown(&mut self, pc: Avma) {
        if self.unknown_code.len() < MAX_UNKNOWN && !self.unknown_code.contains(&pc) {
            self.unknown_code.push(pc);
        }
    }

    /// Notes that a signal's frame leads from its return trampoline, reached last, to what it interrupted.
    #[cold]
    fn note_signal(&mut self) {
        let interrupted = self.stack_pointers.len();
        let trampoline = interrupted - 1;
        if trampoline > 0 && self.exact_frames.last() != Some(&trampoline) {
            self.exact_frames.push(trampoline);
        }
        self.exact_frames.push(interrupted);
    }

    /// Whether a signal's frame led to `sp` on a stack that wasn't copied. The frame of a handler on the same stack
    /// is a few KB below what it interrupted.
    #[cold]
    fn is_on_other_stack(&self, sp: u64, stack: Stack<'_>) -> bool {
        let [.., handler, _] = self.stack_pointers[..] else { return false };
        sp.wrapping_sub(handler) > SIGNAL_FRAME_LIMIT && !stack.holds(sp)
    }

    /// Makes up a rule, for tests.
    #[cfg(test)]
    pub(super) fn keep(&mut self, info: u32, svma: u64, step: Step) {
        match step {
            Step::Simple(rule) => self.cache.insert(info, svma, &rule),
            rare => drop(self.cache.find_rare(info, svma, || rare)),
        }
    }

    fn walk<A: Arch>(&mut self, walk: &mut Walk<'_>, max: usize, out: &mut Vec<Avma>) -> Stop {
        let most = walk.stack.most_frames(A::WORD);
        walk.registers[A::PC] = A::strip(walk.registers[A::PC]);
        let mut near: Option<&Mapped> = None;
        let mut switches_down = 0;
        for _ in 0..max.min(most) {
            let before = (walk.registers[A::SP], walk.registers[A::PC]);
            if let Err(stop) = self.step::<A>(walk, &mut near, out) {
                return stop;
            }
            if walk.is_exact {
                self.note_signal();
            }
            let after = (walk.registers[A::SP], A::strip(walk.registers[A::PC]));
            walk.set = (!walk.is_exact).then(|| InstructionSet::of_address(walk.registers[A::PC]));
            walk.registers[A::PC] = after.1;
            if after.1 == 0 {
                return Stop::ReachedRoot;
            }
            // Only a signal frame may lead down, to the stack its handler interrupted.
            let is_down = walk.is_exact && after.0 <= before.0;
            switches_down += usize::from(is_down);
            let is_visited = || switches_down > MAX_SWITCHES_DOWN || self.stack_pointers.contains(&after.0);
            if after == before || is_down && is_visited() {
                return Stop::Loop;
            }
        }
        if max <= most { Stop::TooDeep } else { Stop::Loop }
    }

    /// Notes the frame reached and goes to its caller.
    #[inline]
    fn step<'s, A: Arch>(
        &mut self,
        walk: &mut Walk<'s>,
        near: &mut Option<&'s Mapped>,
        out: &mut Vec<Avma>,
    ) -> Result<(), Stop> {
        let pc = walk.registers[A::PC];
        out.push(Avma(pc));
        self.stack_pointers.push(walk.registers[A::SP]);
        if walk.is_exact && self.is_on_other_stack(walk.registers[A::SP], walk.stack) {
            return Err(Stop::InterruptedStack { sp: Avma(walk.registers[A::SP]) });
        }
        let lookup = if walk.is_exact { pc } else { pc.wrapping_sub(1) };
        if !walk.is_exact
            && let Some(rule) = self.trails.rule_at(walk.registers[A::SP], pc)
        {
            return walk.by_rule::<A>(rule);
        }
        *near = match near.filter(|m| m.start <= lookup && lookup < m.end) {
            None => walk.space.find(lookup),
            same => same,
        };
        match near {
            None if walk.is_exact => walk.by_frame_pointer::<A>(Stop::NoModule { avma: Avma(pc) }),
            None => {
                // An address outside of all code isn't a frame: the reason contains it.
                out.pop();
                Err(Stop::NoModule { avma: Avma(pc) })
            }
            Some(mapped) => self.step_in::<A>(walk, mapped, lookup),
        }
    }

    /// From the frame at `lookup` to its caller.
    fn step_in<A: Arch>(&mut self, walk: &mut Walk<'_>, mapped: &Mapped, lookup: u64) -> Result<(), Stop> {
        let pc = Avma(walk.registers[A::PC]);
        let Some(info) = &mapped.info else {
            let otherwise = Stop::NoUnwindInfo { which: Which::Anonymous, pc };
            if A::MACHINE != Machine::X86_64 {
                return walk.by_frame_pointer::<A>(otherwise);
            }
            let rules = walk
                .space
                .made_code(lookup)
                .map(|code| self.cache.find_code(code.id, pc.0, || code_rule::rules_of_made(code, pc.0)));
            let rules = rules.unwrap_or_default();
            if let Some(done) = walk.by_made_frame::<A>(lookup, &rules) {
                return done;
            }
            if rules.is_empty() {
                self.note_unknown(pc);
            }
            let done = walk.by_code::<A>(&rules, otherwise);
            return done.or_else(|stop| walk.by_stub_frame::<A>().ok_or(stop));
        };
        if info.machine() != A::MACHINE {
            // Its rules number other registers.
            return walk.by_frame_pointer::<A>(Stop::NoUnwindInfo { which: Which::File, pc });
        }
        let svma = lookup.wrapping_sub(mapped.bias);
        self.step_at::<A>(walk, info, svma, false)
    }

    fn step_at<A: Arch>(
        &mut self,
        walk: &mut Walk<'_>,
        info: &UnwindInfo,
        svma: u64,
        is_retry: bool,
    ) -> Result<(), Stop> {
        if let Some(rule) = self.cache.find(info.id, svma) {
            if !walk.is_exact {
                self.trails.note(walk.registers[A::SP], walk.registers[A::PC], rule);
            }
            return walk.by_rule::<A>(rule);
        }
        let is_call = !walk.is_exact;
        let step = self.cache.find_rare(info.id, svma, || info.shared_step(&mut self.context, svma, is_call));
        if !info.object().bytes().is_intact() {
            // Zeros may have been taken for its rules.
            return walk.by_frame_pointer::<A>(Stop::FileShrank { pc: Avma(walk.registers[A::PC]) });
        }
        match step {
            Step::Simple(rule) => {
                self.cache.insert(info.id, svma, &rule);
                if !walk.is_exact {
                    self.trails.note(walk.registers[A::SP], walk.registers[A::PC], &rule);
                }
                walk.by_rule::<A>(&rule)
            }
            Step::General(row) => walk.by_row::<A>(&row),
            Step::Root => Err(Stop::ReachedRoot),
            Step::OtherStack => Err(Stop::OtherStack { pc: Avma(walk.registers[A::PC]) }),
            // The dynamic linker's _start has no rules; nobody called it.
            Step::Nothing if info.is_entry(A::strip(info.object().entry().0), svma) => Err(Stop::ReachedRoot),
            // After a system call that ends its function (sigreturn), the pc is one past it.
            Step::Nothing if A::MACHINE == Machine::Arm => self.by_arm_code::<A>(walk, info, svma),
            Step::Nothing if walk.is_exact && !is_retry => {
                self.step_at::<A>(walk, info, svma.wrapping_sub(1), true)
            }
            Step::Nothing => {
                let pc = Avma(walk.registers[A::PC]);
                let which = missing_in(info);
                // A return address was looked up one byte back.
                let at = svma.wrapping_add(u64::from(!walk.is_exact || is_retry));
                let rules = self.cache.find_code(info.id, at, || code_rule::rules(info.object(), at));
                walk.by_code::<A>(&rules, Stop::NoUnwindInfo { which, pc })
            }
        }
    }

    /// From a place of 32-bit ARM code that tables do not describe.
    fn by_arm_code<A: Arch>(
        &mut self,
        walk: &mut Walk<'_>,
        info: &UnwindInfo,
        svma: u64,
    ) -> Result<(), Stop> {
        let position = CodePosition { svma, is_call: !walk.is_exact, set: walk.set };
        let rules = || info.arm().rules(info.object(), position);
        let rules = self.cache.find_code(info.id, svma, rules);
        let pc = Avma(walk.registers[A::PC]);
        walk.by_code::<A>(&rules, Stop::NoUnwindInfo { which: missing_in(info), pc })
    }
}

fn missing_in(info: &UnwindInfo) -> Which {
    if info.has_no_tables() { Which::File } else { Which::Function }
}

#[cfg(test)]
mod tests;
