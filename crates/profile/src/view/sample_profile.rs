//! Profiles for compilers: how often each line of each function ran, from branch stacks.
//!
//! Between two branches of a stack all instructions ran once, from where the older one led to where the newer one began. A
//! line ran as often as its most frequent instruction.

use crate::grow::Grow;
use crate::table::DsoId;
pub use dso::{LineOffset, SampledFrame};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Longest code between two branches, in bytes. Longer stretches come from lost branches.
const LONGEST: u64 = 1 << 20;

/// An address in the space of a DSO's frames.
pub type DsoAddr = (DsoId, u64);

/// Executions and branches, from branch stacks.
#[derive(Clone, Debug, Default)]
pub struct BranchCounts {
    /// Stretches that ran: DSO, first address, address of the branch that ends it.
    pub ranges: FxHashMap<(DsoId, u64, u64), u64>,
    /// Branches: from where to where.
    pub branches: FxHashMap<(DsoAddr, DsoAddr), u64>,
    /// Stretches that can't be: their end is before their start, in another file, or far away.
    pub impossible: u64,
}

/// Executions of code from `start` to `end`, inclusive. Stretches don't overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeCount {
    /// First address.
    pub start: u64,
    /// Last address.
    pub end: u64,
    /// Executions.
    pub count: u64,
}

impl BranchCounts {
    /// Adds the branches (from, to) of a sample, **newest first**.
    pub fn add_stack(&mut self, branches: &[(DsoAddr, DsoAddr)]) {
        for &branch in branches {
            self.branches.entry(branch).or_default().grow(1);
        }
        for pair in branches.windows(2) {
            let (((to_dso, end), _), (_, (dso, start))) = (pair[0], pair[1]);
            if dso == to_dso && start <= end && end - start <= LONGEST {
                self.ranges.entry((dso, start, end)).or_default().grow(1);
            } else {
                self.impossible.grow(1);
            }
        }
    }

    /// Leaves out stretches and branches that begin elsewhere than in these DSOs.
    pub fn keep_only(&mut self, dsos: &[DsoId]) {
        self.ranges.retain(|(dso, ..), _| dsos.contains(dso));
        self.branches.retain(|((dso, _), _), _| dsos.contains(dso));
    }

    /// How often the code of a DSO ran, by address.
    #[must_use]
    pub fn code_of(&self, dso: DsoId) -> Vec<CodeCount> {
        // Executions that begin at an address, and those that ended before it.
        let mut edges: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for (&(_, start, end), &count) in self.ranges.iter().filter(|((of, ..), _)| *of == dso) {
            edges.entry(start).or_default().0.grow(count);
            edges.entry(end.saturating_add(1)).or_default().1.grow(count);
        }
        let (mut code, mut start, mut count) = (Vec::new(), 0, 0u64);
        for (&at, &(begun, ended)) in &edges {
            if count > 0 {
                code.push(CodeCount { start, end: at - 1, count });
            }
            start = at;
            count = count.saturating_add(begun).saturating_sub(ended);
        }
        code
    }
}

/// Executions of a line, and calls from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineCount {
    /// Executions.
    pub count: u64,
    /// Called functions.
    pub calls: BTreeMap<String, u64>,
}

/// Executions of a function's lines, or of one inlined call of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionCounts {
    /// Calls.
    pub head: u64,
    /// Executions by line.
    pub lines: BTreeMap<LineOffset, LineCount>,
    /// Inlined calls by line and function.
    pub inlined: BTreeMap<LineOffset, BTreeMap<String, FunctionCounts>>,
}

impl FunctionCounts {
    /// Sum of all lines, of inlined calls as well.
    #[must_use]
    pub fn total(&self) -> u64 {
        let lines = self.lines.values().map(|line| line.count);
        let inlined = self.inlined.values().flat_map(BTreeMap::values).map(Self::total);
        lines.chain(inlined).fold(0, u64::saturating_add)
    }
}

/// Counts of functions by linkage name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleProfile {
    /// Functions by name.
    pub functions: BTreeMap<String, FunctionCounts>,
}

impl SampleProfile {
    /// A line's executions, if no part of it ran more often. Frames are **innermost first**.
    pub fn add_line(&mut self, frames: &[SampledFrame], count: u64) {
        if let Some(line) = self.line(frames) {
            line.count = line.count.max(count);
        }
    }

    /// Calls of `called` from a place; empty without a known place.
    pub fn add_call(&mut self, frames: &[SampledFrame], called: &str, count: u64) {
        let called = canonical(called);
        if let Some(line) = self.line(frames) {
            line.calls.entry(called.to_owned()).or_default().grow(count);
        }
        self.functions.entry(called.to_owned()).or_default().head.grow(count);
    }

    fn line(&mut self, frames: &[SampledFrame]) -> Option<&mut LineCount> {
        let (innermost, _) = frames.split_first()?;
        let outermost = frames.last()?;
        let mut function = self.functions.entry(canonical(&outermost.function).to_owned()).or_default();
        for pair in frames.windows(2).rev() {
            let name = canonical(&pair[0].function).to_owned();
            function = function.inlined.entry(pair[1].at).or_default().entry(name).or_default();
        }
        Some(function.lines.entry(innermost.at).or_default())
    }

    /// Drops functions of which nothing is known but that they were called.
    #[must_use]
    pub fn without_empty(mut self) -> Self {
        self.functions.retain(|_, function| !function.lines.is_empty() || !function.inlined.is_empty());
        self
    }
}

/// The name without what LLVM appends to copies and parts of a function.
//
// Source: LLVM's FunctionSamples::getCanonicalFnName, policy "selected".
fn canonical(name: &str) -> &str {
    [".llvm.", ".part.", ".__uniq."].iter().fold(name, |name, suffix| {
        name.rfind(suffix)
            .map_or(name, |at| if name[at + suffix.len()..].contains('.') { name } else { &name[..at] })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dso() -> DsoId {
        DsoId::from_index(0)
    }

    fn frame(function: &str, line: u32) -> SampledFrame {
        SampledFrame { function: function.to_owned(), at: LineOffset { line, discriminator: 0 } }
    }

    #[test]
    fn overlapping_stretches_are_cut_where_their_sum_changes() {
        let mut counts = BranchCounts::default();
        let at = |addr| (dso(), addr);
        // Newest first: 10..=20 ran twice, 15..=30 once.
        counts.add_stack(&[(at(20), at(10)), (at(20), at(10)), (at(5), at(10))]);
        counts.add_stack(&[(at(30), at(0)), (at(9), at(15))]);
        let of = |start, end, count| CodeCount { start, end, count };
        assert_eq!(counts.code_of(dso()), [of(10, 14, 2), of(15, 20, 3), of(21, 30, 1)]);
        counts.add_stack(&[(at(5), at(0)), (at(9), at(15))]);
        assert_eq!((counts.impossible, counts.branches[&(at(9), at(15))]), (1, 2));
    }

    #[test]
    fn lines_of_inlined_calls_are_inside_their_callers() {
        let mut profile = SampleProfile::default();
        let stack = [frame("leaf", 1), frame("middle.llvm.123", 2), frame("main", 3)];
        [5, 7, 6].iter().for_each(|count| profile.add_line(&stack, *count));
        profile.add_call(&stack, "far", 4);
        let main = &profile.functions["main"];
        assert_eq!((main.total(), main.inlined[&stack[2].at]["middle"].total()), (7, 7));
        assert_eq!(profile.functions["far"].head, 4);
        assert_eq!(profile.without_empty().functions.len(), 1);
    }
}
