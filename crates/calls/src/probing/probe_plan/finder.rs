//! One function after another looked at: its range, its entries and its exits.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use dso::code::flow::{Exits, Leave, ProbedFunction};
use dso::unwind::UnwindInfo;
use dso::{FunctionFlow, ObjectFile, Svma, SymbolTable};
use rustc_hash::{FxHashMap, FxHashSet};

use super::super::probe_selection::ProbeSelection;
use super::super::searched_files::SearchedFile;
use super::{KEEP_RETURN_ADDRESS, KEEPS, RESOLVED};
use crate::instrumented::source_files::SourceFiles;

pub(super) struct Finder<'a> {
    pub(super) file: &'a Arc<ObjectFile>,
    pub(super) symbols: &'a SymbolTable,
    /// Where functions without a name begin and end.
    pub(super) unwind: Arc<UnwindInfo>,
    /// Cold part of a function, which the compiler moved away: first address and the one past the last.
    pub(super) cold: FxHashMap<&'a str, (Svma, Svma)>,
    pub(super) lines: SourceFiles<'a>,
    pub(super) selection: &'a ProbeSelection,
    pub(super) source: &'a SearchedFile,
    /// Go's code, which goroutines run; empty in a file without.
    pub(super) goroutines: Range<u64>,
    /// The names under which the file offers its code.
    pub(super) exported: Vec<dso::Exported>,
    /// Places of code that only selects other code.
    pub(super) resolvers: FxHashSet<Svma>,
}

/// Where Go's functions are in a file.
pub(super) fn go_code(file: &ObjectFile, symbols: &SymbolTable) -> Range<u64> {
    let at = |name| symbols.by_name(name).next().map(|symbol: dso::Symbol<'_>| symbol.start.0);
    let is_go = file.section(".gopclntab").is_some();
    match (at("runtime.text"), at("runtime.etext")) {
        (Some(start), Some(end)) if is_go => start..end,
        // Without symbols C's functions can't be distinguished from them.
        _ if is_go => file.section(".text").map_or(0..0, |text| text.svma.clone()),
        _ => 0..0,
    }
}

impl Finder<'_> {
    /// A function without a symbol that begins there; those of `.text` only, so that no entry of the PLT is one.
    fn range_of(&self, start: Svma) -> Option<(Svma, Svma)> {
        let in_text = self.file.section(".text").is_some_and(|text| text.svma.contains(&start.0));
        self.unwind.function_range(start).filter(|(first, _)| in_text && *first == start)
    }

    /// Whether a pattern means the function; those that do are noted.
    pub(super) fn means(&self, name: &str, met: &mut FxHashSet<usize>) -> bool {
        let mut any = false;
        for number in self.selection.meaning(name, self.source.library.as_deref()) {
            met.insert(number);
            any = true;
        }
        any
    }

    /// First addresses of the selected functions, ascending.
    pub(super) fn starts(&mut self, met: &mut FxHashSet<usize>) -> BTreeSet<Svma> {
        let all = self.selection.is_all() && self.source.library.is_none();
        let mut starts = self.by_other_names(met);
        for symbol in self.symbols.iter() {
            let is_code = symbol.end > symbol.start && self.file.is_code(symbol.start);
            if !is_code || symbol.name.contains("@plt") || symbol.name.ends_with(".cold") {
                continue;
            }
            let meant = all || self.means(&dso::demangle(symbol.name), met) || self.is_of_file(symbol.start);
            if meant {
                starts.insert(symbol.start);
            }
        }
        let mut edge = starts.clone();
        for _ in 0..self.selection.callees {
            edge = edge
                .iter()
                .flat_map(|start| self.callees(*start))
                .filter(|to| !starts.contains(to))
                .collect();
            starts.extend(&edge);
        }
        starts
    }

    /// Whether the function is of a source file asked for.
    fn is_of_file(&mut self, start: Svma) -> bool {
        if self.selection.files.is_empty() {
            return false;
        }
        let file = self.lines.of(start);
        file.is_some_and(|file| self.selection.files.iter().any(|wanted| file.ends_with(wanted)))
    }

    /// Functions of this file that the one at `start` calls or jumps to, also those it reaches through the PLT.
    fn callees(&self, start: Svma) -> Vec<Svma> {
        let named = self.symbols.find(start).map(|symbol| (symbol.start, symbol.end));
        let Some((start, end)) = named.or_else(|| self.range_of(start)) else { return Vec::new() };
        let flow = dso::function_flow(self.file, start, end).unwrap_or_default();
        let behind_plt = |to: Svma| {
            let name = self.symbols.find(to).and_then(|stub| stub.name.strip_suffix("@plt"))?;
            self.symbols.by_name(name).map(|symbol| symbol.start).find(|start| self.file.is_code(*start))
        };
        let begins = |to: &Svma| match self.symbols.find(*to) {
            Some(callee) => callee.start == *to && !callee.name.contains("@plt"),
            None => self.range_of(*to).is_some(),
        };
        flow.callees.into_iter().map(|to| behind_plt(to).unwrap_or(to)).filter(begins).collect()
    }

    /// Functions selected by a name other than their symbol's: a file offers some under several.
    fn by_other_names(&self, met: &mut FxHashSet<usize>) -> BTreeSet<Svma> {
        let meant = self.exported.iter().filter(|exported| {
            self.file.is_code(exported.start) && self.means(&dso::demangle(&exported.name), met)
        });
        meant.map(|exported| exported.start).collect()
    }

    pub(super) fn function(
        &self,
        start: Svma,
        object: usize,
    ) -> Result<(String, ProbedFunction), &'static str> {
        if self.resolvers.contains(&start) {
            return Err(RESOLVED);
        }
        let Some(symbol) = self.symbols.find(start) else {
            let range = self.range_of(start).ok_or("without a symbol")?;
            return self.probe(&[range], dso::unnamed_function(start), object);
        };
        if self.selection.exits == Exits::Return && KEEP_RETURN_ADDRESS.contains(&symbol.name) {
            return Err(KEEPS);
        }
        // Go's linker marks the convention of assembly by its name.
        if self.goroutines.contains(&symbol.start.0) && symbol.name.ends_with(".abi0") {
            return Err("in Go's assembly, where no register holds the goroutine");
        }
        let cold = self.cold.get(symbol.name).copied();
        let ranges: Vec<_> = [(symbol.start, symbol.end)].into_iter().chain(cold).collect();
        self.probe(&ranges, dso::demangle(symbol.name).into_owned(), object)
    }

    /// The probes of the function that is in `ranges`, the one with its entry first.
    pub(super) fn probe(
        &self,
        ranges: &[(Svma, Svma)],
        name: String,
        object: usize,
    ) -> Result<(String, ProbedFunction), &'static str> {
        let flow_of = |&(start, end): &(Svma, Svma)| dso::function_flow(self.file, start, end);
        let flows: Option<Vec<FunctionFlow>> = ranges.iter().map(flow_of).collect();
        let flows = flows.ok_or("in code of another processor")?;
        let by_returns = self.selection.exits == Exits::Return;
        if by_returns && ranges[0].0 == self.file.entry() {
            return Err(KEEPS);
        }
        if flows.iter().any(|flow| flow.damaged) {
            return Err("with bytes that are not instructions");
        }
        let offset = |svma: Svma| self.file.file_offset_of(svma).map(|offset| offset.0);
        let leaves = leaves(ranges, &flows);
        let jumps_at_end = leaves.iter().any(|(_, leave)| leave.is_some());
        let leaves = leaves.into_iter().filter_map(|(at, jump)| {
            let Jump { condition, maybe } = jump.unwrap_or_default();
            Some(Leave { offset: offset(at)?, condition, maybe })
        });
        let leaves = leaves.collect();
        let by_goroutine = self.goroutines.contains(&ranges[0].0.0);
        // Go's functions come back to their first instruction when their stack has grown.
        let behind_check = flows[0].behind_check.filter(|_| by_goroutine && flows[0].loops);
        let entry = behind_check.or(flows[0].entry).ok_or("whose first instruction can't be probed")?;
        let offset = offset(entry).ok_or("not in the file")?;
        let jumps_out = flows.iter().any(|flow| flow.jumps_out) || by_returns && jumps_at_end;
        let loops = flows[0].loops && behind_check.is_none();
        Ok((name, ProbedFunction { object, offset, leaves, jumps_out, loops, by_goroutine }))
    }
}

/// When a jump ends its function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Jump {
    /// If this condition holds.
    condition: Option<u8>,
    /// If the stack pointer is as at entry.
    maybe: bool,
}

/// Ends of a function whose parts are in `ranges`: returns (`None`) and jumps, but not those between its parts.
pub(super) fn leaves(ranges: &[(Svma, Svma)], flows: &[FunctionFlow]) -> Vec<(Svma, Option<Jump>)> {
    let is_out = |to: Svma| !ranges.iter().any(|(start, end)| (*start..*end).contains(&to));
    let mut leaves = Vec::new();
    for flow in flows {
        leaves.extend(flow.returns.iter().map(|at| (*at, None)));
        let jumps = flow.jumps.iter().filter(|(_, to)| is_out(*to));
        leaves.extend(jumps.map(|(at, _)| (*at, Some(Jump::default()))));
        let conditional = flow.conditional.iter().filter(|(_, to, _)| is_out(*to));
        leaves.extend(
            conditional.map(|(at, _, number)| (*at, Some(Jump { condition: Some(*number), maybe: false }))),
        );
        let maybe = Some(Jump { condition: None, maybe: true });
        leaves.extend(flow.computed.iter().map(|at| (*at, maybe)));
    }
    leaves
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_to_the_cold_part_of_a_function_and_back_does_not_end_it() {
        let ranges = [(Svma(0x1000), Svma(0x1100)), (Svma(0x400), Svma(0x440))];
        let jumps = [
            vec![(Svma(0x1010), Svma(0x400)), (Svma(0x1020), Svma(0x2000))],
            vec![(Svma(0x430), Svma(0x1018))],
        ];
        let flows = jumps.map(|jumps| FunctionFlow { jumps, ..FunctionFlow::default() });
        let at = |leaves: Vec<(Svma, Option<Jump>)>| leaves.iter().map(|(at, _)| *at).collect::<Vec<_>>();
        assert_eq!(at(leaves(&ranges, &flows)), [Svma(0x1020)]);
        assert_eq!(at(leaves(&ranges[..1], &flows[..1])), [Svma(0x1010), Svma(0x1020)]);
    }
}
