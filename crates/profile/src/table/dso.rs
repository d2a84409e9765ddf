//! Where code comes from: files and pseudo-files.

use super::dense_id;
use rustc_hash::FxHashMap;

dense_id! {
    /// A DSO of a [`DsoTable`].
    DsoId
}

/// Kind of a [`Dso`]; decides who can name its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DsoKind {
    /// An ELF file (also a deleted one, or a memfd): frame addresses are **file offsets**.
    File,
    /// The kernel image: frame addresses are kernel Avmas.
    Kernel,
    /// A loadable kernel module: frame addresses are kernel Avmas.
    KernelModule,
    /// A BPF program, trampoline or other code the kernel announced by KSYMBOL: kernel Avmas.
    Bpf,
    /// The vdso: frame addresses are offsets into its image.
    Vdso,
    /// Executable memory of process `pid` without a file, named by `/tmp/perf-PID.map`: Avmas.
    PerfMap {
        /// The process id the map file is looked up by.
        pid: i32,
    },
    /// Functions of Python programs: addresses of [`perfdata::appendix::python_functions`].
    Python,
    /// Code of a virtual machine's kernel, whose symbols we do not have: guest Avmas.
    GuestKernel,
    /// Code of a virtual machine's user space: guest Avmas.
    GuestUser,
    /// No mapping held the address: Avmas.
    Unknown,
}

impl DsoKind {
    /// True for code that runs in the kernel of this machine.
    #[must_use]
    pub fn is_kernel(self) -> bool {
        matches!(self, Self::Kernel | Self::KernelModule | Self::Bpf)
    }
}

/// A file or pseudo-file that contains frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dso {
    /// Kind.
    pub kind: DsoKind,
    /// Path as recorded (`/usr/lib/libc.so.6`), or the bracketed name of a pseudo-file.
    pub path: String,
    /// Name in reports: the file name of `path`, `[kernel.kallsyms]`, `[ext4]`, `[unknown]`.
    pub short_name: String,
    /// The GNU build id when the recording has one. (1 to 20 bytes.)
    pub build_id: Option<Vec<u8>>,
    /// The privilege level perf shows before a symbol: `k`, `.`, `g`, `u` or `H`.
    pub level: char,
    /// Where the running kernel had this code at the time, for `Kernel` and `KernelModule`: the
    /// start of the first mapping seen. 0 when unknown.
    pub start_avma: u64,
}

impl Dso {
    /// True when no mapping held the address.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self.kind, DsoKind::Unknown | DsoKind::GuestKernel | DsoKind::GuestUser)
    }

    /// Text for its code without a name: `[libc.so.6]`, `[unknown]`, `[JIT tid 5]`.
    #[must_use]
    pub fn bracketed_name(&self) -> String {
        format!("[{}]", self.short_name.replace(['[', ']'], ""))
    }
}

/// Identity of a DSO.
type DsoKey = (DsoKind, String, Option<Vec<u8>>, char);

/// All DSOs seen. Two mappings are of one DSO when kind, path and build id agree.
#[derive(Clone, Debug, Default)]
pub struct DsoTable {
    entries: Vec<Dso>,
    ids: FxHashMap<DsoKey, DsoId>,
}

impl DsoTable {
    /// The id of this DSO, new or known.
    pub fn intern(&mut self, dso: Dso) -> DsoId {
        let key = (dso.kind, dso.path.clone(), dso.build_id.clone(), dso.level);
        if let Some(&id) = self.ids.get(&key) {
            return id;
        }
        let id = DsoId::from_index(self.entries.len());
        self.entries.push(dso);
        self.ids.insert(key, id);
        id
    }

    /// The DSO of an id of this table.
    #[must_use]
    pub fn of(&self, id: DsoId) -> &Dso {
        &self.entries[id.index()]
    }

    /// Gives every DSO at `path` that has no build id this one (from the file header's table).
    pub fn set_build_id(&mut self, path: &str, build_id: &[u8]) {
        for dso in self.entries.iter_mut().filter(|d| d.path == path && d.build_id.is_none()) {
            dso.build_id = Some(build_id.to_vec());
        }
    }

    /// All DSOs with their ids, in order of first sight.
    pub fn iter(&self) -> impl Iterator<Item = (DsoId, &Dso)> {
        self.entries.iter().enumerate().map(|(i, dso)| (DsoId::from_index(i), dso))
    }

    /// Number of DSOs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True before the first mapping.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
