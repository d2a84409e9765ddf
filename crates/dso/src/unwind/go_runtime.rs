//! Unwinding Go programs where their own rules don't help: where a thread changes stacks, and without debug info.
//!
//! A goroutine that needs the runtime calls it on another stack, that of its thread (`systemstack`). The rules of the
//! functions that change stacks describe only one of the two, so that a walk by them goes astray.
//!
//! Source: runtime/asm_amd64.s, runtime/asm_arm64.s and runtime/sys_linux_*.s, Go 1.18 to 1.26.

use std::ops::Range;

use super::rule::{Rule, Step};
use crate::symtab::pclntab::{GoFunction, Pclntab};
use crate::{Machine, ObjectFile, Svma};

/// Functions that nothing returns to: the start of a thread or of a goroutine, and of the scheduler's own work, for
/// which the goroutine before has been left.
const OUTERMOST: [&str; 4] = ["runtime.goexit", "runtime.mcall", "runtime.rt0_go", "runtime.clone"];
/// Functions that call on another stack than they were called on; the last three call the vdso.
const SWITCHES: [&str; 5] =
    ["runtime.systemstack", "runtime.asmcgocall", "runtime.nanotime1", "runtime.walltime", "time.now"];
/// The one that a function calls before it makes its frame, when that would not fit the goroutine's stack.
const GROWING: &str = "runtime.morestack";
/// The scheduler's loop, for which the goroutine before has been left.
const SCHEDULER: &str = "runtime.schedule";
/// DWARF's number of the stack pointer on x86-64.
const RSP: u8 = 7;
/// Place of the return address in `X86::CALLEE_SAVED`.
const RETURN_ADDRESS: usize = 0;

/// Go's runtime in one program.
#[derive(Debug)]
pub(super) struct GoRuntime {
    machine: Machine,
    table: Pclntab,
    outermost: Vec<Range<u64>>,
    switches: Vec<Range<u64>>,
    growing: Vec<Range<u64>>,
    scheduler: Vec<Range<u64>>,
}

/// How Go code came onto its thread's own stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoStackChange {
    /// It called a function of the runtime, or C.
    Call,
    /// Its goroutine's stack has to grow, or the goroutine is to leave the thread.
    Growth,
}

impl GoRuntime {
    /// `None` if the program is not Go's.
    pub(super) fn of_object(object: &ObjectFile) -> Option<Self> {
        Some(Self::of_table(object.machine(), Pclntab::of_object(object)?))
    }

    fn of_table(machine: Machine, table: Pclntab) -> Self {
        let [mut outermost, mut switches, mut growing, mut scheduler] = [const { Vec::new() }; 4];
        for function in table.functions() {
            let is_one_of = |names: &[&str]| names.iter().any(|name| table.is_named(function, name));
            let GoFunction { start, end, .. } = function;
            if is_one_of(&OUTERMOST) {
                outermost.push(start.0..end.0);
            } else if is_one_of(&SWITCHES) {
                switches.push(start.0..end.0);
            } else if is_one_of(&[GROWING]) {
                growing.push(start.0..end.0);
            } else if is_one_of(&[SCHEDULER]) {
                scheduler.push(start.0..end.0);
            }
        }
        Self { machine, table, outermost, switches, growing, scheduler }
    }

    /// Whether the call before the return address at `svma` + 1 is the outermost of its stack.
    pub(super) fn is_outermost(&self, svma: u64) -> bool {
        self.outermost.iter().any(|range| range.contains(&svma))
    }

    /// Whether the call before the return address at `svma` + 1 is the scheduler's.
    pub(super) fn is_in_scheduler(&self, svma: u64) -> bool {
        self.scheduler.iter().any(|range| range.contains(&svma))
    }

    /// Known facts about the caller of a function that called at `svma`, beyond its rules.
    pub(super) fn step_of_caller(&self, svma: u64) -> Option<Step> {
        if self.is_outermost(svma) {
            return Some(Step::Root);
        }
        self.stack_change(svma).map(|_| Step::OtherStack)
    }

    /// How the function that called at `svma` changed stacks; `None` if it didn't.
    pub(super) fn stack_change(&self, svma: u64) -> Option<GoStackChange> {
        let is_in = |ranges: &[Range<u64>]| ranges.iter().any(|range| range.contains(&svma));
        if is_in(&self.growing) {
            return Some(GoStackChange::Growth);
        }
        is_in(&self.switches).then_some(GoStackChange::Call)
    }

    /// The rule by the stack's depth, for programs without debug info.
    pub(super) fn step(&self, svma: u64) -> Option<Step> {
        if self.machine != Machine::X86_64 {
            // The frame pointer does as well.
            return None;
        }
        let depth = self.table.stack_depth(Svma(svma))?;
        let mut rule = Rule::new(RSP, i32::try_from(depth).ok()?.checked_add(8)?);
        rule.save(RETURN_ADDRESS, -1);
        Some(Step::Simple(rule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symtab::pclntab::tests::table;

    fn runtime(machine: Machine) -> GoRuntime {
        GoRuntime::of_table(machine, table(&["main.main", "runtime.goexit.abi0", "runtime.systemstack"]))
    }

    #[test]
    fn walks_end_at_a_goroutines_start_and_where_the_stack_changes() {
        let go = runtime(Machine::X86_64);
        let steps = [0x1008, 0x1018, 0x1028, 0x1038].map(|svma| go.step_of_caller(svma));
        assert_eq!(steps, [None, Some(Step::Root), Some(Step::OtherStack), None]);
    }

    #[test]
    fn without_debug_info_the_return_address_is_found_by_the_stacks_depth() {
        let Some(Step::Simple(rule)) = runtime(Machine::X86_64).step(0x1008) else { panic!("no rule") };
        let saved: Vec<_> = rule.saved().collect();
        assert_eq!((rule.cfa_register, rule.cfa_offset, saved), (RSP, 16, vec![(RETURN_ADDRESS, -1)]));
        assert_eq!(runtime(Machine::Aarch64).step(0x1008), None);
    }
}
