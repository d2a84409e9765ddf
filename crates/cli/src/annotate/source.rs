//! Source files, read once.

use rustc_hash::FxHashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Larger files are not source.
const LIMIT_BYTES: u64 = 64 << 20;

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

/// Files asked for so far, found or not.
#[derive(Default)]
pub struct Sources {
    files: Mutex<FxHashMap<String, Option<Arc<SourceFile>>>>,
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

    /// The file at `path` as the debug information names it; `None` if it can't be read.
    pub fn file(&self, path: &str) -> Option<Arc<SourceFile>> {
        let known = self.files.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
        known.unwrap_or_else(|| {
            let file = self.read(path).map(Arc::new);
            let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            files.entry(path.to_owned()).or_insert(file).clone()
        })
    }

    fn read(&self, path: &str) -> Option<SourceFile> {
        let below: PathBuf = Path::new(path.trim_start_matches('/')).components().skip(self.strip).collect();
        let rooted = self.root.as_ref().map(|root| root.join(below));
        let read = |path: &Path| {
            let meta = std::fs::metadata(path).ok()?;
            (meta.is_file() && meta.len() <= LIMIT_BYTES).then(|| std::fs::read(path).ok()).flatten()
        };
        let bytes = rooted.as_deref().and_then(read).or_else(|| read(Path::new(path)))?;
        let lines =
            bytes.split(|b| *b == b'\n').map(|line| String::from_utf8_lossy(line).trim_end().to_owned());
        Some(SourceFile { lines: lines.collect() })
    }
}
