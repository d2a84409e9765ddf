//! Addresses to probe: function entries, inlined calls, lines.

use std::collections::BTreeSet;

use gimli::{Dwarf, constants as dw};

use super::ProbeInfo;
use super::tree::{Die, DieId, Unit, UnitTree};
use crate::Svma;
use crate::dwarf::resolver::Reader;

/// One address to probe and the scope its variables are looked up in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// Where.
    pub svma: Svma,
    /// The function whose code it is (the outermost one, if calls were inlined).
    pub function: String,
    /// Entry of that function.
    pub function_svma: Svma,
    /// True if the function asked for is inlined there: it has no return of its own.
    pub inlined: bool,
    pub(super) unit: usize,
    /// The function or inlined call whose variables are seen.
    pub(super) scope: DieId,
    /// The function that has the frame.
    pub(super) frame: DieId,
}

/// Why a line cannot be probed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// No statement begins on it.
    #[error("no code begins on that line{}", .next.map(|l| format!("; the next line with code is {l}")).unwrap_or_default())]
    NoCode {
        /// The next line that has code, in the way it was asked for (relative to the function or absolute).
        next: Option<u32>,
    },
    /// Its address belongs to another line.
    #[error("that line shares its address with others; probe {at}:{line} instead")]
    Shared {
        /// Function or file to name.
        at: String,
        /// Line to name.
        line: u32,
    },
}

/// A place in source terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The function.
    pub function: String,
    /// Lines below the function's head; 0 at its entry.
    pub line: u32,
    /// The file, full path.
    pub file: Option<String>,
}

/// Source lines with code, for `--line`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLines {
    /// The file, full path.
    pub file: String,
    /// Line that 0 stands for: that of the function, or 0 for a file.
    pub base: u32,
    /// First line to show.
    pub first: u32,
    /// Last line to show.
    pub last: u32,
    /// Lines that can be probed.
    pub probeable: BTreeSet<u32>,
}

impl ProbeInfo {
    /// Entries and inlined calls of the functions whose name `fits`, declared in a file that ends in `file`.
    ///
    /// `past_prologue` moves the entry behind the prologue in unoptimized code, where parameters are not yet in
    /// their places before it.
    pub fn function_points(
        &mut self,
        fits: &dyn Fn(&str) -> bool,
        file: Option<&str>,
        past_prologue: bool,
    ) -> Vec<Point> {
        let mut points = Vec::new();
        for (unit, function) in self.functions_that(fits, file) {
            let Some(tree) = self.trees.get(&unit) else { continue };
            let seeker = Seeker { dwarf: &self.dwarf, tree, unit };
            points.extend(seeker.function_points(function, past_prologue));
        }
        unique(points)
    }

    /// Points of the line `relative` lines below the head of each function that `fits`.
    pub fn function_line_points(
        &mut self,
        fits: &dyn Fn(&str) -> bool,
        file: Option<&str>,
        relative: u32,
    ) -> Result<Vec<Point>, LineError> {
        let mut result = Ok(Vec::new());
        for (unit, function) in self.functions_that(fits, file) {
            let Some(tree) = self.trees.get(&unit) else { continue };
            let seeker = Seeker { dwarf: &self.dwarf, tree, unit };
            let (Some(head), Some(path)) = (tree.decl_line(function), tree.decl_file(&self.dwarf, function))
            else {
                continue;
            };
            let name = tree.name(&self.dwarf, function).unwrap_or_default();
            match seeker.line_points(&|f| f == path, head + relative, Some((&name, head))) {
                Ok(points) => {
                    if let Ok(all) = &mut result {
                        all.extend(points);
                    } else {
                        result = Ok(points);
                    }
                }
                Err(error) if result.as_ref().is_ok_and(Vec::is_empty) => result = Err(error),
                Err(_) => {}
            }
        }
        result.map(unique)
    }

    /// Points of a line of the file whose path ends in `file`.
    pub fn file_line_points(&mut self, file: &str, line: u32) -> Result<Vec<Point>, LineError> {
        let mut all = Vec::new();
        let mut wrong = None;
        for unit in self.units_of_file(file) {
            if self.tree(unit).is_none() {
                continue;
            }
            let Some(tree) = self.trees.get(&unit) else { continue };
            let seeker = Seeker { dwarf: &self.dwarf, tree, unit };
            match seeker.line_points(&|f| ends_in(f, file), line, None) {
                Ok(points) => all.extend(points),
                Err(error) => wrong = wrong.or(Some(error)),
            }
        }
        match wrong {
            Some(error) if all.is_empty() => Err(error),
            _ => Ok(unique(all)),
        }
    }

    /// The point at an address; `None` if no function of the debug information covers it.
    pub fn point_at(&mut self, svma: Svma) -> Option<Point> {
        for unit in 0..self.units.len() {
            let covers = self.dwarf.unit_ranges(&self.units[unit]).ok().is_some_and(|mut ranges| {
                std::iter::from_fn(|| ranges.next().ok().flatten())
                    .any(|r| (r.begin..r.end).contains(&svma.0))
            });
            if covers && self.tree(unit).is_some() {
                let tree = self.trees.get(&unit)?;
                let seeker = Seeker { dwarf: &self.dwarf, tree, unit };
                if let Some(point) = seeker.point(svma.0, None, None) {
                    return Some(point);
                }
            }
        }
        None
    }

    /// What a person would call the address; `None` if no function covers it.
    pub fn source_of(&mut self, svma: Svma) -> Option<Named> {
        let point = self.point_at(svma)?;
        let tree = self.trees.get(&point.unit)?;
        let function = tree.name(&self.dwarf, point.frame)?;
        let head = tree.decl_line(point.frame).unwrap_or(0);
        let row = tree.line_at(svma.0).filter(|_| svma != point.function_svma);
        let file = row.and_then(|r| tree.files.get(r.file).cloned());
        Some(Named {
            function,
            line: row.map_or(0, |r| r.line.saturating_sub(head)),
            file: file.or_else(|| tree.decl_file(&self.dwarf, point.frame)),
        })
    }

    /// Names of all functions with code, sorted.
    pub fn function_names(&mut self) -> Vec<String> {
        let mut names = BTreeSet::new();
        for unit in &self.units {
            let _ = each_function(unit, |die| {
                let value = die.attr_value(dw::DW_AT_name).filter(|_| die.has_attr(dw::DW_AT_low_pc));
                let text = value.and_then(|v| self.dwarf.attr_string(unit, v).ok());
                names.extend(text.map(|t| t.to_string_lossy().into_owned()));
            });
        }
        names.into_iter().collect()
    }

    /// The lines of a function, with those that can be probed.
    pub fn function_lines(&mut self, fits: &dyn Fn(&str) -> bool, file: Option<&str>) -> Option<SourceLines> {
        let (unit, function) = self.functions_that(fits, file).into_iter().next()?;
        let tree = self.trees.get(&unit)?;
        let (head, path) = (tree.decl_line(function)?, tree.decl_file(&self.dwarf, function)?);
        let seeker = Seeker { dwarf: &self.dwarf, tree, unit };
        let mut probeable = seeker.probeable(&|f| f == path, |line| {
            seeker.instances(function).iter().any(|&i| tree.covers(&self.dwarf, i, line))
        });
        probeable.retain(|&l| l >= head);
        probeable.insert(head);
        let last = probeable.last().copied().unwrap_or(head);
        Some(SourceLines { file: path, base: head, first: head, last, probeable })
    }

    /// The lines of a file, with those that can be probed.
    pub fn file_lines(&mut self, file: &str) -> Option<SourceLines> {
        let mut found: Option<SourceLines> = None;
        for unit in self.units_of_file(file) {
            self.tree(unit)?;
            let tree = self.trees.get(&unit)?;
            let path = tree.files.iter().find(|f| ends_in(f, file))?.clone();
            let seeker = Seeker { dwarf: &self.dwarf, tree, unit };
            let probeable = seeker.probeable(&|f| f == path, |_| true);
            let lines = found.get_or_insert(SourceLines {
                file: path,
                base: 0,
                first: 1,
                last: 0,
                probeable: BTreeSet::new(),
            });
            lines.probeable.extend(probeable);
            lines.last = lines.probeable.last().copied().unwrap_or(0);
        }
        found
    }

    /// Units (read whole now) and functions in them: definitions and abstract roots, not their instances.
    pub(super) fn functions_that(
        &mut self,
        fits: &dyn Fn(&str) -> bool,
        file: Option<&str>,
    ) -> Vec<(usize, DieId)> {
        let mut found = Vec::new();
        for unit in 0..self.units.len() {
            if !self.may_have(unit, fits) || self.tree(unit).is_none() {
                continue;
            }
            let Some(tree) = self.trees.get(&unit) else { continue };
            let seeker = Seeker { dwarf: &self.dwarf, tree, unit };
            let functions = (0..tree.dies.len()).filter(|&d| tree.dies[d].tag() == dw::DW_TAG_subprogram);
            let wanted = functions.filter(|&f| seeker.is_wanted(f, fits, file));
            found.extend(wanted.map(|f| (unit, f)));
        }
        found
    }

    /// A look at the names alone, so that only units with a hit are read whole.
    fn may_have(&self, unit: usize, fits: &dyn Fn(&str) -> bool) -> bool {
        let unit = &self.units[unit];
        let mut hit = false;
        let read = each_function(unit, |die| {
            let names = [dw::DW_AT_name, dw::DW_AT_linkage_name].map(|at| die.attr_value(at));
            hit |= names.into_iter().flatten().any(|value| {
                let text = self.dwarf.attr_string(unit, value);
                text.is_ok_and(|t| fits_name(fits, &t.to_string_lossy()))
            });
        });
        hit || read.is_err()
    }

    fn units_of_file(&self, file: &str) -> Vec<usize> {
        let has = |unit: &Unit| {
            let name = unit.name.map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            let header = unit.line_program.as_ref().map(gimli::IncompleteLineProgram::header);
            let files = header.map(|h| h.file_names()).unwrap_or_default();
            let base = file.rsplit('/').next().unwrap_or(file);
            ends_in(&name, file)
                || files.iter().any(|f| {
                    let text = self.dwarf.attr_string(unit, f.path_name());
                    text.is_ok_and(|t| ends_in(&t.to_string_lossy(), base))
                })
        };
        (0..self.units.len()).filter(|&i| has(&self.units[i])).collect()
    }
}

/// The name itself, its demangled form, or the last part of that.
fn fits_name(fits: &dyn Fn(&str) -> bool, name: &str) -> bool {
    if fits(name) {
        return true;
    }
    if !name.starts_with("_Z") && !name.starts_with("_R") {
        return false;
    }
    fits(&crate::demangle(name))
}

fn each_function(unit: &Unit, mut visit: impl FnMut(&Die)) -> gimli::Result<()> {
    let mut cursor = unit.entries();
    while let Some(die) = cursor.next_dfs()? {
        if die.tag() == dw::DW_TAG_subprogram {
            visit(die);
        }
    }
    Ok(())
}

/// Does the path end in `tail`, at a folder's boundary?
fn ends_in(path: &str, tail: &str) -> bool {
    path.strip_suffix(tail)
        .is_some_and(|head| head.is_empty() || head.ends_with('/') || tail.starts_with('/'))
}

/// Without repeated addresses, in the order found.
fn unique(points: Vec<Point>) -> Vec<Point> {
    let mut seen = BTreeSet::new();
    points.into_iter().filter(|p| seen.insert(p.svma)).collect()
}

/// One unit being searched.
struct Seeker<'a> {
    dwarf: &'a Dwarf<Reader>,
    tree: &'a UnitTree,
    unit: usize,
}

impl Seeker<'_> {
    fn is_wanted(&self, function: DieId, fits: &dyn Fn(&str) -> bool, file: Option<&str>) -> bool {
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
    fn instances(&self, function: DieId) -> Vec<DieId> {
        let tree = self.tree;
        let own = tree.entry_pc(self.dwarf, function).is_some().then_some(function);
        let offset_is = |d: DieId| tree.reference(d, dw::DW_AT_abstract_origin) == Some(function);
        let tag_is = |d: DieId| {
            let tag = tree.dies[d].tag();
            tag == dw::DW_TAG_subprogram || tag == dw::DW_TAG_inlined_subroutine
        };
        own.into_iter().chain((0..tree.dies.len()).filter(|&d| tag_is(d) && offset_is(d))).collect()
    }

    fn function_points(&self, function: DieId, past_prologue: bool) -> Vec<Point> {
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

    /// Address behind the prologue: the next line row of the function, or where the compiler marked its end.
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
    fn line_points(
        &self,
        is_file: &dyn Fn(&str) -> bool,
        line: u32,
        function: Option<(&str, u32)>,
    ) -> Result<Vec<Point>, LineError> {
        let tree = self.tree;
        let in_file =
            |l: &&super::tree::Line| l.is_stmt && tree.files.get(l.file).is_some_and(|f| is_file(f));
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
            return Err(LineError::NoCode { next: next.map(|l| l - head) });
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
    fn is_own(&self, row: &super::tree::Line, is_file: &dyn Fn(&str) -> bool) -> bool {
        if self.entered_at(row.address).is_some() {
            return true; // compared by its head line already
        }
        let first = self.tree.line_at(row.address);
        first.is_some_and(|f| self.tree.files.get(f.file).is_some_and(|p| is_file(p)))
    }

    /// The line that `address` is known by, and the function to count it from if one was asked for.
    fn named_line(
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
        let is = |d: DieId, tag| tree.dies[d].tag() == tag;
        let function = (0..tree.dies.len())
            .find(|&d| is(d, dw::DW_TAG_subprogram) && tree.covers(self.dwarf, d, address));
        let Some(function) = function else { return Vec::new() };
        let depth = tree.dies[function].depth();
        let below = (function + 1..tree.dies.len()).take_while(|&d| tree.dies[d].depth() > depth);
        let inlined =
            below.filter(|&d| is(d, dw::DW_TAG_inlined_subroutine) && tree.covers(self.dwarf, d, address));
        std::iter::once(function).chain(inlined).collect()
    }

    /// The point at `address`, seen from the scope that has the wanted name, or whose head is nearest above the line.
    fn point(&self, address: u64, name: Option<&str>, line: Option<u32>) -> Option<Point> {
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

    /// Lines of the file that an address is known by, of addresses that `covered`.
    fn probeable(&self, is_file: &dyn Fn(&str) -> bool, covered: impl Fn(u64) -> bool) -> BTreeSet<u32> {
        let tree = self.tree;
        let in_file = |l: &super::tree::Line| l.is_stmt && tree.files.get(l.file).is_some_and(|f| is_file(f));
        let rows = tree.lines.iter().filter(|l| in_file(l) && covered(l.address));
        let named = rows.filter(|l| self.named_line(l.address, None).is_some_and(|(_, line)| line == l.line));
        named.map(|l| l.line).collect()
    }
}
