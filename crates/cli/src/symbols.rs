//! Object files for the profile: names through `dso`, on all cores.

use dso::{DebugSearch, FileOffset, Loaded, Loader, Missing, SourceFrame, Svma, SymbolIndex, Wanted};
use profile::profile::Profile;
use profile::source::{DsoSource, NamedFrame, Want};
use profile::table::{Dso, DsoKind};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// What tells DSOs apart.
type Key = (DsoKind, String, Option<Vec<u8>>);

/// Object files, each opened once and kept.
pub struct ObjectFiles {
    loader: Loader,
    opened: Mutex<FxHashMap<Key, Arc<Result<Loaded, Missing>>>>,
}

impl ObjectFiles {
    /// Looks for files where `search` says, and for large symbol tables in the user's cache first.
    pub fn new(search: DebugSearch) -> Self {
        Self { loader: Loader::new(search).with_index(SymbolIndex::from_env()), opened: Mutex::default() }
    }

    /// The file of `dso`, opened at the first call; `Err` says why it can't be had.
    pub fn open(&self, dso: &Dso) -> Arc<Result<Loaded, Missing>> {
        let key = (dso.kind, dso.path.clone(), dso.build_id.clone());
        let known = self.opened.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        known.unwrap_or_else(|| {
            // Two threads may open the same file at once; the first to be done is kept.
            let file = Arc::new(self.load(dso));
            let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(opened.entry(key).or_insert(file))
        })
    }

    fn load(&self, dso: &Dso) -> Result<Loaded, Missing> {
        let build_id = dso.build_id.as_deref().and_then(dso::BuildId::from_bytes);
        let build_id = build_id.as_ref();
        match dso.kind {
            DsoKind::File => self.loader.load(&Wanted::File { path: Path::new(&dso.path), build_id }),
            DsoKind::Kernel => {
                // The image begins at _text, and that is where perf says it has been mapped.
                let reference = (dso.start_avma != 0).then_some(("_text", dso.start_avma));
                self.loader.load(&Wanted::Kernel { build_id, reference })
            }
            DsoKind::KernelModule => self.loader.load(&Wanted::KernelModule { name: module_name(dso) }),
            DsoKind::Bpf => self.loader.load(&Wanted::KernelModule { name: "bpf" }),
            DsoKind::Vdso => self.loader.load(&Wanted::Vdso { build_id }),
            DsoKind::PerfMap { pid } => {
                let path = PathBuf::from(format!("/tmp/perf-{pid}.map"));
                self.loader.load(&Wanted::PerfMap { path: &path })
            }
            DsoKind::GuestKernel | DsoKind::GuestUser => Err(Missing::NoFile),
            DsoKind::Unknown => Err(Missing::Anonymous),
        }
    }
}

/// `ext4` of `[ext4]` or of `/lib/modules/…/ext4.ko.xz`; the kernel writes `_` for `-`.
fn module_name(dso: &Dso) -> &str {
    dso.short_name.trim_start_matches('[').trim_end_matches(']')
}

impl DsoSource for ObjectFiles {
    fn symbolize(&self, dso: &Dso, addrs: &[u64], want: Want) -> Vec<Result<Vec<NamedFrame>, Missing>> {
        match self.open(dso).as_ref() {
            Ok(file) => addrs.iter().map(|&addr| name(file, dso, addr, want)).collect(),
            Err(why) => addrs.iter().map(|_| without_file(dso, *why)).collect(),
        }
    }
}

/// BPF programs announce their own name.
fn without_file(dso: &Dso, why: Missing) -> Result<Vec<NamedFrame>, Missing> {
    if dso.kind != DsoKind::Bpf {
        return Err(why);
    }
    Ok(vec![NamedFrame { name: dso.path.clone(), start: dso.start_avma, ..NamedFrame::default() }])
}

fn name(file: &Loaded, dso: &Dso, addr: u64, want: Want) -> Result<Vec<NamedFrame>, Missing> {
    let svma = match dso.kind {
        DsoKind::File | DsoKind::Vdso => file.svma_of(FileOffset(addr)).ok_or(Missing::OutsideSegments)?,
        _ => Svma(addr),
    };
    let found = match file.symbol(svma) {
        Ok(symbol) => symbol,
        Err(why) => return without_file(dso, why),
    };
    // From stated addresses back to the space of the DSO's frames.
    let start = addr.wrapping_sub(svma.0.wrapping_sub(found.start.0));
    let size = found.end.0.saturating_sub(found.start.0);
    let function =
        NamedFrame { name: dso::demangle(found.name).into_owned(), start, size, ..NamedFrame::default() };
    if want == Want::Names {
        return Ok(vec![function]);
    }
    Ok(with_lines(file, svma, function))
}

/// The function with its line, behind the functions inlined into it at `svma`.
fn with_lines(file: &Loaded, svma: Svma, function: NamedFrame) -> Vec<NamedFrame> {
    let mut sources: Vec<SourceFrame> = Vec::new();
    if file.frames(svma, &mut sources).is_err() || sources.is_empty() {
        return vec![function];
    }
    let last = sources.len() - 1;
    let frame = |(i, source): (usize, SourceFrame)| NamedFrame {
        name: match source.function {
            Some(name) if i < last => dso::demangle(&name).into_owned(),
            _ => function.name.clone(),
        },
        start: function.start,
        size: function.size,
        file: source.file,
        line: source.line.unwrap_or(0),
        inlined: i < last,
    };
    sources.into_iter().enumerate().map(frame).collect()
}

/// Addresses per piece of work: enough to be worth a thread, few enough to spread.
const BATCH: usize = 512;

/// Gives every frame of `profile` that lacks it what `want` says, on all cores.
pub fn symbolize(profile: &mut Profile, files: &ObjectFiles, want: Want) {
    let batches: Vec<_> =
        profile.requests(want).into_iter().flat_map(|request| request.split(BATCH)).collect();
    let dsos = &profile.dsos;
    let answers: Vec<_> =
        batches.par_iter().map(|batch| files.symbolize(dsos.of(batch.dso), &batch.addrs, want)).collect();
    for (batch, answers) in batches.iter().zip(answers) {
        profile.answer(batch, answers);
    }
}
