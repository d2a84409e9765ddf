//! Data that the profile needs from object files, requested through a trait: the profile itself opens nothing.

use crate::table::Dso;

/// How much to ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Want {
    /// The function of the symbol table.
    #[default]
    Names,
    /// Source line and inline frames as well.
    Lines,
}

/// One source-level frame from an object file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedFrame {
    /// Demangled name.
    pub name: String,
    /// First address of the function in the space of the DSO's frames (see
    /// [`crate::table::DsoKind`]); for an inlined one that of the function holding it.
    pub start: u64,
    /// Length in bytes; 0 if unknown.
    pub size: u64,
    /// Source file; `None` without line information.
    pub file: Option<String>,
    /// Line in `file`, 1-based; 0 if unknown.
    pub line: u32,
    /// True when the debug information shows that it was inlined into the next frame.
    pub inlined: bool,
}

/// Object files as the caller finds them.
pub trait DsoSource: Sync {
    /// Names for addresses of one DSO, in the same order. Each answer is **innermost first** and
    /// its last element is the function of the symbol table; it is never empty.
    ///
    /// The addresses are lookup addresses (return addresses already one less), sorted.
    fn symbolize(&self, dso: &Dso, addrs: &[u64], want: Want) -> Vec<Result<Vec<NamedFrame>, dso::Missing>>;
}

/// A source that knows nothing: every frame stays `[unknown]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDsos;

impl DsoSource for NoDsos {
    fn symbolize(&self, _: &Dso, addrs: &[u64], _: Want) -> Vec<Result<Vec<NamedFrame>, dso::Missing>> {
        vec![Err(dso::Missing::NoFile); addrs.len()]
    }
}
