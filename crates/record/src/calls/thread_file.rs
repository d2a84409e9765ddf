//! One thread's file as tally writes it: events appended, the oldest dropped where only so much is kept.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use dso::FileRule;
use tracer::layout::{HEADER_BYTES, ThreadHeader};

use crate::files::output_file;

/// The part written so far.
#[derive(Debug, Default)]
pub struct ThreadFile {
    written: bool,
    bytes: u64,
    /// Where blocks begin in the file, oldest first; each block repeats the high parts of times and addresses.
    blocks: VecDeque<u64>,
}

impl ThreadFile {
    /// Whether nothing was written yet.
    #[must_use]
    pub fn is_new(&self) -> bool {
        !self.written
    }

    /// Appends a block of events. The file keeps `keep_bytes`, and at most twice as many; 0: all.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn append(
        &mut self,
        path: &Path,
        header: &ThreadHeader,
        events: &[u8],
        keep_bytes: u64,
    ) -> io::Result<()> {
        let mut out = output_file::append_part(path)?;
        if !self.written {
            out.write_all(&header.to_bytes())?;
            self.written = true;
            self.bytes = HEADER_BYTES as u64;
        }
        out.write_all(events)?;
        self.blocks.push_back(self.bytes);
        self.bytes += events.len() as u64;
        if keep_bytes > 0 && self.bytes > keep_bytes.saturating_mul(2) {
            self.drop_oldest(path, keep_bytes)
        } else {
            Ok(())
        }
    }

    /// Rewrites the file without its oldest blocks.
    fn drop_oldest(&mut self, path: &Path, keep_bytes: u64) -> io::Result<()> {
        let first_wanted = self.bytes - keep_bytes;
        while self.blocks.get(1).is_some_and(|second| *second <= first_wanted) {
            self.blocks.pop_front();
        }
        let Some(first) = self.blocks.front().copied() else { return Ok(()) };
        let mut file = FileRule::up_to(u64::MAX).without_links().open(path)?;
        let mut kept = vec![0; HEADER_BYTES];
        file.read_exact(&mut kept)?;
        file.seek(SeekFrom::Start(first))?;
        file.read_to_end(&mut kept)?;
        // Under another name first: who is killed meanwhile leaves the old one.
        let part = path.with_extension("part");
        output_file::write_part(&part, &kept)?;
        fs::rename(&part, path)?;
        let dropped = first - HEADER_BYTES as u64;
        self.blocks.iter_mut().for_each(|block| *block -= dropped);
        self.bytes -= dropped;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_blocks_are_kept_behind_the_header() {
        let dir = std::env::temp_dir().join(format!("tally-thread-file-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("1-1-0.calls");
        let header = ThreadHeader { pid: 1, tid: 1, tsc: 2, monotonic_ns: 2, first: 0 };
        let mut file = ThreadFile::default();
        for block in 0..100u8 {
            file.append(&path, &header, &[block; 64], 512).unwrap();
            assert!(fs::metadata(&path).unwrap().len() <= 2 * 512);
        }
        let bytes = fs::read(&path).unwrap();
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(ThreadHeader::parse(&bytes), Some(header));
        let events = &bytes[HEADER_BYTES..];
        assert!(events.len() >= 512 && events.len().is_multiple_of(64));
        let first = 100 - events.len() / 64;
        assert!(events.chunks(64).zip(first..).all(|(block, number)| block == [number as u8; 64]));
    }
}
