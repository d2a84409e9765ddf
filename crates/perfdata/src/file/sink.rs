//! Destination of a written file or stream.

use std::io::{self, Seek, Write};

/// Something to write a file to.
pub trait WriteSeek: Write + Seek + Send {}
impl<T: Write + Seek + Send> WriteSeek for T {}

/// A file, whose header is written again at the end, or a stream.
pub(super) enum Out<'w> {
    File(Box<dyn WriteSeek + 'w>),
    Pipe(Box<dyn Write + Send + 'w>),
}

impl Out<'_> {
    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Out::File(out) => out.write_all(bytes),
            Out::Pipe(out) => out.write_all(bytes),
        }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        match self {
            Out::File(out) => out.flush(),
            Out::Pipe(out) => out.flush(),
        }
    }
}
