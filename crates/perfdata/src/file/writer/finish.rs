//! The end of a file: last records, features, and the header with the final sizes.

use std::io;
use std::io::{SeekFrom, Write};

use super::{COMPRESSED_ROOM, Writer};
use crate::file::encode::{put_attrs, to_record};
use crate::file::features::{APPENDIX_MAGIC, Compressed};
use crate::file::sink::Out;
use crate::wire::Put;
use crate::{Endian, Features, ReadMode, Record};

impl<'w> Writer<'w> {
    /// Ends a round: everything written later is not older than the newest record of the round before this one.
    /// Flushes, and brings the header's data size up to date, so that a killed recorder leaves a file that
    /// reads up to here.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn finish_round(&mut self) -> io::Result<()> {
        self.flush_buffer()?;
        if let Some(bytes) = to_record(&Record::FinishedRound) {
            self.put_out(&bytes)?;
            self.records += 1;
        }
        self.rewrite_header([0; 4])?;
        self.out.flush()
    }

    /// Puts the current sizes into the header and goes back to the end.
    pub(super) fn rewrite_header(&mut self, features: [u64; 4]) -> io::Result<()> {
        let header = self.header(features);
        let Out::File(out) = &mut self.out else { return Ok(()) };
        let mut p = Put::new(Endian::NATIVE);
        header.write(&mut p);
        out.seek(SeekFrom::Start(0))?;
        out.write_all(&p.bytes)?;
        out.seek(SeekFrom::End(0))?;
        Ok(())
    }

    /// Adds what the writer itself knows.
    pub(super) fn complete(&self, features: &mut Features) {
        if features.event_desc.is_empty() {
            features.event_desc.clone_from(&self.opts.events);
        }
        if features.sample_time_ns.is_none() {
            features.sample_time_ns = self.sample_time_ns;
        }
        if features.auxtrace_index.is_empty() {
            features.auxtrace_index.clone_from(&self.auxtrace_index);
        }
        if let Some(level) = self.opts.zstd_level {
            let ratio = self.uncompressed_bytes.checked_div(self.data.size).unwrap_or(1).max(1);
            features.compressed = Some(Compressed {
                version: 1,
                kind: 1,
                level: u32::try_from(level).unwrap_or(0),
                ratio: u32::try_from(ratio).unwrap_or(u32::MAX),
                mmap_len: COMPRESSED_ROOM,
            });
        }
    }

    /// Writes the features (file mode; in a stream only the build-ids, the rest went first), the appendix if it
    /// is not empty, and the final header. `EVENT_DESC`, `SAMPLE_TIME` and `COMPRESSED` are filled in if missing.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn finish(mut self, features: &Features, appendix: &[u8]) -> io::Result<()> {
        self.flush_buffer()?;
        if self.mode() == ReadMode::Pipe {
            return self.finish_pipe(features);
        }
        let mut features = features.clone();
        self.complete(&mut features);
        let sections = features.sections();
        let mut tail = Put::new(Endian::NATIVE);
        let start = self.data.offset + self.data.size;
        let table_bytes = sections.len() * 16;
        tail.bytes.resize(table_bytes, 0);
        if self.ids_added {
            self.attrs = put_attrs(&mut tail, &self.opts.events, start);
        }
        let mut table = Put::new(Endian::NATIVE);
        for (_, bytes) in &sections {
            table.u64(start + tail.bytes.len() as u64);
            table.count(bytes.len());
            tail.raw(bytes);
        }
        if !appendix.is_empty() {
            tail.raw(APPENDIX_MAGIC);
            tail.count(appendix.len());
            tail.raw(appendix);
        }
        table.raw(tail.bytes.get(table_bytes..).unwrap_or_default());
        self.out.write_all(&table.bytes)?;
        self.rewrite_header(feature_bits(&sections))?;
        self.out.flush()
    }
}

fn feature_bits(sections: &[(u32, Vec<u8>)]) -> [u64; 4] {
    let mut bits = [0u64; 4];
    for (number, _) in sections {
        if let Some(word) = bits.get_mut((number / 64) as usize) {
            *word |= 1 << (number % 64);
        }
    }
    bits
}
