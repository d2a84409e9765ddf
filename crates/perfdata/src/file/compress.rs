//! zstd streams over records: perf keeps one stream for the whole file and flushes it at each record.

use std::io;

use zstd::stream::raw::{Decoder, Encoder, Operation};
use zstd::zstd_safe::{InBuffer, OutBuffer};

use crate::bounds::PIECE_BYTES;

/// Decompresses the payloads of `COMPRESSED` records, in file order.
pub(crate) struct Inflater {
    decoder: Option<Decoder<'static>>,
    chunk: Vec<u8>,
}

impl Inflater {
    pub(crate) fn new() -> Self {
        Inflater { decoder: Decoder::new().ok(), chunk: vec![0; 128 << 10] }
    }

    /// Decompresses the next part of `data` into `out`, about [`PIECE_BYTES`], and advances `data` past the
    /// bytes read. True if more may follow. On an error `out` keeps the bytes from before it.
    pub(crate) fn inflate(&mut self, data: &mut &[u8], out: &mut Vec<u8>) -> Result<bool, &'static str> {
        let decoder = self.decoder.as_mut().ok_or("no memory for a zstd decoder")?;
        let before = out.len();
        while out.len() - before < PIECE_BYTES {
            let mut input = InBuffer::around(data);
            let mut output = OutBuffer::around(self.chunk.as_mut_slice());
            let step = decoder.run(&mut input, &mut output);
            let (taken, written) = (input.pos(), output.pos());
            *data = data.get(taken..).unwrap_or_default();
            out.extend_from_slice(self.chunk.get(..written).unwrap_or_default());
            step.map_err(|_| "corrupt zstd data")?;
            let is_full = written == self.chunk.len();
            let is_stuck = written == 0 && taken == 0;
            if is_stuck || data.is_empty() && !is_full {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Compresses records for `COMPRESSED` records.
pub(crate) struct Deflater {
    encoder: Encoder<'static>,
    chunk: Vec<u8>,
}

impl Deflater {
    /// `max_bytes`: the most compressed bytes handed out at once.
    pub(crate) fn new(level: i32, max_bytes: usize) -> io::Result<Self> {
        Ok(Deflater { encoder: Encoder::new(level)?, chunk: vec![0; max_bytes] })
    }

    /// Compresses all of `data` and flushes; each piece of at most `max_bytes` goes to `emit`.
    pub(crate) fn deflate(
        &mut self,
        data: &[u8],
        mut emit: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut input = InBuffer::around(data);
        loop {
            let mut output = OutBuffer::around(self.chunk.as_mut_slice());
            let pending = if input.pos() < data.len() {
                self.encoder.run(&mut input, &mut output)?;
                1
            } else {
                self.encoder.flush(&mut output)?
            };
            let written = output.pos();
            if written > 0 {
                emit(self.chunk.get(..written).unwrap_or_default())?;
            }
            if pending == 0 {
                return Ok(());
            }
        }
    }
}
