//! Records of the BPF program: `bpf/disk_files_shared.h`.

/// One file's part of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartRecord {
    /// Number of the owner.
    pub owner: u32,
    /// When it went to the driver, CLOCK_MONOTONIC ns.
    pub time_ns: u64,
    /// First sector of the request, 512 bytes each.
    pub sector: u64,
    /// The disk, major × 2^20 + minor.
    pub device: u32,
    /// Bytes of the part.
    pub bytes: u32,
    /// Its file; zeros if there is none.
    pub key: FileKey,
    /// It went past the page cache.
    pub is_direct: bool,
    /// A kernel thread requested it.
    pub by_kernel: bool,
    /// The file has no link.
    pub is_deleted: bool,
    /// Thread that requested it, in our pid namespace.
    pub tid: u32,
}

/// Identity of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileKey {
    /// Inode.
    pub inode: u64,
    /// Device of the file system, major × 2^20 + minor.
    pub device: u32,
    /// Number of the inode's use.
    pub generation: u32,
}

/// Name of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameRecord {
    /// The file.
    pub key: FileKey,
    /// The name begins at the root of the file system.
    pub is_whole: bool,
    /// Path below the root: `usr/bin/ls`.
    pub path: String,
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskRecord {
    /// `REC_PART`.
    Part(PartRecord),
    /// `REC_NAME`.
    Name(NameRecord),
}

// Layout: struct disk_part, struct disk_name. Source: bpf/disk_files_shared.h
/// Reads one; `None` for bytes of another length or type.
#[must_use]
pub fn parse_record(bytes: &[u8]) -> Option<DiskRecord> {
    const NAME_AT: usize = 24;
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    match word(0)? {
        1 => {
            let flags = word(48)?;
            Some(DiskRecord::Part(PartRecord {
                owner: word(4)?,
                time_ns: long(8)?,
                sector: long(16)?,
                device: word(24)?,
                bytes: word(28)?,
                key: FileKey { inode: long(32)?, device: word(40)?, generation: word(44)? },
                is_direct: flags & 1 != 0,
                by_kernel: flags & 2 != 0,
                is_deleted: flags & 4 != 0,
                tid: word(56)?,
            }))
        }
        2 => {
            let key = FileKey { inode: long(8)?, device: word(4)?, generation: word(16)? };
            let parts = bytes.get(NAME_AT..)?.split(|byte| *byte == 0).filter(|part| !part.is_empty());
            let parts: Vec<String> = parts.map(|part| String::from_utf8_lossy(part).into_owned()).collect();
            let path = parts.into_iter().rev().collect::<Vec<_>>().join("/");
            Some(DiskRecord::Name(NameRecord { key, is_whole: word(20)? != 0, path }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_last_component_to_the_first() {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let mut bytes = words(&[2, 8 << 20]);
        bytes.extend(77u64.to_ne_bytes());
        bytes.extend(words(&[5, 1]));
        bytes.extend(b"ls\0bin\0usr\0");
        let Some(DiskRecord::Name(name)) = parse_record(&bytes) else { panic!("a name") };
        assert_eq!((name.path.as_str(), name.is_whole), ("usr/bin/ls", true));
        assert_eq!(name.key, FileKey { inode: 77, device: 8 << 20, generation: 5 });
        assert_eq!(parse_record(&bytes[..10]), None);
    }

    #[test]
    fn a_part_has_the_size_of_the_kernel_s_record() {
        let header = include_str!("../../../bpf/disk_files_shared.h");
        assert!(header.contains("goes to the driver. 64 bytes."));
        let mut bytes = vec![0u8; 64];
        bytes[0] = 1;
        bytes[48] = 3;
        bytes[56] = 9;
        let Some(DiskRecord::Part(part)) = parse_record(&bytes) else { panic!("a part") };
        assert!(part.is_direct && part.by_kernel && !part.is_deleted);
        assert_eq!(part.tid, 9);
        assert_eq!(parse_record(&bytes[..58]), None);
    }
}
