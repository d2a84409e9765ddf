//! BPF iterators: run over all tasks at the beginning and the end of a recording.

use std::io::{ErrorKind, Read};

use super::super::Error;
use super::super::layout::OffCpuRecord;
use super::Engine;

impl Engine {
    /// Reads an iterator to its end, and empties the rings after some threads each.
    pub(super) fn run_iterator(
        &mut self,
        which: &'static str,
        sink: &mut dyn FnMut(OffCpuRecord<'_>),
    ) -> Result<(), Error> {
        let name = match (which, self.copies_in_iterators) {
            ("seed", true) => "seed_copying",
            ("flush", true) => "flush_copying",
            _ => which,
        };
        let mut file = self.object.open_iterator(name)?;
        let mut buffer = [0u8; 256];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(error) => return Err(Error::Attach { program: which, reason: error.to_string() }),
            }
            self.poll(sink);
        }
    }
}
