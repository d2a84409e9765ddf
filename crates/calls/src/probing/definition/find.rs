//! From a place as written to the points of a program that it means.

use crate::error::{Context, bail};
use dso::dwarf::probe::{Point, ProbeInfo};
use dso::{DebugSearch, Svma, SymbolTable};
use perfdata::text::glob;

use super::Program;
use super::spec::{ProbePlace, ProbePoint, ProbeSpec};

/// A point found, with or without debug information.
pub(super) struct Found {
    pub(super) svma: Svma,
    pub(super) function: String,
    pub(super) inlined: bool,
    /// `None`: found by the symbol table.
    pub(super) point: Option<Point>,
}

impl Program {
    pub(super) fn find(&mut self, spec: &ProbeSpec) -> crate::Result<Vec<Found>> {
        let found = match &spec.place {
            ProbePlace::Address(address) => return self.find_address(*address),
            ProbePlace::Pattern { of, pattern } => return self.find_matching(of, pattern),
            ProbePlace::Line(file, line) => {
                let points = self.info()?.file_line_points(file, *line);
                by_debug_info(points.with_context(|| format!("{file}:{line}"))?)
            }
            ProbePlace::Function { name, file, at: ProbePoint::Line(line) } => {
                let fits = |n: &str| fits(name, n);
                let points = self.info()?.function_line_points(&fits, file.as_deref(), *line);
                let points = points.with_context(|| format!("{name}:{line}"))?;
                by_debug_info(points)
            }
            ProbePlace::Function { name, file, at } => self.find_function(name, file.as_deref(), *at, spec),
        };
        if found.is_empty() {
            return Err(crate::Error::new(self.not_found(&spec.place)));
        }
        Ok(found)
    }

    fn find_address(&mut self, address: u64) -> crate::Result<Vec<Found>> {
        let svma = Svma(address);
        if !self.object.is_code(svma) {
            bail!("{address:#x} is not code of {}", self.path.display());
        }
        let point = self.info.as_mut().and_then(|info| info.point_at(svma));
        Ok(vec![Found { svma, function: format!("abs_{address:x}"), inlined: false, point }])
    }

    fn find_function(
        &mut self,
        name: &str,
        file: Option<&str>,
        at: ProbePoint,
        spec: &ProbeSpec,
    ) -> Vec<Found> {
        let past_prologue = at == ProbePoint::Entry && spec.wants_variables();
        let fits = |n: &str| fits(name, n);
        let points = self.info.as_mut().map(|info| info.function_points(&fits, file, past_prologue));
        let mut found = by_debug_info(points.unwrap_or_default());
        if found.is_empty() && file.is_none() {
            found = self.find_symbol(&fits);
        }
        if let ProbePoint::Offset(offset) = at {
            for found in &mut found {
                found.svma = Svma(found.svma.0.wrapping_add(offset));
                if let Some(point) = &mut found.point {
                    point.svma = found.svma;
                }
            }
        }
        found
    }

    fn find_symbol(&self, fits: &dyn Fn(&str) -> bool) -> Vec<Found> {
        let debug = DebugSearch::from_env().find_debug(&self.object);
        let table = SymbolTable::load(&self.object, debug.as_ref());
        let code = table.iter().filter(|s| self.object.is_code(s.start));
        let wanted = code.filter(|s| fits(s.name) || fits(&dso::demangle(s.name)));
        let found =
            wanted.map(|s| Found { svma: s.start, function: s.name.to_owned(), inlined: false, point: None });
        found.collect()
    }

    fn not_found(&mut self, place: &ProbePlace) -> String {
        let path = self.path.display();
        let ProbePlace::Function { name, .. } = place else {
            return format!("nothing to probe there in {path}");
        };
        let mut text = format!("there is no function '{name}' in {path}");
        let names = self.function_names();
        let near: Vec<&String> = names.iter().filter(|n| is_near(name, n)).take(4).collect();
        if !near.is_empty() {
            let near: Vec<_> = near.into_iter().map(String::as_str).collect();
            text += &format!("; did you mean {}?", near.join(", "));
        } else if self.info.is_none() {
            text += " (it has no debug information, only symbols)";
        }
        text
    }

    /// Functions with code, sorted.
    pub fn function_names(&mut self) -> Vec<String> {
        let mut names = self.info.as_mut().map(ProbeInfo::function_names).unwrap_or_default();
        names.extend(self.find_symbol(&|_| true).into_iter().map(|f| f.function));
        names.sort();
        names.dedup();
        names
    }
}

pub(super) fn by_debug_info(points: Vec<Point>) -> Vec<Found> {
    let found = points.into_iter().map(|point| Found {
        svma: point.svma,
        function: point.function.clone(),
        inlined: point.inlined,
        point: Some(point),
    });
    found.collect()
}

/// Is `name` the wanted one, or what the wanted pattern matches? `f` is also found as `a::f`, with parameters left out.
fn fits(wanted: &str, name: &str) -> bool {
    if glob::is_glob(wanted) {
        return glob::matches(wanted, name);
    }
    let bare = name.split_once('(').map_or(name, |(head, _)| head);
    bare == wanted
        || (wanted.contains("::")
            && bare.ends_with(wanted)
            && bare[..bare.len() - wanted.len()].ends_with("::"))
}

fn is_near(typed: &str, name: &str) -> bool {
    name.len() >= 3 && typed.len() >= 3 && (name.contains(typed) || typed.contains(name))
}
