//! Source file of a function, from debug information.

use dso::{DebugSearch, LineResolver, ObjectFile, Svma};
use std::cell::OnceCell;
use std::path::{Path, PathBuf};

/// Source files of one object's functions.
pub struct SourceFiles<'a> {
    object: &'a ObjectFile,
    /// Opened at the first use; `None` without debug information.
    lines: OnceCell<Option<LineResolver>>,
}

impl<'a> SourceFiles<'a> {
    /// Nothing is read until a function is asked for.
    #[must_use]
    pub fn new(object: &'a ObjectFile) -> Self {
        Self { object, lines: OnceCell::new() }
    }

    /// The file of the function that starts there; `None` without debug information.
    pub fn of(&mut self, start: Svma) -> Option<PathBuf> {
        let open = || LineResolver::open(self.object, &DebugSearch::from_env()).ok().flatten();
        self.lines.get_or_init(open);
        let place = self.lines.get_mut()?.as_mut()?.location(start)?;
        place.file.map(|file| Path::new(&*file).to_owned())
    }
}
