//! Parts of the program that it seldom needs: build scripts compress them.

use std::io::{self, Read};

use flate2::read::DeflateDecoder;

/// Compressed content: deflate without a header.
#[derive(Debug, Clone, Copy)]
pub struct PackedBytes(pub &'static [u8]);

impl PackedBytes {
    /// True where the build had nothing to compress.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The content itself.
    ///
    /// # Errors
    /// The program's file is damaged.
    pub fn unpacked(self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        DeflateDecoder::new(self.0).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bpf_object_is_the_committed_one() {
        const OBJECT: PackedBytes =
            PackedBytes(include_bytes!(concat!(env!("OUT_DIR"), "/syscalls.bpf.o.deflate")));
        let committed = std::fs::read("bpf/syscalls.bpf.o").expect("next to the sources");
        assert!(OBJECT.0.len() < committed.len() / 2);
        assert_eq!(OBJECT.unpacked().expect("whole"), committed);
    }

    #[test]
    fn a_damaged_part_is_an_error() {
        assert!(PackedBytes(&[0xff; 8]).unpacked().is_err());
    }
}
