//! A named pipe on which traced programs send lines to tally.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The reading end.
pub struct Fifo {
    file: File,
    /// The received part of an incomplete line.
    rest: Vec<u8>,
}

impl Fifo {
    /// Makes a pipe of this name and opens it; programs that open it for writing find it readable as long as this
    /// lives.
    ///
    /// # Errors
    /// If it can't be made (the name is taken, the file system has no pipes) or opened.
    pub fn new(path: &Path) -> io::Result<Self> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: a NUL-terminated path.
        if unsafe { libc::mkfifo(name.as_ptr(), 0o600) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // Open for writing as well: so reading never meets an end while no program has it open.
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        Ok(Self { file, rest: Vec::new() })
    }

    /// The lines that came since; none if nothing did.
    ///
    /// # Errors
    /// If reading fails.
    pub fn lines(&mut self) -> io::Result<Vec<String>> {
        let mut block = [0; 4096];
        loop {
            match self.file.read(&mut block) {
                Ok(0) => break,
                Ok(n) => self.rest.extend(&block[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        let end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let whole: Vec<u8> = self.rest.drain(..end).collect();
        Ok(String::from_utf8_lossy(&whole).lines().map(str::to_owned).collect())
    }
}
