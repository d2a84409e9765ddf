//! The kernel's code: of its vmlinux with lines and source, or of the running kernel's memory.

use std::path::{Path, PathBuf};

use dso::kcore::Kcore;
use dso::{BuildId, DebugSearch, Loaded, Loader, Machine, Missing, ObjectFile, Svma, Wanted};
use profile::table::{Dso, DsoKind};
use profile::view::annotate::AnnotateFunction;

use super::{Listing, ListingOpts, Sources, code};

/// Why a file can't serve as the kernel's code.
#[derive(Debug, thiserror::Error)]
pub enum KernelCodeError {
    /// Its build-id differs.
    #[error("it is another kernel's than the recording's (build-ids differ)")]
    OtherKernel,
    /// It has no symbol `_text`.
    #[error("it has no symbol _text: is it a vmlinux with symbols?")]
    NoText,
    /// It can't be read.
    #[error(transparent)]
    Unreadable(#[from] dso::Error),
    /// Its symbols can't be.
    #[error(transparent)]
    NoSymbols(#[from] Missing),
}

/// Where the kernel's code comes from.
pub struct KernelCode {
    vmlinux: Option<Vmlinux>,
    kcore: Option<Kcore>,
}

impl std::fmt::Debug for KernelCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KernelCode {{ vmlinux: {}, kcore: {} }}", self.vmlinux.is_some(), self.kcore.is_some())
    }
}

struct Vmlinux {
    file: Loaded,
    /// Where its first byte of code was linked to.
    text: Svma,
}

impl KernelCode {
    /// Of the kernel of this `release` and build-id: `given`, or where distributions put it, and (with root) the
    /// memory of the running kernel if that `is_running`.
    ///
    /// # Errors
    /// The file given is none, or of another kernel.
    pub fn find(
        given: Option<&Path>,
        (release, id): (Option<&str>, Option<&BuildId>),
        is_running: bool,
    ) -> Result<Self, KernelCodeError> {
        let vmlinux = match given {
            Some(path) => Some(Vmlinux::open(path, id)?),
            None => places(release).iter().find_map(|path| Vmlinux::open(path, id).ok()),
        };
        let kcore = if is_running { Kcore::open().ok() } else { None };
        Ok(Self { vmlinux, kcore })
    }
}

impl Vmlinux {
    fn open(path: &Path, id: Option<&BuildId>) -> Result<Self, KernelCodeError> {
        let object = ObjectFile::open(path)?;
        if id.is_some_and(|id| !object.matches(id)) {
            return Err(KernelCodeError::OtherKernel);
        }
        let loader = Loader::new(DebugSearch::from_env());
        let file = loader.load(&Wanted::File { path, build_id: None })?;
        let text = file.symbols().iter().find(|symbol| symbol.name == "_text").map(|symbol| symbol.start);
        let text = text.ok_or(KernelCodeError::NoText)?;
        Ok(Self { file, text })
    }
}

/// Where distributions put the kernel with its debug information.
fn places(release: Option<&str>) -> Vec<PathBuf> {
    let Some(release) = release.filter(|release| !release.contains('/')) else { return Vec::new() };
    let places = [
        format!("/usr/lib/debug/boot/vmlinux-{release}"),
        format!("/usr/lib/debug/lib/modules/{release}/vmlinux"),
        format!("/lib/modules/{release}/build/vmlinux"),
        format!("/usr/lib/debug/boot/vmlinux-{release}.debug"),
        format!("/boot/vmlinux-{release}"),
    ];
    places.into_iter().map(PathBuf::from).collect()
}

/// The listing of a function that only a table of symbols knows.
///
/// # Errors
/// Why its code can't be had.
pub(super) fn listing(
    (dso, table): (&Dso, &Loaded),
    sources: &Sources,
    (name, function): (Option<&str>, &AnnotateFunction),
    opts: &ListingOpts,
) -> Result<Listing, Missing> {
    match dso.kind {
        DsoKind::Kernel | DsoKind::KernelModule => {}
        DsoKind::PerfMap { .. } => return Err(Missing::NoJitCode),
        _ => return Err(Missing::NoFile),
    }
    let kernel = opts.kernel.as_deref().ok_or(Missing::NoKernelCode)?;
    if let (Some(vmlinux), DsoKind::Kernel) = (&kernel.vmlinux, dso.kind) {
        let function = linked_as(vmlinux, dso, function);
        return Ok(code::listing(dso, &vmlinux.file, sources, name, &function, opts));
    }
    let kcore = kernel.kcore.as_ref().ok_or(Missing::NoKernelCode)?;
    let size = usize::try_from(function.size.min(code::CODE_LIMIT_BYTES)).unwrap_or(0);
    let bytes = kcore.read(table.running(Svma(function.start)), size).ok_or(Missing::NoKernelCode)?;
    let instructions = code::disassembled(table, Machine::host(), &bytes, (Svma(function.start), opts));
    Ok(code::listing_of(instructions, dso, table, sources, (name, function), opts))
}

/// The function at the addresses that vmlinux was linked to: those of the recording without what the boot added.
fn linked_as(vmlinux: &Vmlinux, dso: &Dso, function: &AnnotateFunction) -> AnnotateFunction {
    let by = if dso.start_avma == 0 { 0 } else { vmlinux.text.0.wrapping_sub(dso.start_avma) };
    let mut moved = function.clone();
    moved.start = moved.start.wrapping_add(by);
    moved.addresses.iter_mut().for_each(|hit| hit.addr = hit.addr.wrapping_add(by));
    moved
}
