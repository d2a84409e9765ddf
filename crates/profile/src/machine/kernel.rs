//! The kernel's side of the address space: its image, modules, and code it generates itself.

use super::{Mapping, Mappings, MmapSpec, file_name};
use crate::table::{Dso, DsoKind, DsoTable};
use rustc_hash::FxHashMap;

/// Name of the kernel proper, in build-id tables too.
pub const PROPER: &str = "[kernel.kallsyms]";

/// The mapping of the image ends with its text, at `_etext`. Data follows, and then the code that runs once
/// (`.init.text`): `start_kernel` is the outermost caller of the first CPU's idle loop for ever. Modules in that range
/// have mappings of their own.
const PAST_TEXT_BYTES: u64 = 128 << 20;

/// Contents of a `KSYMBOL` record: code that appeared in, or vanished from, the kernel.
#[derive(Clone, Copy, Debug)]
pub struct KernelSymbol<'a> {
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// Name, e.g. `bpf_prog_6deef7357e7b4530_sched`.
    pub name: &'a str,
    /// True when it is a BPF program, false for other generated code (trampolines).
    pub bpf: bool,
    /// True when it went away.
    pub removed: bool,
}

/// A kernel mapping: the image (`[kernel.kallsyms]_text`) or a module (`[ext4]`, a `.ko` path).
pub(super) fn mmap(
    maps: &mut Mappings,
    spec: &MmapSpec<'_>,
    build_ids: &FxHashMap<String, Vec<u8>>,
    dsos: &mut DsoTable,
) {
    let dso =
        if is_kernel_proper(spec.path) { image_dso(spec, build_ids) } else { module_dso(spec, build_ids) };
    let is_image = dso.kind == DsoKind::Kernel;
    let dso = dsos.intern(dso);
    let end = match spec.len {
        0 => u64::MAX,
        len => spec.start.saturating_add(len).saturating_add(if is_image { PAST_TEXT_BYTES } else { 0 }),
    };
    let mapping = Mapping { start: spec.start, end, base: spec.start, dso };
    if is_image { maps.insert_below(mapping) } else { maps.insert(mapping) }
}

/// `KSYMBOL`: a program or trampoline of its own name.
pub(super) fn announce(maps: &mut Mappings, symbol: &KernelSymbol<'_>, dsos: &mut DsoTable) {
    if symbol.removed {
        maps.remove_at(symbol.start);
        return;
    }
    let dso = dsos.intern(Dso {
        kind: DsoKind::Bpf,
        path: symbol.name.to_owned(),
        short_name: symbol.name.to_owned(),
        build_id: None,
        level: 'k',
        start_avma: symbol.start,
    });
    let end = symbol.start.saturating_add(symbol.len);
    maps.insert(Mapping { start: symbol.start, end, base: symbol.start, dso });
}

/// Whether a mapping record's name refers to the kernel proper, which is named after the symbol that it was placed by.
/// (A guest's kernel is another one: its mappings are recognized by their mode.)
#[must_use]
pub fn is_kernel_proper(name: &str) -> bool {
    name.starts_with(PROPER) || name == "[kernel]"
}

fn image_dso(spec: &MmapSpec<'_>, build_ids: &FxHashMap<String, Vec<u8>>) -> Dso {
    let build_id = spec.build_id.map(<[u8]>::to_vec).or_else(|| build_ids.get(PROPER).cloned());
    Dso {
        kind: DsoKind::Kernel,
        path: PROPER.to_owned(),
        short_name: PROPER.to_owned(),
        build_id,
        level: 'k',
        start_avma: spec.start,
    }
}

/// A module is known by a bracketed name (`[ext4]`), whatever path the record has.
fn module_dso(spec: &MmapSpec<'_>, build_ids: &FxHashMap<String, Vec<u8>>) -> Dso {
    let build_id = spec.build_id.map(<[u8]>::to_vec).or_else(|| build_ids.get(spec.path).cloned());
    Dso {
        kind: DsoKind::KernelModule,
        path: spec.path.to_owned(),
        short_name: module_name(spec.path),
        build_id,
        level: 'k',
        start_avma: spec.start,
    }
}

/// `/lib/modules/…/snd-hda.ko.xz` → `[snd_hda]`; other names stay.
#[must_use]
pub fn module_name(path: &str) -> String {
    let file = file_name(path);
    let stem = [".ko", ".ko.gz", ".ko.xz", ".ko.zst"].iter().find_map(|ending| file.strip_suffix(ending));
    match stem {
        Some(stem) => format!("[{}]", stem.replace('-', "_")),
        None => file.to_owned(),
    }
}
