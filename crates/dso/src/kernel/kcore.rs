//! The running kernel's memory, /proc/kcore: an ELF core file as large as the address space.
//
// Source: linux v6.18 fs/proc/kcore.c, get_kcore_size() and read_kcore_iter().

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};

use crate::files::system_file;
use crate::{Avma, Error};

/// Headers are read up to here; the kernel writes one program header for each stretch of memory.
const HEADER_BYTES: usize = 64 << 10;

/// An opened kcore. Addresses are those of the running kernel.
#[derive(Debug)]
pub struct Kcore {
    file: File,
    /// Addresses, and where in the file they begin; in the file's order.
    segments: Vec<(Range<u64>, u64)>,
}

impl Kcore {
    /// Opens the running kernel's.
    ///
    /// # Errors
    /// It is not there (`CONFIG_PROC_KCORE`), or not ours to read (it takes root).
    pub fn open() -> Result<Self, Error> {
        Self::open_at(Path::new("/proc/kcore"))
    }

    /// Opens a file of that form.
    ///
    /// # Errors
    /// It can't be read, or isn't a 64-bit ELF core file.
    pub fn open_at(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Io { path: path.to_owned(), source };
        let file = system_file::open(path).map_err(failed)?;
        let mut head = vec![0; HEADER_BYTES];
        let mut filled = 0;
        while let Some(rest) = head.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match file.read_at(rest, filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
        head.truncate(filled);
        let damaged = |_| Error::Elf("damaged headers of a core file");
        let elf = FileHeader64::<Endianness>::parse(head.as_slice()).map_err(damaged)?;
        let endian = elf.endian().map_err(damaged)?;
        let all = elf.program_headers(endian, head.as_slice()).map_err(damaged)?;
        let loaded = all.iter().filter(|h| h.p_type(endian) == elf::PT_LOAD);
        let segment = |h: &elf::ProgramHeader64<Endianness>| {
            let start = h.p_vaddr(endian);
            (start..start.saturating_add(h.p_memsz(endian)), h.p_offset(endian))
        };
        Ok(Self { segments: loaded.map(segment).collect(), file })
    }

    /// Up to `len` bytes from `start` on, fewer at the end of a stretch; `None` outside all, or where they can't be
    /// read.
    pub fn read(&self, start: Avma, len: usize) -> Option<Vec<u8>> {
        let (range, offset) = self.segments.iter().find(|(range, _)| range.contains(&start.0))?;
        let len = len.min(usize::try_from(range.end - start.0).unwrap_or(usize::MAX));
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, offset.checked_add(start.0 - range.start)?).ok()?;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A core file of one stretch of memory at `start`.
    fn core_file(start: u64, memory: &[u8]) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        let halves = |words: &[u16]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
        let longs = |words: &[u64]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
        file.extend(halves(&[4, 62, 1, 0]));
        file.extend(longs(&[0, 64, 0]));
        file.extend(halves(&[0, 0, 64, 56, 1, 0, 0, 0]));
        file.extend(halves(&[1, 0, 7, 0]));
        let len = memory.len() as u64;
        file.extend(longs(&[0x1000, start, 0, len, len, 0]));
        file.resize(0x1000, 0);
        file.extend_from_slice(memory);
        file
    }

    #[test]
    fn memory_is_read_by_the_kernels_addresses() {
        let path = std::env::temp_dir().join(format!("tally-kcore-{}", std::process::id()));
        std::fs::write(&path, core_file(0xffff_ffff_8100_0000, b"code of the kernel")).expect("written");
        let kcore = Kcore::open_at(&path).expect("a core file");
        assert_eq!(kcore.read(Avma(0xffff_ffff_8100_0008), 3).as_deref(), Some(&b"the"[..]));
        assert_eq!(kcore.read(Avma(0xffff_ffff_8100_000c), 99).as_deref(), Some(&b"kernel"[..]));
        assert_eq!(kcore.read(Avma(0x1000), 4), None);
        std::fs::write(&path, b"no core file").expect("written");
        assert!(Kcore::open_at(&path).is_err());
        std::fs::remove_file(&path).expect("removed");
    }
}
