//! Object files in a recording: packs what naming its addresses needs, and finds it again.
//
// Layout: docs/formats/archive.md.

use crate::object_files::{ObjectFiles, svma_of};
use dso::elf::kept_parts::{KeptParts, Needed, kept_parts};
use dso::{ArchivedDebugFiles, Bytes, Loaded, Missing, ObjectFile};
use perfdata::PerfData;
use perfdata::appendix::archive::{Archived, ArchivedKey, ArchivedRole, KeptPiece, NewArchived};
use profile::profile::Profile;
use profile::table::{Dso, DsoKind};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

/// Code around an address without a symbol, kept for its disassembly.
const UNNAMED_CODE: u64 = 256;
/// Longest file that is restored from an archive.
const LONGEST_FILE: u64 = 16 << 30;

/// A file of a recording and what became of it.
#[derive(Debug)]
pub struct PackedFile {
    /// As recorded.
    pub path: String,
    /// Length of its files; 0 for code without a file.
    pub file_bytes: u64,
    /// Bytes kept of them, before compression.
    pub kept_bytes: u64,
    /// The reason why nothing is kept; `None` if something is.
    pub missing: Option<Missing>,
}

/// The addresses of a DSO that have a frame.
struct UsedCode<'p> {
    dso: &'p Dso,
    addresses: Vec<u64>,
}

/// Packs the files that have the frames of `profiles`, and lists them by path.
pub fn pack(profiles: &[&Profile], files: &ObjectFiles) -> (Vec<NewArchived>, Vec<PackedFile>) {
    let mut used: FxHashMap<ArchivedKey, UsedCode<'_>> = FxHashMap::default();
    for profile in profiles {
        for frame in profile.frames.entries() {
            let dso = profile.dsos.of(frame.dso);
            let Some(key) = key_of(dso) else { continue };
            used.entry(key)
                .or_insert_with(|| UsedCode { dso, addresses: Vec::new() })
                .addresses
                .push(frame.addr);
        }
    }
    let packed: Vec<_> = used.into_par_iter().map(|(key, used)| pack_dso(files, &key, used)).collect();
    let (mut archived, mut listed) = (Vec::new(), Vec::new());
    for (mut files, file) in packed {
        archived.append(&mut files);
        listed.push(file);
    }
    archived.sort_by(|a, b| a.key.path.cmp(&b.key.path));
    listed.sort_by(|a, b| a.path.cmp(&b.path));
    (archived, listed)
}

fn pack_dso(files: &ObjectFiles, key: &ArchivedKey, used: UsedCode<'_>) -> (Vec<NewArchived>, PackedFile) {
    let UsedCode { dso, mut addresses } = used;
    // A return address is looked up one byte before, in the function of its call.
    addresses.extend(addresses.clone().into_iter().map(|address| address.saturating_sub(1)));
    addresses.sort_unstable();
    addresses.dedup();
    let opened = files.open(dso);
    let (is_object, archived) = match opened.as_ref() {
        Ok(loaded) if loaded.object().is_some() => (true, pack_object(loaded, key, dso, &addresses)),
        Ok(loaded) => (false, vec![pack_names(loaded, key, &addresses)]),
        Err(_) => (false, Vec::new()),
    };
    let file = PackedFile {
        path: dso.path.clone(),
        file_bytes: if is_object { archived.iter().map(|file| file.file_bytes).sum() } else { 0 },
        kept_bytes: archived.iter().map(|file| file.content.len() as u64).sum(),
        missing: opened.as_ref().as_ref().err().copied(),
    };
    (archived, file)
}

/// The names of code without an ELF file, at the addresses of the recording.
fn pack_names(loaded: &Loaded, key: &ArchivedKey, addresses: &[u64]) -> NewArchived {
    let mut names = BTreeMap::new();
    for address in addresses {
        // The function after it, too: a kernel's padding is named after that.
        let found = loaded.symbol(dso::Svma(*address)).ok();
        let next = found.and_then(|found| loaded.symbol(found.end).ok());
        for symbol in found.into_iter().chain(next) {
            names.insert(symbol.start.0, (symbol.end.0 - symbol.start.0, symbol.name.to_owned()));
        }
    }
    let mut text = String::new();
    for (start, (size, name)) in &names {
        let _ = writeln!(text, "{start:x} {size:x} {name}");
    }
    let whole = 0..text.len() as u64;
    new_archived(
        key,
        ArchivedRole::Names,
        text.len() as u64,
        KeptParts { pieces: vec![whole], content: text.into() },
    )
}

fn pack_object(loaded: &Loaded, key: &ArchivedKey, dso: &Dso, addresses: &[u64]) -> Vec<NewArchived> {
    let used = used_code(loaded, dso, addresses);
    let kept = |role, file: &ObjectFile, needed| {
        new_archived(key, role, file.bytes().len() as u64, kept_parts(file, needed))
    };
    let code = Needed::Code(&used);
    let [debug, common] = loaded.debug_files();
    let object = loaded.object().map(|file| kept(ArchivedRole::Object, file, code));
    let debug = debug.map(|file| kept(ArchivedRole::DebugFile, &file, code));
    let common = common.map(|file| kept(ArchivedRole::CommonDebugFile, &file, Needed::AllDebugInfo));
    [object, debug, common].into_iter().flatten().collect()
}

/// The functions at `addresses`: sorted, not overlapping.
fn used_code(loaded: &Loaded, dso: &Dso, addresses: &[u64]) -> Vec<Range<u64>> {
    let mut used: Vec<Range<u64>> = Vec::new();
    let svmas = addresses.iter().filter_map(|address| svma_of(dso, loaded, *address));
    used.extend(svmas.map(|svma| match loaded.symbol(svma) {
        Ok(symbol) => symbol.start.0..symbol.end.0.max(svma.0 + 1),
        Err(_) => svma.0.saturating_sub(UNNAMED_CODE)..svma.0.saturating_add(UNNAMED_CODE),
    }));
    used.sort_unstable_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in used {
        match merged.last_mut().filter(|last| range.start <= last.end) {
            Some(last) => last.end = last.end.max(range.end),
            None => merged.push(range),
        }
    }
    merged
}

fn new_archived(key: &ArchivedKey, role: ArchivedRole, file_bytes: u64, parts: KeptParts) -> NewArchived {
    let piece = |range: &Range<u64>| KeptPiece { offset: range.start, bytes: range.end - range.start };
    let pieces = parts.pieces.iter().map(piece).collect();
    NewArchived { key: key.clone(), role, file_bytes, pieces, content: parts.content }
}

/// `None` for code without a file.
fn key_of(dso: &Dso) -> Option<ArchivedKey> {
    let code_kind = match dso.kind {
        DsoKind::File => 1,
        DsoKind::Kernel => 2,
        DsoKind::KernelModule => 3,
        DsoKind::Vdso => 4,
        DsoKind::PerfMap { .. } => 5,
        DsoKind::Bpf | DsoKind::Python | DsoKind::GuestKernel | DsoKind::GuestUser | DsoKind::Unknown => {
            return None;
        }
    };
    Some(ArchivedKey {
        code_kind,
        path: dso.path.clone(),
        build_id: dso.build_id.clone().unwrap_or_default(),
    })
}

/// The files that a recording carries, by the code they belong to.
#[derive(Default)]
pub(crate) struct ArchivedFiles(FxHashMap<ArchivedKey, Vec<Archived<'static>>>);

impl ArchivedFiles {
    /// Those of `file`; they are unpacked when they are needed.
    pub(crate) fn of_recording(file: &PerfData<'_>) -> Self {
        let mut files: FxHashMap<ArchivedKey, Vec<Archived<'static>>> = FxHashMap::default();
        for archived in file.archived_files() {
            files.entry(archived.key.clone()).or_default().push(archived.into_owned());
        }
        Self(files)
    }

    /// The object file of `dso`, or its names; `None` if the recording doesn't have it.
    pub(crate) fn load(&self, dso: &Dso) -> Option<Loaded> {
        let files = self.0.get(&key_of(dso)?)?;
        let content = |role| files.iter().find(|file| file.role == role).and_then(restored);
        if let Some(names) = content(ArchivedRole::Names) {
            return Some(Loaded::of_kept_map(&names));
        }
        let object = ObjectFile::parse(content(ArchivedRole::Object)?).ok()?.named(dso.path.clone().into());
        let debug = ArchivedDebugFiles {
            debug: content(ArchivedRole::DebugFile),
            common: content(ArchivedRole::CommonDebugFile),
        };
        Some(Loaded::archived(object, debug))
    }
}

/// The file with zeros for the parts that were not kept; `None` if it is damaged or too long.
fn restored(file: &Archived<'_>) -> Option<Bytes> {
    let pieces: Vec<Range<u64>> =
        file.pieces.iter().map(|piece| piece.offset..piece.offset + piece.bytes).collect();
    let content = file.unpack()?;
    Bytes::sparse(Some(file.file_bytes).filter(|bytes| *bytes <= LONGEST_FILE)?, &pieces, &content).ok()
}
