//! Functions by name, and the units that may have them: a look at names first, so that few units are read whole.

use std::collections::BTreeSet;

use gimli::constants as dw;

use super::ProbeInfo;
use super::seeker::Seeker;
use super::tree::{Die, DieId, Unit};

impl ProbeInfo {
    /// Names of all functions with code, sorted.
    pub fn function_names(&mut self) -> Vec<String> {
        let _counted = self.count();
        let mut names = BTreeSet::new();
        for unit in &self.units {
            let _ = each_function(unit, |die| {
                let value = die.attr_value(dw::DW_AT_name).filter(|_| die.has_attr(dw::DW_AT_low_pc));
                let text = value.and_then(|v| self.dwarf.attr_string(unit, v).ok());
                names.extend(text.map(|t| t.text().into_owned()));
            });
        }
        names.into_iter().collect()
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
            let Some(seeker) = self.seeker(unit) else { continue };
            let dies = &seeker.tree.dies;
            let functions = (0..dies.len()).filter(|&d| dies[d].tag() == dw::DW_TAG_subprogram);
            let wanted = functions.filter(|&f| seeker.is_wanted(f, fits, file));
            found.extend(wanted.map(|f| (unit, f)));
        }
        found
    }

    /// A seeker for a unit that was read whole.
    pub(super) fn seeker(&self, unit: usize) -> Option<Seeker<'_>> {
        Some(Seeker { dwarf: &self.dwarf, tree: self.trees.get(&unit)?, unit })
    }

    /// A look at the names alone, so that only units with a hit are read whole.
    fn may_have(&self, unit: usize, fits: &dyn Fn(&str) -> bool) -> bool {
        let unit = &self.units[unit];
        let mut hit = false;
        let read = each_function(unit, |die| {
            let names = [dw::DW_AT_name, dw::DW_AT_linkage_name].map(|at| die.attr_value(at));
            hit |= names.into_iter().flatten().any(|value| {
                let text = self.dwarf.attr_string(unit, value);
                text.is_ok_and(|t| fits_name(fits, &t.text()))
            });
        });
        hit || read.is_err()
    }

    /// Units whose name, or one of whose files, ends in `file`.
    pub(super) fn units_of_file(&self, file: &str) -> Vec<usize> {
        let has = |unit: &Unit| {
            let name = unit.name.map(|n| n.text().into_owned()).unwrap_or_default();
            let header = unit.line_program.as_ref().map(gimli::IncompleteLineProgram::header);
            let files = header.map(|h| h.file_names()).unwrap_or_default();
            let base = file.rsplit('/').next().unwrap_or(file);
            ends_in(&name, file)
                || files.iter().any(|f| {
                    let text = self.dwarf.attr_string(unit, f.path_name());
                    text.is_ok_and(|t| ends_in(&t.text(), base))
                })
        };
        (0..self.units.len()).filter(|&i| has(&self.units[i])).collect()
    }
}

/// The name itself, its demangled form, or the last part of that.
pub(super) fn fits_name(fits: &dyn Fn(&str) -> bool, name: &str) -> bool {
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
pub(super) fn ends_in(path: &str, tail: &str) -> bool {
    path.strip_suffix(tail)
        .is_some_and(|head| head.is_empty() || head.ends_with('/') || tail.starts_with('/'))
}
