//! Branch stacks of a recording as counts of source lines, for compilers.

use crate::object_files::{ObjectFiles, svma_of};
use crate::{NameOpts, session_of};
use dso::{Loaded, Missing, SampledFrame, SampledUnits, Svma};
use perfdata::{Order, PerfData, Record};
use profile::Profile;
use profile::session::{Session, SessionOpts};
use profile::table::{Dso, DsoId, DsoKind, DsoTable, FrameId, InlineFrame, SymbolId};
use profile::view::sample_profile::{BranchCounts, DsoAddr, SampleProfile};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// Counts of lines, and of what could not be used.
#[derive(Debug, Default)]
pub struct SampledLines {
    /// Lines by function.
    pub profile: SampleProfile,
    /// Samples with branches.
    pub samples: u64,
    /// Stretches of code that ran, in all.
    pub stretches: u64,
    /// Stretches that can't be.
    pub impossible: u64,
    /// Executions of code outside of object files with lines.
    pub without_lines: u64,
}

/// Why one program's lines can't be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSuchBinary {
    /// No code of a file with this build-id or name ran; names of those that did.
    NotRecorded(Vec<String>),
    /// The file can't be read, or is of another build.
    Unusable(Missing),
}

impl std::error::Error for NoSuchBinary {}

impl fmt::Display for NoSuchBinary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRecorded(names) => {
                write!(f, "no branch in the recording is in this file; there are {}", names.join(", "))
            }
            Self::Unusable(why) => write!(f, "{why}"),
        }
    }
}

/// Reads the branch stacks of `file`, and the lines of its programs and libraries; with `binary` of this one only, which
/// may be elsewhere than when it was recorded.
///
/// # Errors
/// `binary` isn't among the recorded files, or can't be read.
pub fn sampled_lines(
    file: &PerfData<'_>,
    names: &NameOpts,
    binary: Option<&Path>,
) -> Result<SampledLines, NoSuchBinary> {
    let files = ObjectFiles::of_recording(file, names);
    let mut session = session_of(file, SessionOpts::default());
    let (mut counts, mut found) = (BranchCounts::default(), SampledLines::default());
    file.visit(Order::Time, |item| {
        match &item.record {
            Record::Sample(sample) => {
                let pid = sample.pid_tid.map_or(-1, |(pid, _)| pid.cast_signed());
                let branches = sample.branches.unwrap_or_default();
                let mut end = |avma: u64| place_of(&mut session, pid, avma);
                let ends: Vec<_> = branches.iter().map(|b| (end(b.from.0), end(b.to.0))).collect();
                found.samples += u64::from(!ends.is_empty());
                counts.add_stack(&ends);
            }
            _ => drop(session.push(item)),
        }
        ControlFlow::Continue(())
    });
    found.stretches = counts.ranges.values().fold(counts.impossible, |sum, count| sum.saturating_add(*count));
    found.impossible = counts.impossible;
    if let Some(binary) = binary {
        counts.keep_only(&use_binary(&session.profile().dsos, &files, binary)?);
    }
    let mut lines = LineCounter { dsos: &session.profile().dsos, files: &files, counts: &counts, found };
    lines.count_all();
    lines.found.profile = lines.found.profile.without_empty();
    Ok(lines.found)
}

/// The recorded files that `binary` is, by build-id or else by name; it is read instead of them.
fn use_binary(dsos: &DsoTable, files: &ObjectFiles, binary: &Path) -> Result<Vec<DsoId>, NoSuchBinary> {
    let loaded = files.load_named(binary).map_err(NoSuchBinary::Unusable)?;
    let build_id = loaded.object().and_then(|object| object.build_id()).map(|id| id.as_bytes().to_vec());
    let name = binary.file_name().unwrap_or_default().to_string_lossy();
    let is_it = |dso: &Dso| match (&dso.build_id, &build_id) {
        (Some(recorded), Some(own)) => recorded == own,
        _ => dso.short_name == name,
    };
    let recorded = || dsos.iter().filter(|(_, dso)| dso.kind == DsoKind::File);
    let found: Vec<(DsoId, &Dso)> = recorded().filter(|(_, dso)| is_it(dso)).collect();
    if found.is_empty() {
        return Err(NoSuchBinary::NotRecorded(recorded().map(|(_, dso)| dso.short_name.clone()).collect()));
    }
    let loaded = Arc::new(Ok(loaded));
    found.iter().for_each(|(_, dso)| files.use_instead(dso, &loaded));
    Ok(found.into_iter().map(|(id, _)| id).collect())
}

fn place_of(session: &mut Session, pid: i32, avma: u64) -> DsoAddr {
    let id = session.branch_end_at(pid, avma);
    let frame = session.profile().frames.of(id);
    (frame.dso, frame.addr)
}

struct LineCounter<'a> {
    dsos: &'a DsoTable,
    files: &'a ObjectFiles,
    counts: &'a BranchCounts,
    found: SampledLines,
}

impl LineCounter<'_> {
    fn count_all(&mut self) {
        let ids: BTreeSet<DsoId> = self.counts.ranges.keys().map(|(dso, ..)| *dso).collect();
        let mut branches: FxHashMap<DsoId, Vec<(u64, DsoAddr, u64)>> = FxHashMap::default();
        for (&((dso, from), to), &count) in &self.counts.branches {
            branches.entry(dso).or_default().push((from, to, count));
        }
        for id in ids {
            let dso = self.dsos.of(id);
            let file = self.files.open(dso);
            let has_lines = file.as_ref().as_ref().ok().filter(|_| dso.kind == DsoKind::File);
            let mut units = SampledUnits::default();
            for code in self.counts.code_of(id) {
                let low = has_lines.and_then(|file| svma_of(dso, file, code.start));
                let places = has_lines.zip(low).map_or_else(Vec::new, |(file, low)| {
                    let high = Svma(low.0.saturating_add(code.end - code.start));
                    file.with_lines(|lines| lines.sampled(&mut units, low, high)).unwrap_or_default()
                });
                if places.is_empty() {
                    self.found.without_lines = self.found.without_lines.saturating_add(code.count);
                }
                for place in &places {
                    let count = code.count.saturating_mul(u64::from(place.copies));
                    self.found.profile.add_line(&place.frames, count);
                }
            }
            for (from, to, count) in branches.remove(&id).unwrap_or_default() {
                let Some(called) = self.function_at(to) else { continue };
                let frames = has_lines.and_then(|file| place(file, dso, from, &mut units));
                self.found.profile.add_call(&frames.unwrap_or_default(), &called, count);
            }
        }
    }

    /// The function that begins at an address, if one does: other branches are no calls.
    fn function_at(&self, place: DsoAddr) -> Option<String> {
        let (id, addr) = place;
        let dso = self.dsos.of(id);
        let file = self.files.open(dso);
        let file = file.as_ref().as_ref().ok().filter(|_| dso.kind == DsoKind::File)?;
        let svma = svma_of(dso, file, addr)?;
        let symbol = file.symbol(svma).ok().filter(|symbol| symbol.start == svma)?;
        // Stubs of the linker (name@plt) are no functions of the compiler's.
        (!symbol.name.contains('@')).then(|| symbol.name.to_owned())
    }
}

fn place(file: &Loaded, dso: &Dso, from: u64, units: &mut SampledUnits) -> Option<Vec<SampledFrame>> {
    let svma = svma_of(dso, file, from)?;
    file.with_lines(|lines| lines.sampled(units, svma, svma)).ok()?.pop().map(|place| place.frames)
}

/// The lines of functions that the debug information has, from 1, by symbol. Frames must have their names with lines.
#[must_use]
pub fn declared_lines(file: &PerfData<'_>, names: &NameOpts, profile: &Profile) -> FxHashMap<SymbolId, u32> {
    let files = ObjectFiles::of_recording(file, names);
    let mut found = FxHashMap::default();
    for index in 0..profile.frames.len() {
        let id = FrameId::from_index(index);
        let named = profile.frame_names(id);
        let is_known = |name: &InlineFrame| found.contains_key(&name.symbol);
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
