//! The vdso: an ELF file that the kernel maps into every process and that is not in any folder.

use std::io::{Read, Seek, SeekFrom};

use crate::files::system_file;
use crate::{Bytes, Error, ObjectFile};

/// A vdso is two pages in practice; a mapping larger than this is not one.
const LIMIT: u64 = 1 << 20;

/// The vdso of this very process, which is that of every process of its width on this kernel.
pub fn own() -> Result<ObjectFile, Error> {
    let path = std::path::Path::new("/proc/self/maps");
    let io = |source| Error::Io { path: path.into(), source };
    let maps = system_file::read_text(path).map_err(io)?;
    let range = maps.lines().find(|l| l.ends_with("[vdso]")).and_then(|l| l.split_once(' '));
    let range = range.and_then(|(range, _)| range.split_once('-'));
    let parse = |s: &str| u64::from_str_radix(s, 16).ok();
    let (start, end) = range.and_then(|(a, b)| Some((parse(a)?, parse(b)?))).ok_or(Error::Elf("no vdso"))?;
    if end <= start || end - start > LIMIT {
        return Err(Error::Elf("vdso of an odd size"));
    }
    let mut bytes = vec![0; (end - start) as usize];
    let mut memory = system_file::open("/proc/self/mem").map_err(io)?;
    memory.seek(SeekFrom::Start(start)).and_then(|_| memory.read_exact(&mut bytes)).map_err(io)?;
    ObjectFile::parse(Bytes::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use crate::SymbolTable;
    use crate::kernel::vdso;

    #[test]
    fn our_vdso_has_clock_gettime() {
        let Ok(object) = vdso::own() else { return println!("skipped: no vdso here") };
        let table = SymbolTable::load(&object, None);
        assert!(table.iter().any(|s| s.name.contains("clock_gettime")), "{table:?}");
    }
}
