//! Addresses to probe: function entries, inlined calls, lines.

use std::collections::BTreeSet;

use super::ProbeInfo;
use super::find::ends_in;
use super::tree::DieId;
use crate::Svma;

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
    /// Address belongs to another line.
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
pub struct SourcePoint {
    /// The function.
    pub function: String,
    /// Lines below the function's head; 0 at its entry.
    pub line: u32,
    /// The file, full path.
    pub file: Option<String>,
}

impl ProbeInfo {
    /// Entries and inlined calls of the functions whose name `fits`, declared in a file that ends in `file`.
    ///
    /// `past_prologue` moves the entry past the prologue in unoptimized code, where parameters are not yet in
    /// their places before it.
    pub fn function_points(
        &mut self,
        fits: &dyn Fn(&str) -> bool,
        file: Option<&str>,
        past_prologue: bool,
    ) -> Vec<Point> {
        let _counted = self.count();
        let mut points = Vec::new();
        for (unit, function) in self.functions_that(fits, file) {
            let seeker = self.seeker(unit);
            points.extend(seeker.into_iter().flat_map(|s| s.function_points(function, past_prologue)));
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
        let _counted = self.count();
        let functions = self.functions_that(fits, file);
        found(functions.into_iter().filter_map(|(unit, function)| {
            let seeker = self.seeker(unit)?;
            let (tree, dwarf) = (seeker.tree, seeker.dwarf);
            let (head, path) = (tree.decl_line(function)?, tree.decl_file(dwarf, function)?);
            let name = tree.name(dwarf, function).unwrap_or_default();
            Some(seeker.line_points(&|f| f == path, head.saturating_add(relative), Some((&name, head))))
        }))
    }

    /// Points of a line of the file whose path ends in `file`.
    pub fn file_line_points(&mut self, file: &str, line: u32) -> Result<Vec<Point>, LineError> {
        let _counted = self.count();
        let units = self.units_of_file(file);
        found(units.into_iter().filter_map(|unit| {
            self.tree(unit)?;
            Some(self.seeker(unit)?.line_points(&|f| ends_in(f, file), line, None))
        }))
    }

    /// The point at an address; `None` if no function of the debug information covers it.
    pub fn point_at(&mut self, svma: Svma) -> Option<Point> {
        let _counted = self.count();
        for unit in 0..self.units.len() {
            let covers = self.dwarf.unit_ranges(&self.units[unit]).ok().is_some_and(|mut ranges| {
                std::iter::from_fn(|| ranges.next().ok().flatten())
                    .any(|r| (r.begin..r.end).contains(&svma.0))
            });
            if covers && self.tree(unit).is_some() {
                let point = self.seeker(unit).and_then(|seeker| seeker.point(svma.0, None, None));
                if point.is_some() {
                    return point;
                }
            }
        }
        None
    }

    /// Readable name of the address; `None` if no function covers it.
    pub fn source_of(&mut self, svma: Svma) -> Option<SourcePoint> {
        let _counted = self.count();
        let point = self.point_at(svma)?;
        let tree = self.trees.get(&point.unit)?;
        let function = tree.name(&self.dwarf, point.frame)?;
        let head = tree.decl_line(point.frame).unwrap_or(0);
        let row = tree.line_at(svma.0).filter(|_| svma != point.function_svma);
        let file = row.and_then(|r| tree.files.get(r.file).cloned());
        Some(SourcePoint {
            function,
            line: row.map_or(0, |r| r.line.saturating_sub(head)),
            file: file.or_else(|| tree.decl_file(&self.dwarf, point.frame)),
        })
    }
}

/// All points of the lines looked for; where none has one, why the first has none.
fn found(lines: impl Iterator<Item = Result<Vec<Point>, LineError>>) -> Result<Vec<Point>, LineError> {
    let mut all = Vec::new();
    let mut wrong = None;
    for points in lines {
        match points {
            Ok(points) => all.extend(points),
            Err(error) => wrong = wrong.or(Some(error)),
        }
    }
    match wrong {
        Some(error) if all.is_empty() => Err(error),
        _ => Ok(unique(all)),
    }
}

/// Without repeated addresses, in the order found.
fn unique(points: Vec<Point>) -> Vec<Point> {
    let mut seen = BTreeSet::new();
    points.into_iter().filter(|p| seen.insert(p.svma)).collect()
}
