//! The source lines that can be probed, for a person to choose from.

use std::collections::BTreeSet;

use super::ProbeInfo;
use super::find::ends_in;
use super::seeker::Seeker;
use super::tree::Line;

/// Source lines with code, for `--line`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLines {
    /// The file, full path.
    pub file: String,
    /// Line that 0 refers to: that of the function, or 0 for a file.
    pub base: u32,
    /// First line to show.
    pub first: u32,
    /// Last line to show.
    pub last: u32,
    /// Lines that can be probed.
    pub probeable: BTreeSet<u32>,
}

impl ProbeInfo {
    /// The lines of a function, with those that can be probed.
    pub fn function_lines(&mut self, fits: &dyn Fn(&str) -> bool, file: Option<&str>) -> Option<SourceLines> {
        let _counted = self.count();
        let (unit, function) = self.functions_that(fits, file).into_iter().next()?;
        let seeker = self.seeker(unit)?;
        let tree = seeker.tree;
        let (head, path) = (tree.decl_line(function)?, tree.decl_file(&self.dwarf, function)?);
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
        let _counted = self.count();
        let mut found: Option<SourceLines> = None;
        for unit in self.units_of_file(file) {
            self.tree(unit)?;
            let seeker = self.seeker(unit)?;
            let path = seeker.tree.files.iter().find(|f| ends_in(f, file))?.clone();
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
}

impl Seeker<'_> {
    /// Lines of the file that an address is known by, of addresses that `covered`.
    fn probeable(&self, is_file: &dyn Fn(&str) -> bool, covered: impl Fn(u64) -> bool) -> BTreeSet<u32> {
        let tree = self.tree;
        let in_file = |l: &Line| l.is_stmt && tree.files.get(l.file).is_some_and(|f| is_file(f));
        let rows = tree.lines.iter().filter(|l| in_file(l) && covered(l.address));
        let named = rows.filter(|l| self.named_line(l.address, None).is_some_and(|(_, line)| line == l.line));
        named.map(|l| l.line).collect()
    }
}
