//! Where counts are printed to: a file that can't be written any more must not cost the command its status.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::rc::Rc;

use crate::terminal::out;

/// A file named by the user. The first error is reported; what comes later is dropped.
pub struct CountFile {
    file: BufWriter<File>,
    path: PathBuf,
    has_failed: Rc<Cell<bool>>,
}

impl CountFile {
    /// Writes to `file`; `has_failed` becomes true with the first error.
    #[must_use]
    pub fn new(file: File, path: PathBuf, has_failed: Rc<Cell<bool>>) -> Self {
        Self { file: BufWriter::new(file), path, has_failed }
    }

    /// Runs `write` unless an earlier one failed; its result, or `instead`.
    fn guard<T>(&mut self, instead: T, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<T>) -> T {
        if self.has_failed.get() {
            return instead;
        }
        write(&mut self.file).unwrap_or_else(|error| {
            self.has_failed.set(true);
            out::complain(&format!("cannot write {}: {error}", self.path.display()));
            instead
        })
    }
}

impl Write for CountFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(self.guard(bytes.len(), |file| file.write(bytes)))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.guard((), BufWriter::flush);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_noted_and_no_error() {
        let has_failed = Rc::new(Cell::new(false));
        let path = PathBuf::from("/dev/full");
        let Ok(full) = File::options().write(true).open(&path) else {
            return println!("skipped: no /dev/full");
        };
        let mut out = CountFile::new(full, path, has_failed.clone());
        assert!(writeln!(out, "counts").is_ok() && !has_failed.get());
        assert!(out.flush().is_ok() && has_failed.get());
        assert!(writeln!(out, "more").is_ok() && out.flush().is_ok());
    }
}
