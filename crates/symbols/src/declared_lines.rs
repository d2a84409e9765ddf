//! Lines at which the functions of a recording are declared: compilers count lines from there.

use crate::NameOpts;
use crate::object_files::{ObjectFiles, svma_of};
use perfdata::PerfData;
use profile::Profile;
use profile::table::{DsoKind, FrameId, SymbolId};
use rustc_hash::FxHashMap;

/// The lines of functions that the debug information has, from 1, by symbol. Frames must have their names with lines.
#[must_use]
pub fn declared_lines(file: &PerfData<'_>, names: &NameOpts, profile: &Profile) -> FxHashMap<SymbolId, u32> {
    let files = ObjectFiles::of_recording(file, names);
    let mut found = FxHashMap::default();
    for index in 0..profile.frames.len() {
        let id = FrameId::from_index(index);
        let named = profile.frame_names(id);
        let is_known = |name: &profile::table::InlineFrame| found.contains_key(&name.symbol);
        let frame = profile.frames.of(id);
        let dso = profile.dsos.of(frame.dso);
        if dso.kind != DsoKind::File || named.iter().all(is_known) {
            continue;
        }
        let opened = files.open(dso);
        let Ok(opened) = opened.as_ref() else { continue };
        let Some(svma) = svma_of(dso, opened, frame.lookup) else { continue };
        let declared = opened.with_lines(|lines| lines.declared_lines(svma)).unwrap_or_default();
        // Otherwise the names are from somewhere else.
        if declared.len() == named.len() {
            let lines = named.iter().zip(declared).filter(|(name, _)| name.line > 0);
            found.extend(lines.filter_map(|(name, line)| Some((name.symbol, line?))));
        }
    }
    found
}
