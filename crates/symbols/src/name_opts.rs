//! Where the names of functions come from.

pub(crate) mod debuginfod;

use dso::DebugSearch;

/// The form in which names of functions are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameForm {
    /// As they are in the symbol table.
    Mangled,
    /// Demangled, as perf prints them.
    #[default]
    Whole,
    /// The same, without the compiler that made the code of a JavaScript function or .NET method.
    AnyCompiler,
    /// Without template arguments and the suffixes of parts of functions, so that their instances have one name.
    Brief,
}

/// Where object files are looked for, and how their names are shown.
#[derive(Clone, Debug, Default)]
pub struct NameOpts {
    /// Where to look; by default only at the recorded paths.
    pub search: DebugSearch,
    /// Missing files are fetched by debuginfod's client.
    pub fetch: bool,
    /// How names are shown.
    pub form: NameForm,
    /// Perf maps of any user are read.
    pub any_owner: bool,
    /// The frames of interpreters are kept between those of their language.
    pub runtime_frames: bool,
}

impl NameOpts {
    /// Looks at the places in the environment: this machine's folders of debug files.
    #[must_use]
    pub fn from_env() -> Self {
        Self { search: DebugSearch::from_env(), ..Self::default() }
    }
}
