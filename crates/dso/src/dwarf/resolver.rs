//! One file's lines: addr2line's context over gimli, made once, units parsed when first touched.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use addr2line::{Context, Location, LookupContinuation, LookupResult};
use gimli::RunTimeEndian;

use super::SourceFrame;
use super::metered::{Meter, Metered, grant};
use super::sampled::{
    LineOffset, LineStretch, SampledFrame, SampledPlace, SampledUnits, call_discriminator, declared_line,
    line_offset,
};
use super::scopes::ScopedNames;
use super::split::SplitFiles;
use crate::files::mmap::has_any_shrunk;
use crate::{DebugSearch, Error, Missing, ObjectFile, Svma, bounds};

pub(super) type Reader = Metered;

/// Inlined calls shown of one address. Compilers nest some tens; a file may claim thousands.
const MOST_FRAMES: usize = 256;
/// Names and paths of one address, in bytes; beyond it only the function itself is given.
const MOST_TEXT: usize = 256 << 10;
/// Bytes without the two zeros that end an abbreviation. Compilers write some tens; an entry of one byte could have
/// any number of attributes otherwise.
const LONGEST_ABBREVIATION: usize = 1024;

thread_local! {
    /// A resolver is asked on this thread.
    static IS_ASKING: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread just now is caught and becomes an error: a file was truncated while lines were
/// looked up in it. For a program's panic hook, which then has nothing to report.
pub fn is_panic_expected() -> bool {
    IS_ASKING.get() && has_any_shrunk()
}

/// Result of `ask`, or `None` if a file was truncated meanwhile: addr2line reads some values twice, and panics where
/// they are not the same.
fn asked<T>(ask: impl FnOnce() -> T) -> Option<T> {
    IS_ASKING.set(true);
    let answer = catch_unwind(AssertUnwindSafe(ask));
    IS_ASKING.set(false);
    match answer {
        Ok(answer) => Some(answer),
        Err(_) if has_any_shrunk() => None,
        Err(panic) => resume_unwind(panic),
    }
}

/// Finds the source lines of an address. `Send`, not `Sync`: one thread asks at a time.
///
/// The DWARF it reads stays mapped for the rest of the program's life.
pub struct LineResolver {
    context: Context<Reader>,
    split: SplitFiles,
    scoped: ScopedNames,
    meter: Meter,
    program: Option<PathBuf>,
}

/// A stretch of code of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineRow {
    /// First address.
    pub start: Svma,
    /// Length in bytes.
    pub size: u64,
    /// File, with folder.
    pub file: Option<String>,
    /// Line from 1.
    pub line: Option<u32>,
}

/// One file's DWARF, from which each thread that asks gets a resolver of its own.
pub(crate) struct LinePool {
    dwarf: SharedDwarf,
    /// Bytes of its sections.
    bytes: u64,
    program: Option<PathBuf>,
    idle: Mutex<Vec<LineResolver>>,
}

impl LinePool {
    /// As [`LineResolver::open`].
    pub(crate) fn open(object: &ObjectFile, search: &DebugSearch) -> Result<Option<Self>, Error> {
        let found = debug_file(object, search);
        let file = found.as_ref().unwrap_or(object);
        let loaded = load_with_alt(file, search, DwarfUse::Lines)?;
        let Some(Sections { dwarf, bytes }) = loaded else { return Ok(None) };
        let program = object.path().or(file.path()).map(Path::to_owned);
        let pool = Self { dwarf: Arc::new(dwarf), bytes, program, idle: Mutex::default() };
        let first = pool.resolver()?;
        pool.put(first);
        Ok(Some(pool))
    }

    /// Runs `ask` on a resolver nobody else uses meanwhile.
    pub(crate) fn with<T>(&self, ask: impl FnOnce(&mut LineResolver) -> T) -> Result<T, Error> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut resolver = match idle {
            Some(resolver) => resolver,
            None => self.resolver()?,
        };
        let answer = ask(&mut resolver);
        self.put(resolver);
        Ok(answer)
    }

    fn put(&self, resolver: LineResolver) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(resolver);
    }

    fn resolver(&self) -> Result<LineResolver, Error> {
        let mut meter = Meter::of(self.bytes);
        let context = meter.run(|| Context::from_arc_dwarf(Arc::clone(&self.dwarf))).map_err(Error::Dwarf);
        refuse_if_spent(&meter, self.program.as_deref());
        let (split, program) = (SplitFiles::new(self.program.as_deref()), self.program.clone());
        Ok(LineResolver { context: context?, split, scoped: ScopedNames::default(), meter, program })
    }
}

impl LineResolver {
    /// For `object`, with its debug file if `search` finds one and it has none of its own, with dwz's common
    /// file, and with split DWARF next to it. `Err(Dwarf)` if the units' headers are damaged; `Ok(None)` if
    /// there is no DWARF.
    pub fn open(object: &ObjectFile, search: &DebugSearch) -> Result<Option<Self>, Error> {
        LinePool::open(object, search)?.map(|pool| pool.resolver()).transpose()
    }

    /// Appends the frames of `svma` to `out`, **innermost first**; the last is the function the code belongs
    /// to, those before it were inlined into it. `Err(NoLine)` if DWARF knows nothing of the address.
    pub fn frames(&mut self, svma: Svma, out: &mut Vec<SourceFrame>) -> Result<(), Missing> {
        let before = out.len();
        asked(|| self.find_frames(svma, out)).unwrap_or_else(|| {
            out.truncate(before);
            Err(Missing::FileShrank)
        })
    }

    fn find_frames(&mut self, svma: Svma, out: &mut Vec<SourceFrame>) -> Result<(), Missing> {
        let Self { context, split, scoped, meter, program } = self;
        let found = meter.run(|| {
            let frames = looked_up(split, context.find_frames(svma.0)).map_err(|_| Missing::NoLine)?;
            let mut found = shown(frames);
            let lacks_scope =
                found.split_last().is_some_and(|(_, inlined)| inlined.iter().any(Found::lacks_scope));
            if lacks_scope && let Some(unit) = looked_up(split, context.find_dwarf_and_unit(svma.0)) {
                found
                    .iter_mut()
                    .filter(|found| found.lacks_scope())
                    .for_each(|found| found.add_scope(scoped, unit));
            }
            Ok(found)
        });
        refuse_if_spent(meter, program.as_deref());
        let found: Vec<Found> = found?;
        let is_empty = found.is_empty();
        out.extend(found.into_iter().map(|found| found.frame));
        if is_empty { Err(Missing::NoLine) } else { Ok(()) }
    }

    /// File and line of `svma`, without functions: what a `srcline` sort key needs.
    pub fn location(&mut self, svma: Svma) -> Option<SourceFrame> {
        let Self { context, meter, program, .. } = self;
        let find = || context.find_location(svma.0).ok()?.map(|l| source_frame(None, Some(l)));
        let found = meter.run(|| asked(find));
        refuse_if_spent(meter, program.as_deref());
        found.flatten()
    }

    /// The lines of the code in `[low, high)`, by address; stretches without a line are left out.
    pub fn rows(&mut self, low: Svma, high: Svma) -> Vec<LineRow> {
        let row = |(start, size, l): (u64, u64, Location<'_>)| LineRow {
            start: Svma(start),
            size,
            file: l.file.map(str::to_owned),
            line: l.line.filter(|&n| n != 0),
        };
        let Self { context, meter, program, .. } = self;
        let find = || Some(context.find_location_range(low.0, high.0).ok()?.map(row).collect());
        let rows = meter.run(|| asked(find));
        refuse_if_spent(meter, program.as_deref());
        rows.flatten().unwrap_or_default()
    }
}

impl LineResolver {
    /// The places whose code overlaps `[low, high]`. Code without a line or
    /// function is left out.
    pub fn sampled(&mut self, units: &mut SampledUnits, low: Svma, high: Svma) -> Vec<SampledPlace> {
        let Self { context, split, meter, program, .. } = self;
        let find = || {
            let unit = looked_up(split, context.find_dwarf_and_unit(low.0))?;
            let stretches = units.of(unit);
            let first = stretches.partition_point(|stretch| stretch.end <= low.0);
            let inside = stretches[first..].iter().take_while(|stretch| stretch.start <= high.0);
            let mut at = |stretch: &LineStretch| {
                let frames = looked_up(split, context.find_frames(stretch.start.max(low.0))).ok()?;
                let frames = sampled_frames(unit, stretch, frames)?;
                Some(SampledPlace { frames, copies: stretch.copies })
            };
            Some(inside.filter(|stretch| stretch.line != 0).filter_map(&mut at).collect())
        };
        let found = meter.run(|| asked(find));
        refuse_if_spent(meter, program.as_deref());
        found.flatten().unwrap_or_default()
    }
}

impl LineResolver {
    /// The lines at which the functions of an address are declared, innermost first; `None` for those without one.
    pub fn declared_lines(&mut self, svma: Svma) -> Vec<Option<u32>> {
        let Self { context, split, meter, program, .. } = self;
        let find = || {
            let unit = looked_up(split, context.find_dwarf_and_unit(svma.0))?;
            let mut frames = looked_up(split, context.find_frames(svma.0)).ok()?;
            let mut found = Vec::new();
            while let Some(frame) = frames.next().ok()?.filter(|_| found.len() < MOST_FRAMES) {
                found.push(frame.dw_die_offset.and_then(|entry| declared_line(unit, entry)));
            }
            Some(found)
        };
        let found = meter.run(|| asked(find));
        refuse_if_spent(meter, program.as_deref());
        found.flatten().unwrap_or_default()
    }
}

/// `None` without a function.
fn sampled_frames(
    unit: gimli::UnitRef<'_, Reader>,
    stretch: &LineStretch,
    mut frames: addr2line::FrameIter<'_, Reader>,
) -> Option<Vec<SampledFrame>> {
    let (mut found, mut discriminator) = (Vec::new(), stretch.discriminator);
    while let Ok(Some(frame)) = frames.next() {
        let entry = frame.dw_die_offset?;
        // The innermost line is that of the row; those of calls are in the entries.
        let line = if found.is_empty() { stretch.line } else { frame.location?.line? };
        let line = line_offset(line, declared_line(unit, entry)?);
        let function = frame.function?.raw_name().ok()?.into_owned();
        found.push(SampledFrame { function, at: LineOffset { line, discriminator } });
        discriminator = call_discriminator(unit, entry);
        if found.len() > MOST_FRAMES {
            return None;
        }
    }
    (!found.is_empty()).then_some(found)
}

/// Notes that reading the debug information of `program` stopped short.
fn refuse_if_spent(meter: &Meter, program: Option<&Path>) {
    if meter.is_spent() {
        bounds::refuse(program, "debug information");
    }
}

/// Result of addr2line after it got the split files it asks for.
fn looked_up<L: LookupContinuation<Buf = Reader>>(
    split: &mut SplitFiles,
    mut step: LookupResult<L>,
) -> L::Output {
    loop {
        match step {
            LookupResult::Output(found) => return found,
            LookupResult::Load { load, continuation } => step = continuation.resume(split.load(&load)),
        }
    }
}

/// A source frame, and where DWARF has its function.
struct Found {
    frame: SourceFrame,
    /// Entry, if its language has scopes for functions.
    entry: Option<gimli::UnitOffset>,
}

impl Found {
    /// DWARF gives the bare name of a function that may have scopes.
    fn lacks_scope(&self) -> bool {
        self.entry.is_some() && self.frame.function.as_deref().is_some_and(|name| !is_mangled(name))
    }

    fn add_scope(&mut self, scoped: &mut ScopedNames, unit: gimli::UnitRef<'_, Reader>) {
        if let Some(name) = self.entry.and_then(|entry| scoped.of(unit, entry)) {
            self.frame.function = Some(name);
        }
    }
}

fn is_mangled(name: &str) -> bool {
    let is_rust = |rest: &str| rest.starts_with(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit());
    name.starts_with("_Z") || name.strip_prefix("_R").is_some_and(is_rust)
}

/// Languages of which compilers leave out linkage names.
fn has_scopes(language: Option<gimli::DwLang>) -> bool {
    let names = [
        gimli::DW_LANG_C_plus_plus,
        gimli::DW_LANG_C_plus_plus_03,
        gimli::DW_LANG_C_plus_plus_11,
        gimli::DW_LANG_C_plus_plus_14,
        gimli::DW_LANG_C_plus_plus_17,
        gimli::DW_LANG_C_plus_plus_20,
        gimli::DW_LANG_Rust,
    ];
    language.is_some_and(|language| names.contains(&language))
}

/// Source frames, innermost first: of very many the innermost, and the function itself.
fn shown(mut frames: addr2line::FrameIter<'_, Reader>) -> Vec<Found> {
    let mut shown: Vec<Found> = Vec::new();
    let mut text = 0;
    while let Ok(Some(frame)) = frames.next() {
        let language = frame.function.as_ref().and_then(|function| function.language);
        let entry = frame.dw_die_offset.filter(|_| has_scopes(language));
        let function = frame.function.and_then(|f| Some(f.raw_name().ok()?.into_owned()));
        if shown.len() == MOST_FRAMES || text > MOST_TEXT {
            shown.pop();
        }
        let frame = source_frame(function, frame.location);
        text += frame.function.as_ref().map_or(0, String::len) + frame.file.as_ref().map_or(0, String::len);
        shown.push(Found { frame, entry });
    }
    shown
}

fn source_frame(function: Option<String>, location: Option<Location<'_>>) -> SourceFrame {
    let location = location.unwrap_or(Location { file: None, line: None, column: None });
    SourceFrame {
        function,
        file: location.file.map(str::to_owned),
        line: location.line.filter(|&n| n != 0),
        column: location.column.filter(|&n| n != 0),
    }
}

/// DWARF, and how many bytes it has.
pub(super) struct Sections {
    pub(super) dwarf: gimli::Dwarf<Reader>,
    pub(super) bytes: u64,
}

/// A use of DWARF.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DwarfUse {
    /// Functions and lines: neither places of variables nor macros, which are a fifth of what has to be decompressed.
    Lines,
    /// Everything.
    Variables,
}

impl DwarfUse {
    fn needs(self, section: gimli::SectionId) -> bool {
        use gimli::SectionId::{DebugLoc, DebugLocLists, DebugMacinfo, DebugMacro};
        self == Self::Variables || !matches!(section, DebugLoc | DebugLocLists | DebugMacinfo | DebugMacro)
    }
}

/// The DWARF sections of `file` that a use needs, decompressed; damaged ones are taken as absent.
fn load(file: &ObjectFile, wanted: DwarfUse) -> Result<Sections, Error> {
    load_named(file, |id| wanted.needs(id).then(|| id.name()))
}

/// The file that has `object`'s DWARF; `None` if that is `object` itself, or nobody.
pub(super) fn debug_file(object: &ObjectFile, search: &DebugSearch) -> Option<ObjectFile> {
    if object.has_dwarf() { None } else { search.find_debug(object) }
}

/// The DWARF of `file` with the part it shares with other files (dwz). `Ok(None)` if it has none.
pub(super) fn load_with_alt(
    file: &ObjectFile,
    search: &DebugSearch,
    wanted: DwarfUse,
) -> Result<Option<Sections>, Error> {
    if !file.has_dwarf() {
        return Ok(None);
    }
    let mut sections = load(file, wanted)?;
    if let Some(alt) = search.find_alt(file) {
        let alt = load(&alt, wanted)?;
        sections.bytes += alt.bytes;
        sections.dwarf.set_sup(alt.dwarf);
    }
    Ok(Some(sections))
}

/// The sections a `.dwo` has.
pub(super) fn load_dwo(file: &ObjectFile) -> Option<gimli::Dwarf<Reader>> {
    let Sections { mut dwarf, bytes } = load_named(file, |id| id.dwo_name()).ok()?;
    grant(bytes);
    dwarf.file_type = gimli::DwarfFileType::Dwo;
    Some(dwarf)
}

fn load_named(
    file: &ObjectFile,
    name: impl Fn(gimli::SectionId) -> Option<&'static str>,
) -> Result<Sections, Error> {
    let mut bytes = 0;
    let dwarf = gimli::Dwarf::load(|id| {
        let found = section(file, name(id).unwrap_or_default());
        bytes += found.slice().len() as u64;
        Ok::<_, Error>(found)
    })?;
    Ok(Sections { dwarf, bytes })
}

pub(super) fn section(file: &ObjectFile, name: &str) -> Reader {
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let bytes = file.section_bytes(name).ok().flatten().filter(|bytes| is_sound(file, name, bytes));
    Metered::new(bytes.map_or(&[], |b| b.leak()), endian)
}

/// False for abbreviations with entries of very many attributes; a warning is noted.
fn is_sound(file: &ObjectFile, name: &str, bytes: &[u8]) -> bool {
    if !name.starts_with(".debug_abbrev") {
        return true;
    }
    let mut from = 0;
    let ends = memchr::memmem::find_iter(bytes, &[0, 0]).chain([bytes.len()]);
    let is_sound =
        ends.into_iter().all(|end| end - std::mem::replace(&mut from, end) <= LONGEST_ABBREVIATION);
    if !is_sound {
        bounds::refuse(file.path(), name);
    }
    is_sound
}

/// Shared with the split loader.
pub(super) type SharedDwarf = Arc<gimli::Dwarf<Reader>>;
