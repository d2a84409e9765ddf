//! Opens the files that processes have mapped, once each, while they can still be reached.
//!
//! A name in a mapping is what the *process* saw: it may be in a container, be deleted, or be a memfd. So the
//! process's own view is tried first (`/proc/PID/root`, `/proc/PID/map_files`), our own file system after that, and a
//! file with another build-id or inode than the mapping's is not taken for it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dso::unwind::UnwindInfo;
use dso::{BuildId, Bytes, MapLine, ObjectFile, system_file};
use perfdata::appendix::same_paths::{FileAtPath, SamePaths};
use rustc_hash::FxHashMap;

/// The identity of a mapped file, in addition to its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Identity {
    /// Build-id of the file.
    BuildId(BuildId),
    /// Inode number of the file (device numbers differ between file systems' views).
    Inode(u64),
    /// Nothing is known.
    Unknown,
}

/// A file mapping of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMapping {
    /// First address (Avma).
    pub start: u64,
    /// One past the last address (Avma).
    pub end: u64,
    /// Offset in the file, in bytes.
    pub pgoff: u64,
    /// The kernel's name for it.
    pub name: Arc<[u8]>,
    /// The identity that must match.
    pub identity: Identity,
}

impl FileMapping {
    /// A line of `/proc/PID/maps`.
    pub fn of_line(line: &MapLine) -> Self {
        Self {
            start: line.start,
            end: line.end,
            pgoff: line.pgoff,
            name: line.name.as_slice().into(),
            identity: Identity::Inode(line.inode),
        }
    }
}

/// A file's name and identity.
type Key = (Arc<[u8]>, Identity);

/// All files opened so far; lives as long as the recording.
#[derive(Debug, Default)]
pub struct Objects {
    known: FxHashMap<Key, Known>,
    /// Tables made since those that nobody uses were given back.
    made: usize,
}

#[derive(Debug)]
enum Known {
    Opened(Arc<UnwindInfo>),
    /// No process maps it any more: its unwind tables, up to tens of megabytes, were given back.
    Unused(Arc<ObjectFile>),
    /// Could not be opened this many times: the processes were gone, but a later one may still be alive.
    Failed(u32),
}

/// Number of tables that may be made before those of files that no process maps are freed.
const TABLES: usize = 64;

/// Attempts to open a file, each by another process that maps it.
const ATTEMPTS: u32 = 20;

/// One file that was mapped and could be opened.
#[derive(Debug, Clone)]
pub struct SeenObject {
    /// The kernel's name for it.
    pub name: Arc<[u8]>,
    /// Build-id, read from the file.
    pub build_id: BuildId,
    /// Path where the file was opened; `None` for the vdso.
    pub path: Option<PathBuf>,
    /// The file itself.
    pub file: Arc<ObjectFile>,
}

impl Objects {
    /// The file of a mapping of the first of `pids`, the others being its ancestors (which see the same files, if any
    /// of them lives longer); `None` if it can't be opened or isn't an object file.
    pub fn open(&mut self, pids: &[u32], mapping: &FileMapping) -> Option<Arc<UnwindInfo>> {
        let key = (mapping.name.clone(), mapping.identity.clone());
        let failed = match self.known.get(&key) {
            Some(Known::Opened(info)) => return Some(info.clone()),
            Some(Known::Failed(times)) if *times >= ATTEMPTS => return None,
            Some(Known::Failed(times)) => *times,
            Some(Known::Unused(file)) => {
                let info = UnwindInfo::new(file.clone());
                self.keep(key, &info);
                return Some(info);
            }
            None => 0,
        };
        let info = open_object(pids, mapping).map(|object| UnwindInfo::new(Arc::new(object)));
        match &info {
            Some(info) => self.keep(key, info),
            None => drop(self.known.insert(key, Known::Failed(failed + 1))),
        }
        info
    }

    fn keep(&mut self, key: Key, info: &Arc<UnwindInfo>) {
        if self.made == TABLES {
            self.give_back_unused();
        }
        self.made += 1;
        self.known.insert(key, Known::Opened(info.clone()));
    }

    /// A machine that builds programs runs new files all the time: only those that somebody maps keep their tables.
    fn give_back_unused(&mut self) {
        self.made = 0;
        for known in self.known.values_mut() {
            if let Known::Opened(info) = known
                && Arc::strong_count(info) == 1
            {
                *known = Known::Unused(info.object().clone());
            }
        }
    }

    /// Every opened file that has a build-id, in the order of names.
    #[must_use]
    pub fn seen(&self) -> Vec<SeenObject> {
        let mut all: Vec<SeenObject> = self
            .known
            .iter()
            .filter_map(|((name, _), info)| {
                let file = info.file()?.clone();
                let (path, build_id) = (file.path().map(Path::to_path_buf), file.build_id()?.clone());
                Some(SeenObject { name: name.clone(), build_id, path, file })
            })
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// The files whose path another file with another build-id has too: of containers, or replaced while recording.
    #[must_use]
    pub fn same_paths(&self) -> SamePaths {
        let mut by_path: FxHashMap<&[u8], Vec<FileAtPath>> = FxHashMap::default();
        for ((name, identity), known) in &self.known {
            let (Identity::Inode(inode), Some(id)) =
                (identity, known.file().and_then(|file| file.build_id()))
            else {
                continue;
            };
            let build_id = id.as_bytes().to_vec();
            by_path.entry(name).or_default().push(FileAtPath {
                path: name.to_vec(),
                inode: *inode,
                build_id,
            });
        }
        let are_several =
            |files: &Vec<FileAtPath>| files.iter().any(|file| file.build_id != files[0].build_id);
        SamePaths { files: by_path.into_values().filter(are_several).flatten().collect() }
    }
}

impl Known {
    fn file(&self) -> Option<&Arc<ObjectFile>> {
        match self {
            Self::Opened(info) => Some(info.object()),
            Self::Unused(file) => Some(file),
            Self::Failed(_) => None,
        }
    }
}

/// The file of a mapping, if it can be opened and is the one that was mapped.
pub(crate) fn open_object(pids: &[u32], mapping: &FileMapping) -> Option<ObjectFile> {
    if &*mapping.name == b"[vdso]" {
        return open_vdso(pids.first().copied()?, mapping);
    }
    let name = Path::new(OsStr::from_bytes(&mapping.name));
    candidates(pids, mapping).into_iter().find_map(|path| {
        let file = dso::elf::file_rule().open(&path).ok()?;
        let meta = file.metadata().ok()?;
        if matches!(mapping.identity, Identity::Inode(inode) if inode != 0 && inode != meta.ino()) {
            return None;
        }
        let shown = if path.starts_with("/proc") { name } else { &path };
        let object = ObjectFile::from_file(file, shown).ok()?;
        match (&mapping.identity, object.build_id()) {
            (Identity::BuildId(wanted), Some(found)) if !wanted.same_as(found) => None,
            _ => Some(object),
        }
    })
}

/// Where the file may be, best first.
fn candidates(pids: &[u32], mapping: &FileMapping) -> Vec<PathBuf> {
    let pid = pids.first().copied().unwrap_or_default();
    let by_range = PathBuf::from(format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end));
    let plain = OsStr::from_bytes(&mapping.name);
    let gone = mapping.name.ends_with(b" (deleted)") || mapping.name.starts_with(b"/memfd:");
    if gone {
        return vec![by_range];
    }
    let inside = Path::new(plain).strip_prefix("/").unwrap_or(Path::new(plain));
    let in_roots = pids.iter().map(|pid| PathBuf::from(format!("/proc/{pid}/root")).join(inside));
    in_roots.chain([PathBuf::from(plain), by_range]).collect()
}

/// The vdso from the process's memory, else in ours (the same for all of one word size).
fn open_vdso(pid: u32, mapping: &FileMapping) -> Option<ObjectFile> {
    use std::os::unix::fs::FileExt;
    let len = usize::try_from(mapping.end - mapping.start).ok().filter(|&l| l <= 1 << 20)?;
    let mut bytes = vec![0; len];
    let read = system_file::open(format!("/proc/{pid}/mem"))
        .and_then(|m| m.read_exact_at(&mut bytes, mapping.start));
    if read.is_err() {
        let ours =
            crate::machine::proc::maps(std::process::id())?.into_iter().find(|m| m.name == b"[vdso]")?;
        system_file::open("/proc/self/mem").and_then(|m| m.read_exact_at(&mut bytes, ours.start)).ok()?;
    }
    ObjectFile::parse(Bytes::from_vec(bytes)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_files_that_nobody_maps_are_given_back_and_the_files_are_still_listed() {
        let folder = crate::files::scratch::ScratchFolder::private("test").expect("a place");
        let mut objects = Objects::default();
        let mut open = |name: usize| {
            let path = folder.path().join(name.to_string());
            let _ = std::os::unix::fs::symlink("/bin/true", &path);
            let name = path.as_os_str().as_bytes().into();
            let mapping = FileMapping { start: 0, end: 4096, pgoff: 0, name, identity: Identity::Unknown };
            objects.open(&[std::process::id()], &mapping).map(|info| (Arc::downgrade(&info), info))
        };
        let Some((_, mapped)) = open(0) else { return println!("skipped: no /bin/true that can be read") };
        let weak: Vec<_> = (1..=TABLES).map(|name| open(name).expect("opened like the first").0).collect();
        assert_eq!(weak.iter().filter(|info| info.strong_count() > 0).count(), 1, "the last one only");
        let again = open(0).expect("known").1;
        assert!(Arc::ptr_eq(&mapped, &again), "somebody maps it");
        assert!(open(1).is_some(), "opened again");
        assert_eq!(objects.seen().len(), TABLES + 1);
    }
}
