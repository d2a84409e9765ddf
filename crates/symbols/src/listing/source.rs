//! Source files, read once.

use dso::{ObjectFile, Refused, SourceAccess};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The lines of one file.
pub struct SourceFile {
    lines: Vec<String>,
}

impl SourceFile {
    /// The text of a line, from 1; `None` past the end.
    pub fn line(&self, number: u32) -> Option<&str> {
        self.lines.get((number as usize).checked_sub(1)?).map(String::as_str)
    }
}

/// Result of a search for a source file.
type Found = Option<Arc<SourceFile>>;

/// Files asked for so far, found or not.
#[derive(Default)]
pub struct Sources {
    files: Mutex<FxHashMap<(String, SourceAccess), Found>>,
    /// Files that exist and are not shown, with the reason.
    refused: Mutex<BTreeSet<String>>,
    root: Option<PathBuf>,
    /// Folders left out of a name before it is looked for below the root.
    strip: usize,
}

impl Sources {
    /// Looks below `root` if there is one (`--symfs`), then at the path itself.
    pub fn new(root: Option<PathBuf>) -> Self {
        Self { root, ..Self::default() }
    }

    /// Looks below `prefix` for names without their first `strip` folders (`--prefix`), then at the path itself.
    pub fn moved(prefix: PathBuf, strip: usize) -> Self {
        Self { root: Some(prefix), strip, ..Self::default() }
    }

    /// The sources that the debug information of `object` names; of code in no file, `None`.
    pub fn of_object(&self, object: Option<&ObjectFile>) -> ObjectSources<'_> {
        ObjectSources { all: self, access: SourceAccess::for_owner(object.and_then(ObjectFile::owner)) }
    }

    /// The source that a recording names for a Python function. The recording's author chose the name, so it must be
    /// one of a Python file; then it is as good as a file of the reader's own.
    pub(super) fn of_python(&self, path: &str) -> ObjectSources<'_> {
        let own = dso::OwnRights::read().map(|rights| rights.user).filter(|_| path.ends_with(".py"));
        ObjectSources { all: self, access: SourceAccess::for_owner(own) }
    }

    /// The files asked for that are there and were not shown, each with the reason.
    pub fn refused(&self) -> Vec<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn read(&self, path: &str, access: SourceAccess) -> Option<SourceFile> {
        let below: PathBuf = Path::new(path.trim_start_matches('/')).components().skip(self.strip).collect();
        let rooted = self.root.as_ref().map(|root| root.join(below));
        let read = |path: &Path| access.read(path).map_err(|why| self.note(path, &why)).ok();
        let bytes = rooted.as_deref().and_then(read).or_else(|| read(Path::new(path)))?;
        let lines =
            bytes.split(|b| *b == b'\n').map(|line| String::from_utf8_lossy(line).trim_end().to_owned());
        Some(SourceFile { lines: lines.collect() })
    }

    fn note(&self, path: &Path, why: &Refused) {
        if !matches!(why, Refused::Io(_)) {
            let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
            refused.insert(format!("{}: {why}", path.display()));
        }
    }
}

/// The sources of one object file.
#[derive(Clone, Copy)]
pub struct ObjectSources<'s> {
    all: &'s Sources,
    access: SourceAccess,
}

impl ObjectSources<'_> {
    /// The file at `path` as the debug information names it; `None` if it can't be read or is not to be shown.
    pub fn file(&self, path: &str) -> Option<Arc<SourceFile>> {
        let key = (path.to_owned(), self.access);
        let known = self.all.files.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        known.unwrap_or_else(|| {
            let file = self.all.read(path, self.access).map(Arc::new);
            let mut files = self.all.files.lock().unwrap_or_else(PoisonError::into_inner);
            files.entry(key).or_insert(file).clone()
        })
    }
}
