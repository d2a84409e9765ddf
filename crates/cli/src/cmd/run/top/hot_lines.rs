//! The line of each function that most of its own samples hit.

use crate::text::run_screen::SourceLine;
use profile::grow::Grow as _;
use profile::profile::Profile;
use profile::table::StringId;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// A function as a screen names it: short name of its file, its own name.
type Function<'p> = (&'p str, &'p str);

/// Periods by function and line.
pub(super) struct HotLines<'p> {
    profile: &'p Profile,
    lines: FxHashMap<Function<'p>, BTreeMap<(StringId, u32), u64>>,
}

impl<'p> HotLines<'p> {
    /// Hot lines in the samples of `event`.
    pub(super) fn of(profile: &'p Profile, event: usize) -> Self {
        let mut lines: FxHashMap<Function<'p>, BTreeMap<(StringId, u32), u64>> = FxHashMap::default();
        for (key, sums) in profile.cells().iter().filter(|(key, _)| key.event as usize == event) {
            let frame = profile.callsites.of(key.callsite).frame;
            let Some(inline) = profile.frame_names(frame).first() else { continue };
            let Some(file) = inline.file.filter(|_| inline.line != 0) else { continue };
            let dso = &profile.dsos.of(profile.frames.of(frame).dso).short_name;
            let name = profile.strings.of(profile.symbols.of(inline.symbol).name);
            lines.entry((dso, name)).or_default().entry((file, inline.line)).or_default().grow(sums.period);
        }
        Self { profile, lines }
    }

    /// The line with most; of equal ones the first. `None` without line information.
    pub(super) fn hottest(&self, dso: &str, name: &str) -> Option<SourceLine> {
        let lines = self.lines.get(&(dso, name))?;
        let (&(file, line), _) = lines.iter().rev().max_by_key(|(_, period)| **period)?;
        Some(SourceLine { file: self.profile.strings.of(file).to_owned(), line })
    }
}
