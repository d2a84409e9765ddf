//! Lines and inlined calls from DWARF.

mod metered;
mod per_unit;
pub mod probe;
mod resolver;
mod sampled;
mod scopes;
mod split;

pub(crate) use resolver::LinePool;
pub use resolver::{LineResolver, LineRow, is_panic_expected};
pub use sampled::{LineOffset, SampledFrame, SampledPlace, SampledUnits};

/// One source-level frame of an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct SourceFrame {
    /// The function's linkage name (mangled) if DWARF has it, else its plain name, of inlined C++ functions with its scopes
    /// (`std::sort<…>`); `None` where only lines are known.
    pub function: Option<String>,
    /// Source file, with its folder as the compiler saw it.
    pub file: Option<String>,
    /// Line, from 1; `None` for code of no line.
    pub line: Option<u32>,
    /// Column, from 1; `None` if unknown.
    pub column: Option<u32>,
}
