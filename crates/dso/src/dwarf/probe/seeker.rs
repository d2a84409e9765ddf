//! One unit searched: instances of a function, addresses of a line, the scope that an address is seen from.

use gimli::{Dwarf, constants as dw};

use super::find::{ends_in, fits_name};
use super::point::{LineError, Point};
use super::tree::{Die, DieId, Line, UnitTree};
use crate::Svma;
use crate::dwarf::resolver::Reader;

/// Inlined calls that are looked at of one address.
const MOST_SCOPES: usize = 256;

/// One unit being searched.
pub(super) struct Seeker<'a> {
    pub(super) dwarf: &'a Dwarf<Reader>,
    pub(super) tree: &'a UnitTree,
    pub(super) unit: usize,
}

impl Seeker<'_> {
    pub(super) fn is_wanted(&self, function: DieId, fits: &dyn Fn(&str) -> bool, file: Option<&str>) -> bool {
        let tree = self.tree;
        if tree.dies[function].has_attr(dw::DW_AT_declaration)
            || tree.reference(function, dw::DW_AT_abstract_origin).is_some()
        {
            return false;
        }
        let named = tree.name(self.dwarf, function).is_some_and(|n| fits(&n))
            || tree.linkage_name(self.dwarf, function).is_some_and(|n| fits_name(fits, &n));
        named
            && file.is_none_or(|f| tree.decl_file(self.dwarf, function).is_some_and(|path| ends_in(&path, f)))
    }

    /// The function itself, its out-of-line copies and its inlined calls.
    pub(super) fn instances(&self, function: DieId) -> Vec<DieId> {
        let tree = self.tree;
        let own = tree.entry_pc(self.dwarf, function).is_some().then_some(function);
        own.into_iter().chain(tree.instances(function).iter().copied()).collect()
    }

    pub(super) fn function_points(&self, function: DieId, past_prologue: bool) -> Vec<Point> {
        let tree = self.tree;
        let mut points = Vec::new();
        for instance in self.instances(function) {
            let Some(entry) = tree.entry_pc(self.dwarf, instance) else { continue };
            let inlined = tree.dies[instance].tag() == dw::DW_TAG_inlined_subroutine;
            let address = if past_prologue && !inlined { self.past_prologue(instance, entry) } else { entry };
            let frame = if inlined { self.frame_of(instance) } else { Some(instance) };
            points.extend(frame.and_then(|f| self.make_point(address, instance, f, inlined)));
        }
        points
    }

    fn make_point(&self, address: u64, scope: DieId, frame: DieId, inlined: bool) -> Option<Point> {
        let tree = self.tree;
        let name = tree.linkage_name(self.dwarf, frame).or_else(|| tree.name(self.dwarf, frame))?;
        Some(Point {
            svma: Svma(address),
            function: name,
            function_svma: Svma(tree.entry_pc(self.dwarf, frame)?),
            inlined,
            unit: self.unit,
            scope,
            frame,
        })
    }

    /// The function that an inlined call is in the code of.
    fn frame_of(&self, inlined: DieId) -> Option<DieId> {
        let mut at = inlined;
        loop {
            at = self.tree.parent(at)?;
            if self.tree.dies[at].tag() == dw::DW_TAG_subprogram {
                return Some(at);
            }
        }
    }

    /// Address after the prologue: the next line row of the function, or where the compiler marked its end.
    /// Optimized code (it has location lists) has its parameters in place at the entry.
    fn past_prologue(&self, function: DieId, entry: u64) -> u64 {
        if self.is_optimized() {
            return entry;
        }
        let high = self.tree.ranges(self.dwarf, function).iter().map(|r| r.1).max().unwrap_or(entry);
        let first = self.tree.lines.partition_point(|l| l.address < entry);
        let rows: Vec<_> = self.tree.lines[first..].iter().take_while(|l| l.address < high).collect();
        if rows.first().is_none_or(|l| l.address != entry) {
            return entry;
        }
        let marked = rows.iter().position(|l| l.prologue_end);
        let next = if marked == Some(0) { 0 } else { 1 };
        rows.get(next).or(rows.last()).map_or(entry, |l| l.address)
    }

    fn is_optimized(&self) -> bool {
        let is_variable =
            |die: &Die| die.tag() == dw::DW_TAG_variable || die.tag() == dw::DW_TAG_formal_parameter;
        let has_list = |die: &Die| {
            let value = die.attr_value(dw::DW_AT_location);
            value.is_some_and(|v| {
                self.dwarf.attr_locations_offset(&self.tree.unit, v).is_ok_and(|o| o.is_some())
            })
        };
        self.tree.dies.iter().any(|d| is_variable(d) && has_list(d))
    }

    /// `function`: its name and head line, if the line was asked for relative to it.
    pub(super) fn line_points(
        &self,
        is_file: &dyn Fn(&str) -> bool,
        line: u32,
        function: Option<(&str, u32)>,
    ) -> Result<Vec<Point>, LineError> {
        let tree = self.tree;
        let in_file = |l: &&Line| l.is_stmt && tree.files.get(l.file).is_some_and(|f| is_file(f));
        let mut points = Vec::new();
        for row in tree.lines.iter().filter(in_file).filter(|l| l.line == line) {
            let Some((at, named)) = self.named_line(row.address, function) else { continue };
            let own = named == line && (function.is_none() || at.is_some()) && self.is_own(row, is_file);
            if !own {
                let relative = at.as_ref().map_or(named, |(_, head)| named.saturating_sub(*head));
                let name =
                    at.map_or_else(|| tree.files.get(row.file).cloned().unwrap_or_default(), |(n, _)| n);
                return Err(LineError::Shared { at: name, line: relative });
            }
            points.extend(self.point(row.address, function.map(|f| f.0), Some(line)));
        }
        points.extend(self.heads(is_file, line));
        if points.is_empty() {
            let head = function.map_or(0, |f| f.1);
            let next = tree.lines.iter().filter(in_file).map(|l| l.line).filter(|&l| l > line).min();
            return Err(LineError::NoCode { next: next.map(|l| l.saturating_sub(head)) });
        }
        Ok(points)
    }

    /// Entries of functions whose declaration is on the line: the line table may begin at their `{`.
    fn heads(&self, is_file: &dyn Fn(&str) -> bool, line: u32) -> Vec<Point> {
        let tree = self.tree;
        let functions = (0..tree.dies.len()).filter(|&d| {
            tree.dies[d].tag() == dw::DW_TAG_subprogram
                && tree.decl_line(d) == Some(line)
                && tree.decl_file(self.dwarf, d).is_some_and(|f| is_file(&f))
        });
        let entered = functions.filter_map(|d| Some((d, tree.entry_pc(self.dwarf, d)?)));
        entered.filter_map(|(d, pc)| self.make_point(pc, d, d, false)).collect()
    }

    /// The file and line that the address is known by are those of `row`.
    fn is_own(&self, row: &Line, is_file: &dyn Fn(&str) -> bool) -> bool {
        if self.entered_at(row.address).is_some() {
            return true; // compared by its head line already
        }
        let first = self.tree.line_at(row.address);
        first.is_some_and(|f| self.tree.files.get(f.file).is_some_and(|p| is_file(p)))
    }

    /// The line that `address` is known by, and the function to count it from if one was asked for.
    pub(super) fn named_line(
        &self,
        address: u64,
        function: Option<(&str, u32)>,
    ) -> Option<(Option<(String, u32)>, u32)> {
        let tree = self.tree;
        let line = match self.entered_at(address) {
            Some(entered) => tree.decl_line(entered)?,
            None => tree.line_at(address)?.line,
        };
        let Some((name, _)) = function else { return Some((None, line)) };
        let scopes = self.scopes(address);
        let named = |d: &&DieId| tree.name(self.dwarf, **d).as_deref() == Some(name);
        let scope = scopes.iter().rev().find(named).or(scopes.first());
        let from = scope.and_then(|&d| Some((tree.name(self.dwarf, d)?, tree.decl_line(d)?)));
        Some((from, line))
    }

    /// The function that is entered at `address`.
    fn entered_at(&self, address: u64) -> Option<DieId> {
        self.scopes(address).first().copied().filter(|&f| self.tree.entry_pc(self.dwarf, f) == Some(address))
    }

    /// The function at `address` and the inlined calls there, outermost first.
    fn scopes(&self, address: u64) -> Vec<DieId> {
        let tree = self.tree;
        let Some(function) = tree.function_at(self.dwarf, address) else { return Vec::new() };
        let is_inlined = |d: &DieId| tree.dies[*d].tag() == dw::DW_TAG_inlined_subroutine;
        let inlined = tree.inside(function).filter(is_inlined);
        let here = inlined.filter(|&d| tree.covers(self.dwarf, d, address));
        std::iter::once(function).chain(here).take(MOST_SCOPES).collect()
    }

    /// The point at `address`, seen from the scope that has the wanted name, or whose head is nearest above the line.
    pub(super) fn point(&self, address: u64, name: Option<&str>, line: Option<u32>) -> Option<Point> {
        let tree = self.tree;
        let scopes = self.scopes(address);
        let function = *scopes.first()?;
        let by_name =
            |n: &str| scopes.iter().copied().find(|&d| tree.name(self.dwarf, d).as_deref() == Some(n));
        let by_line = |l: u32| {
            let heads = scopes.iter().filter_map(|&d| Some((d, tree.decl_line(d)?)));
            heads.filter(|(_, head)| *head < l).max_by_key(|(_, head)| *head).map(|(d, _)| d)
        };
        let scope = match (name, line) {
            (Some(name), _) => by_name(name).unwrap_or(function),
            (None, Some(line)) => by_line(line).unwrap_or(function),
            (None, None) => scopes.last().copied().unwrap_or(function),
        };
        self.make_point(address, scope, function, scope != function)
    }
}
