//! The kernel's code: of its vmlinux with lines and source, or of the running kernel's memory.

use std::path::{Path, PathBuf};

use dso::kernel::kcore::Kcore;
use dso::{BuildId, DebugSearch, Loaded, Loader, Machine, Missing, ObjectFile, Svma, Wanted};
use profile::table::{Dso, DsoKind};
use profile::view::annotate::AnnotateFunction;

use super::code::{self, CodeBytes};
use super::{ListedFunction, Listing, ListingOpts, Sources};

/// Why a file can't serve as the kernel's code.
#[derive(Debug, thiserror::Error)]
pub enum KernelCodeError {
    /// Build-id differs.
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

/// The kernel of a recording.
#[derive(Clone, Copy, Debug)]
pub struct KernelIdentity<'a> {
    /// As `uname -r` prints it; `None` if it was not recorded.
    pub release: Option<&'a str>,
    /// `None` if it was not recorded.
    pub build_id: Option<&'a BuildId>,
    /// It runs on this machine, now.
    pub is_running: bool,
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
    /// Code of this kernel: `given`, or where distributions put it, and (with root) the memory of the running kernel
    /// if it is that one.
    ///
    /// # Errors
    /// The file given is none, or of another kernel.
    pub fn find(given: Option<&Path>, kernel: &KernelIdentity<'_>) -> Result<Self, KernelCodeError> {
        let id = kernel.build_id;
        let vmlinux = match given {
            Some(path) => Some(Vmlinux::open(path, id)?),
            None => places(kernel.release).iter().find_map(|path| Vmlinux::open(path, id).ok()),
        };
        let kcore = if kernel.is_running { Kcore::open().ok() } else { None };
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
    of: ListedFunction<'_>,
    table: &Loaded,
    sources: &Sources,
    opts: &ListingOpts,
) -> Result<Listing, Missing> {
    let ListedFunction { dso, function, .. } = of;
    match dso.kind {
        DsoKind::Kernel | DsoKind::KernelModule => {}
        DsoKind::PerfMap { .. } => return Err(Missing::NoJitCode),
        _ => return Err(Missing::NoFile),
    }
    let kernel = opts.kernel.as_deref().ok_or(Missing::NoKernelCode)?;
    if let (Some(vmlinux), DsoKind::Kernel) = (&kernel.vmlinux, dso.kind) {
        let function = linked_as(vmlinux, dso, function);
        let of = ListedFunction { function: &function, ..of };
        return Ok(code::listing(of, &vmlinux.file, sources, opts));
    }
    let kcore = kernel.kcore.as_ref().ok_or(Missing::NoKernelCode)?;
    let size = usize::try_from(function.size.min(code::CODE_LIMIT_BYTES)).unwrap_or(0);
    let bytes = kcore.read(table.running(Svma(function.start)), size).ok_or(Missing::NoKernelCode)?;
    let code = CodeBytes { machine: Machine::host(), start: Svma(function.start), bytes: &bytes };
    let instructions = code::disassembled(table, &code, opts.syntax);
    Ok(code::listing_of(instructions, of, table, sources, opts))
}

/// The function at the addresses that vmlinux was linked to: those of the recording without what the boot added.
fn linked_as(vmlinux: &Vmlinux, dso: &Dso, function: &AnnotateFunction) -> AnnotateFunction {
    let by = if dso.start_avma == 0 { 0 } else { vmlinux.text.0.wrapping_sub(dso.start_avma) };
    let mut moved = function.clone();
    moved.start = moved.start.wrapping_add(by);
    moved.addresses.iter_mut().for_each(|hit| hit.addr = hit.addr.wrapping_add(by));
    moved
}
