//! zstd streams over records: perf keeps one stream for the whole file and flushes it at each record.

use std::io;

use zstd::stream::raw::{Decoder, Encoder, Operation};
use zstd::zstd_safe::{InBuffer, OutBuffer};

/// Decompresses the payloads of `COMPRESSED` records, in file order.
pub(crate) struct Inflater {
    decoder: Option<Decoder<'static>>,
    /// The most one record may become.
    limit: usize,
}

/// Without a `COMPRESSED` feature that says better: more than any ring buffer in use.
const DEFAULT_LIMIT: usize = 64 << 20;
/// Whatever the feature says.
const MAX_LIMIT: usize = 1 << 30;

impl Inflater {
    /// `mmap_len`: the ring's size by the file's `COMPRESSED` feature, which bounds what a record becomes.
    pub(crate) fn new(mmap_len: Option<u32>) -> Self {
        let said = mmap_len.map_or(0, |len| len as usize);
        Inflater { decoder: Decoder::new().ok(), limit: said.clamp(DEFAULT_LIMIT, MAX_LIMIT) }
    }

    /// Appends what `data` becomes to `out`. On an error `out` keeps what came out before it.
    pub(crate) fn inflate(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
        let decoder = self.decoder.as_mut().ok_or("no memory for a zstd decoder")?;
        let mut input = InBuffer::around(data);
        let mut chunk = vec![0u8; 128 << 10];
        let before = out.len();
        loop {
            let taken = input.pos();
            let mut output = OutBuffer::around(chunk.as_mut_slice());
            let step = decoder.run(&mut input, &mut output);
            let written = output.pos();
            let stuck = written == 0 && input.pos() == taken;
            let full = written == chunk.len();
            out.extend_from_slice(chunk.get(..written).unwrap_or_default());
            step.map_err(|_| "corrupt zstd data")?;
            if out.len() - before > self.limit {
                return Err("more data than the ring buffer held");
            }
            if stuck || (input.pos() >= data.len() && !full) {
                return Ok(());
            }
        }
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
