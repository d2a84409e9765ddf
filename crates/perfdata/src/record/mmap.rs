//! `PERF_RECORD_MMAP` and `PERF_RECORD_MMAP2`.
//
// Layout: MMAP  { u32 pid, tid; u64 addr, len, pgoff; char filename[]; }
//         MMAP2 { u32 pid, tid; u64 addr, len, pgoff;
//                 union { { u32 maj, min; u64 ino, ino_generation; }
//                         { u8 build_id_size; u8 reserved[3]; u8 build_id[20]; } };
//                 u32 prot, flags; char filename[]; }
// Source: linux v7.2 kernel/events/core.c, perf_event_mmap_output().

use super::Header;
use crate::abi::*;
use crate::addr::Avma;
use crate::sample::CpuMode;
use crate::wire::{Put, Wire};

/// An address range of a process got a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mmap<'a> {
    /// Process; 0xffff_ffff (-1) for the kernel's own ranges.
    pub pid: u32,
    /// Thread that mapped; 0 for the kernel's.
    pub tid: u32,
    /// First address.
    pub addr: Avma,
    /// Bytes.
    pub len: u64,
    /// Offset into the file in **bytes** (for `[kernel.kallsyms]`: the address of its reference symbol).
    pub pgoff: u64,
    /// Path, or `[vdso]`, `//anon`, `[kernel.kallsyms]_text`, …
    pub filename: &'a [u8],
    /// Identity of the file.
    pub file_id: FileId<'a>,
    /// `PROT_*` and `MAP_*`; `None` in the older `MMAP`.
    pub prot_flags: Option<(u32, u32)>,
    /// Owner of the range: kernel, user, guest …
    pub cpu_mode: CpuMode,
    /// A mapping that was not executable.
    pub is_data: bool,
    /// perf gave up reading /proc/PID/maps here: mappings of the process are missing.
    pub parse_timeout: bool,
}

/// Identity of a mapped file in addition to its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileId<'a> {
    /// `MMAP` records have no identity.
    #[default]
    None,
    /// Device and inode.
    Inode {
        /// Device, major.
        major: u32,
        /// Device, minor.
        minor: u32,
        /// Inode.
        inode: u64,
        /// Generation.
        generation: u64,
    },
    /// The build-id, at most 20 bytes.
    BuildId(&'a [u8]),
}

impl<'a> Mmap<'a> {
    pub(super) fn parse(header: Header, w: &mut Wire<'a>) -> Option<Self> {
        let (pid, tid) = (w.u32()?, w.u32()?);
        let (addr, len, pgoff) = (Avma(w.u64()?), w.u64()?, w.u64()?);
        let (mut file_id, mut prot_flags) = (FileId::None, None);
        if header.type_ == PERF_RECORD_MMAP2 {
            file_id = parse_file_id(header.misc, w)?;
            prot_flags = Some((w.u32()?, w.u32()?));
        }
        Some(Mmap {
            pid,
            tid,
            addr,
            len,
            pgoff,
            filename: w.cstr(w.len() as u64)?,
            file_id,
            prot_flags,
            cpu_mode: CpuMode::from_misc(header.misc),
            is_data: header.misc & PERF_RECORD_MISC_MMAP_DATA != 0,
            parse_timeout: header.misc & PERF_RECORD_MISC_PROC_MAP_PARSE_TIMEOUT != 0,
        })
    }

    pub(crate) fn type_and_misc(&self) -> (u32, u16) {
        let bit = |on: bool, bit: u16| if on { bit } else { 0 };
        let misc = self.cpu_mode.to_misc()
            | bit(self.is_data, PERF_RECORD_MISC_MMAP_DATA)
            | bit(self.parse_timeout, PERF_RECORD_MISC_PROC_MAP_PARSE_TIMEOUT)
            | bit(matches!(self.file_id, FileId::BuildId(_)), PERF_RECORD_MISC_MMAP_BUILD_ID);
        let old = self.prot_flags.is_none() && self.file_id == FileId::None;
        (if old { PERF_RECORD_MMAP } else { PERF_RECORD_MMAP2 }, misc)
    }

    pub(super) fn write(&self, p: &mut Put) {
        p.u32(self.pid);
        p.u32(self.tid);
        p.u64(self.addr.0);
        p.u64(self.len);
        p.u64(self.pgoff);
        if self.type_and_misc().0 == PERF_RECORD_MMAP2 {
            write_file_id(&self.file_id, p);
            let (prot, flags) = self.prot_flags.unwrap_or_default();
            p.u32(prot);
            p.u32(flags);
        }
        p.cstr_padded(self.filename);
    }
}

/// Identity of the file. While another event on the machine wants build-ids, kernels set the bit for them in the
/// records of events that don't, too, whose bytes are the file's place all the same: what can be no build-id is that.
// Source: linux v6.18 kernel/events/core.c, perf_event_mmap_output(): the bit set for one event stays in the header for
// the events after it; a build-id's unused bytes are zero.
fn parse_file_id<'a>(misc: u16, w: &mut Wire<'a>) -> Option<FileId<'a>> {
    let mut as_build_id = *w;
    let place = FileId::Inode { major: w.u32()?, minor: w.u32()?, inode: w.u64()?, generation: w.u64()? };
    if misc & PERF_RECORD_MISC_MMAP_BUILD_ID == 0 {
        return Some(place);
    }
    let size = usize::from(as_build_id.u8()?);
    let reserved = as_build_id.take(3)?;
    let (id, unused) = as_build_id.take(20)?.split_at_checked(size).unwrap_or_default();
    let is_build_id = !id.is_empty() && reserved.iter().chain(unused).all(|&byte| byte == 0);
    Some(if is_build_id { FileId::BuildId(id) } else { place })
}

fn write_file_id(file_id: &FileId<'_>, p: &mut Put) {
    match *file_id {
        FileId::None => p.raw(&[0; 24]),
        FileId::Inode { major, minor, inode, generation } => {
            p.u32(major);
            p.u32(minor);
            p.u64(inode);
            p.u64(generation);
        }
        FileId::BuildId(id) => {
            let id = id.get(..20).unwrap_or(id);
            p.raw(&[u8::try_from(id.len()).unwrap_or(20), 0, 0, 0]);
            p.raw(id);
            p.bytes.resize(p.bytes.len() + (20 - id.len()), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_id(bytes: &[u8; 24]) -> FileId<'_> {
        let mut wire = Wire::new(bytes, crate::Endian::Little);
        parse_file_id(PERF_RECORD_MISC_MMAP_BUILD_ID, &mut wire).expect("24 bytes")
    }

    #[test]
    fn a_place_that_is_called_a_build_id_stays_a_place() {
        let mut bytes = [0; 24];
        bytes[..4].copy_from_slice(&[8, 0, 0, 0]); // /dev/sda1
        bytes[4] = 1;
        bytes[8] = 77;
        bytes[16..20].copy_from_slice(&[1, 2, 3, 4]);
        let place = FileId::Inode { major: 8, minor: 1, inode: 77, generation: 0x0403_0201 };
        assert_eq!(file_id(&bytes), place);
        bytes[0] = 254;
        assert!(matches!(file_id(&bytes), FileId::Inode { major: 254, .. }));
    }

    #[test]
    fn build_ids_are_shorter_or_as_long_as_their_room() {
        for size in [8, 16, 20] {
            let mut bytes = [0; 24];
            bytes[0] = size;
            bytes[4..4 + usize::from(size)].fill(7);
            assert_eq!(file_id(&bytes), FileId::BuildId(&[7; 20][..usize::from(size)]));
        }
    }
}
