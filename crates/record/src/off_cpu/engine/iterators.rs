//! BPF iterators: run over all tasks at the beginning and the end of a recording.

use std::fs::File;
use std::io::{ErrorKind, Read};

use aya::Ebpf;
use aya::programs::Iter;

use super::super::Error;
use super::super::layout::OffCpuRecord;
use super::{Engine, program_of};
use crate::sys::bpf_error::chain;

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
        let mut file = iterator_file(&mut self.ebpf, name)?;
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

fn iterator_file(ebpf: &mut Ebpf, name: &'static str) -> Result<File, Error> {
    let fail = |reason: String| Error::Attach { program: name, reason };
    let program: &mut Iter = program_of(ebpf, name)?;
    let id = program.attach().map_err(|error| fail(chain(&error)))?;
    let link = program.take_link(id).map_err(|error| fail(chain(&error)))?;
    link.into_file().map_err(|error| fail(chain(&error)))
}
