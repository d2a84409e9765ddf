//! A function as a recording of calls names it.

/// One function.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Function {
    /// Name, demangled; an address where nothing is known.
    pub name: String,
    /// The file it is in (of an imported one, that calls it); empty when not known.
    pub dso: String,
    /// It is a library's, called by the file.
    pub imported: bool,
}

impl Function {
    /// Function of the file's own.
    #[must_use]
    pub fn new(name: String, dso: String) -> Self {
        Self { name, dso, imported: false }
    }
}
