//! The files of disk requests and the requests' parts, as they come from the kernel.

use perfdata::appendix::disk_files::{DiskFile, DiskFiles, FileOwner, RequestPart};
use rustc_hash::FxHashMap;

use super::layout::{DiskRecord, FileKey, PartRecord};
use super::paths::Mounts;

/// Parts kept, 48 bytes each.
const MOST_PARTS: usize = 2_000_000;
/// More than these, and old ones are forgotten where that is wanted.
const MANY_PARTS: usize = 65_536;
/// Files kept.
const MOST_FILES: usize = 200_000;

/// Files and parts so far.
#[derive(Debug, Default)]
pub(super) struct SeenFiles {
    names: FxHashMap<FileKey, String>,
    mounts: Mounts,
    index: FxHashMap<(u32, FileKey), u32>,
    files: Vec<DiskFile>,
    keys: Vec<FileKey>,
    pub parts: Vec<RequestPart>,
    pub lost: u64,
    /// Parts left when old ones were forgotten last.
    left: usize,
}

impl SeenFiles {
    pub fn take(&mut self, record: DiskRecord) {
        match record {
            DiskRecord::Name(name) => {
                if self.names.is_empty() {
                    self.mounts = Mounts::read();
                }
                self.names.insert(name.key, self.mounts.path(&name));
            }
            DiskRecord::Part(part) => self.take_part(&part),
        }
    }

    fn take_part(&mut self, part: &PartRecord) {
        if self.parts.len() >= MOST_PARTS || self.files.len() >= MOST_FILES {
            self.lost += 1;
            return;
        }
        let file = self.file_of(part);
        self.parts.push(RequestPart {
            time_ns: part.time_ns,
            sector: part.sector,
            device: part.device,
            bytes: part.bytes,
            file,
            tid: part.tid,
            by_kernel: part.by_kernel,
            is_direct: part.is_direct,
        });
    }

    /// Forgets requests older than this once there are many, and files that have no other. Names stay: the kernel sends
    /// each once.
    pub fn forget_old(&mut self, kept_ns: Option<u64>) {
        let (Some(kept_ns), Some(last)) = (kept_ns, self.parts.last()) else { return };
        if self.parts.len() < MANY_PARTS.max(self.left.saturating_mul(2)) {
            return;
        }
        let from_ns = last.time_ns.saturating_sub(kept_ns);
        self.parts.retain(|part| part.time_ns >= from_ns);
        let (files, keys) = (std::mem::take(&mut self.files), std::mem::take(&mut self.keys));
        let mut numbers: FxHashMap<u32, u32> = FxHashMap::default();
        for part in &mut self.parts {
            let old = part.file as usize;
            part.file = *numbers.entry(part.file).or_insert_with(|| {
                self.files.push(files[old].clone());
                self.keys.push(keys[old]);
                u32::try_from(self.files.len() - 1).unwrap_or(u32::MAX)
            });
        }
        self.index.retain(|_, file| {
            let kept = numbers.get(file);
            *file = kept.copied().unwrap_or_default();
            kept.is_some()
        });
        self.left = self.parts.len();
    }

    fn file_of(&mut self, part: &PartRecord) -> u32 {
        let next = u32::try_from(self.files.len()).unwrap_or(u32::MAX);
        *self.index.entry((part.owner, part.key)).or_insert_with(|| {
            self.files.push(DiskFile {
                owner: FileOwner::of_number(part.owner).unwrap_or(FileOwner::Buffers),
                device: part.key.device,
                inode: part.key.inode,
                is_deleted: part.is_deleted,
                path: String::new(),
            });
            self.keys.push(part.key);
            next
        })
    }

    /// Parts from this one on, with their files as far as these have names by now.
    pub fn since(&self, first: usize) -> DiskFiles {
        let mut files: Vec<DiskFile> = Vec::new();
        let mut index: FxHashMap<u32, u32> = FxHashMap::default();
        let mut parts = self.parts.get(first..).unwrap_or_default().to_vec();
        for part in &mut parts {
            let all = part.file as usize;
            part.file = *index.entry(part.file).or_insert_with(|| {
                let mut file = self.files[all].clone();
                if file.owner == FileOwner::File {
                    file.path = self.names.get(&self.keys[all]).cloned().unwrap_or_default();
                }
                files.push(file);
                u32::try_from(files.len() - 1).unwrap_or(u32::MAX)
            });
        }
        DiskFiles::new(files, parts, 0)
    }

    pub fn finish(self) -> DiskFiles {
        let Self { names, mut files, keys, parts, lost, .. } = self;
        for (file, key) in files.iter_mut().zip(&keys).filter(|(file, _)| file.owner == FileOwner::File) {
            file.path = names.get(key).cloned().unwrap_or_default();
        }
        DiskFiles::new(files, parts, lost)
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::NameRecord;
    use super::*;

    const KEY: FileKey = FileKey { inode: 7, device: 4_095 << 20 | 5, generation: 1 };

    fn part() -> PartRecord {
        PartRecord {
            owner: 1,
            time_ns: 50,
            sector: 8,
            device: 8 << 20,
            bytes: 4096,
            key: KEY,
            is_direct: false,
            by_kernel: false,
            is_deleted: false,
            tid: 3,
        }
    }

    #[test]
    fn old_requests_are_forgotten_and_the_others_keep_their_files() {
        let mut seen = SeenFiles::default();
        let mut of = |inode: u64, time_ns: u64| {
            let key = FileKey { inode, ..KEY };
            seen.take(DiskRecord::Part(PartRecord { key, time_ns, sector: time_ns, ..part() }));
        };
        (0..MANY_PARTS as u64).for_each(|time_ns| of(time_ns % 2 + 1, time_ns));
        let last_ns = MANY_PARTS as u64 + 200;
        of(2, last_ns - 100);
        of(3, last_ns);
        seen.take(DiskRecord::Name(NameRecord {
            key: FileKey { inode: 2, ..KEY },
            is_whole: true,
            path: "b".into(),
        }));
        seen.forget_old(None);
        assert_eq!(seen.parts.len(), MANY_PARTS + 2);
        seen.forget_old(Some(150));
        seen.take(DiskRecord::Part(PartRecord {
            key: FileKey { inode: 1, ..KEY },
            time_ns: last_ns,
            ..part()
        }));
        let files = seen.finish();
        let inode = |sector, time_ns| {
            let parts = files.parts_of(8 << 20, sector, time_ns);
            parts.first().map(|part| files.files[part.file as usize].inode)
        };
        assert_eq!(inode(last_ns - 100, last_ns - 100), Some(2));
        assert_eq!((inode(last_ns, last_ns), inode(8, last_ns)), (Some(3), Some(1)));
        assert_eq!((files.files.len(), files.files[0].path.as_str()), (3, "/b"));
        assert_eq!(inode(5, 5), None);
    }

    #[test]
    fn a_name_that_comes_after_its_requests_still_names_them() {
        let (key, part) = (KEY, part());
        let mut seen = SeenFiles::default();
        seen.take(DiskRecord::Part(part));
        seen.take(DiskRecord::Name(NameRecord { key, is_whole: true, path: "a/b".to_owned() }));
        seen.take(DiskRecord::Part(PartRecord { owner: 2, sector: 16, ..part }));
        let newest = seen.since(1);
        assert_eq!((newest.parts_of(8 << 20, 16, 50).len(), newest.parts_of(8 << 20, 8, 50).len()), (1, 0));
        assert_eq!(seen.since(0).files[0].path, "/a/b");
        let files = seen.finish();
        let path = |sector| {
            let part = files.parts_of(8 << 20, sector, 50).first().expect("a part");
            files.files[part.file as usize].path.as_str()
        };
        assert_eq!((path(8), path(16)), ("/a/b", ""));
    }
}
