//! The on-disk symbol index: finished symbol tables by build-id, so that the second look at a large binary
//! maps one file instead of reading and sorting its symbols.
//!
//! One file per build-id, in the byte form of [`SymbolTable`]. Written aside and renamed, so that readers see a
//! whole file or none, whoever else runs. Bounded: when a store makes the sum too large, the files not
//! used for longest go. A damaged file is taken as absent.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use crate::{BuildId, Bytes, Mmap, SymbolSource, SymbolTable};

/// What the folder may hold by default.
pub const DEFAULT_LIMIT_BYTES: u64 = 512 << 20;
/// Smaller tables are read from the object file faster than they are worth a file.
const WORTH_SYMBOLS: usize = 4096;
/// Part of the file name, raised when the byte form or the choice of symbols changes.
const VERSION: &str = "1";

/// A folder of symbol tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolIndex {
    dir: PathBuf,
    limit_bytes: u64,
}

impl SymbolIndex {
    /// In `dir`, which is made at the first store; holds at most `limit_bytes`.
    pub fn new(dir: &Path, limit_bytes: u64) -> Self {
        Self { dir: dir.into(), limit_bytes }
    }

    /// `$XDG_CACHE_HOME/tally/symbols`, else `~/.cache/tally/symbols`; `None` if `TALLY_CACHE` is `off` or
    /// there is no home.
    pub fn from_env() -> Option<Self> {
        let var = |name| std::env::var_os(name).filter(|v| !v.is_empty());
        if var("TALLY_CACHE").is_some_and(|v| v == "off" || v == "0") {
            return None;
        }
        let cache = var("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| var("HOME").map(|h| Path::new(&h).join(".cache")))?;
        Some(Self::new(&cache.join("tally").join("symbols"), DEFAULT_LIMIT_BYTES))
    }

    /// The table of the build, `None` if it isn't here or is damaged. Marks it as used.
    pub fn load(&self, id: &BuildId) -> Option<SymbolTable> {
        let file = std::fs::File::open(self.path(id)).ok()?;
        let table = SymbolTable::from_bytes(Bytes::new(Mmap::from_file(file.try_clone().ok()?).ok()?))?;
        // Only the owner may set times; for others the file just ages.
        let _ = file.set_modified(SystemTime::now());
        Some(table)
    }

    /// Keeps `table` if it is worth it: a large one, of a full symbol table (a poorer one could be bettered by a
    /// debug file installed later). Failing to write is no error: the next look is slower.
    pub fn store(&self, id: &BuildId, table: &SymbolTable) {
        let size = table.as_bytes().len() as u64;
        let is_full = matches!(table.source(), SymbolSource::Symtab | SymbolSource::Kallsyms);
        let worth = table.len() >= WORTH_SYMBOLS && is_full;
        if !worth || size > self.limit_bytes / 2 {
            return;
        }
        self.make_room(size);
        let _ = self.write(id, table.as_bytes());
    }

    fn path(&self, id: &BuildId) -> PathBuf {
        self.dir.join(format!("{id}.{VERSION}.sym"))
    }

    fn write(&self, id: &BuildId, bytes: &[u8]) -> std::io::Result<()> {
        use std::os::unix::fs::DirBuilderExt;
        static NEXT: AtomicU32 = AtomicU32::new(0);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        let aside = format!(".{id}.{}.{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let aside = self.dir.join(aside);
        let done = std::fs::write(&aside, bytes).and_then(|()| std::fs::rename(&aside, self.path(id)));
        if done.is_err() {
            let _ = std::fs::remove_file(&aside);
        }
        done
    }

    /// Removes the files unused for longest until `wanted` more bytes fit. Left-overs of killed writers are
    /// files like others and age away.
    fn make_room(&self, wanted: u64) {
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return };
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
            .flatten()
            .filter_map(|e| Some((e.metadata().ok().filter(|m| m.is_file())?, e.path())))
            .filter_map(|(m, path)| Some((m.modified().ok()?, m.len(), path)))
            .collect();
        files.sort();
        let mut total: u64 = files.iter().map(|f| f.1).sum::<u64>() + wanted;
        for (_, size, path) in files {
            if total <= self.limit_bytes {
                break;
            }
            if std::fs::remove_file(path).is_ok() {
                total -= size;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Svma;
    use crate::symtab::{Binding, SymbolTableBuilder};

    fn table(n: u64) -> SymbolTable {
        let mut b = SymbolTableBuilder::new(SymbolSource::Symtab);
        (0..n).for_each(|i| b.push(Svma(i * 16), 16, &format!("f{i}"), Binding::Global));
        b.build()
    }

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            Self(std::env::temp_dir().join(format!("tally-index-{name}-{}", std::process::id())))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn id(n: u8) -> BuildId {
        BuildId::from_bytes(&[n; 20]).unwrap()
    }

    #[test]
    fn a_stored_table_is_loaded_and_a_damaged_one_is_not() {
        let folder = Folder::new("load");
        let index = SymbolIndex::new(&folder.0, 1 << 20);
        assert!(index.load(&id(1)).is_none());
        index.store(&id(1), &table(5000));
        assert_eq!(index.load(&id(1)).unwrap().find(Svma(33)).unwrap().name, "f2");
        index.store(&id(2), &table(10));
        assert!(index.load(&id(2)).is_none(), "small tables are not worth a file");
        std::fs::write(index.path(&id(1)), b"TALSYM02 damaged").unwrap();
        assert!(index.load(&id(1)).is_none());
    }

    #[test]
    fn the_longest_unused_goes_when_the_folder_is_full() {
        let folder = Folder::new("lru");
        let one = table(5000);
        let index = SymbolIndex::new(&folder.0, 3 * one.as_bytes().len() as u64);
        for n in 1..=3 {
            index.store(&id(n), &one);
            let old = SystemTime::now() - std::time::Duration::from_secs(100 - u64::from(n));
            std::fs::File::open(index.path(&id(n))).unwrap().set_modified(old).unwrap();
        }
        assert!(index.load(&id(1)).is_some(), "marks it as used");
        index.store(&id(4), &one);
        assert_eq!([1, 2, 3, 4].map(|n| index.load(&id(n)).is_some()), [true, false, true, true]);
    }

    #[test]
    fn many_writers_leave_whole_files() {
        let folder = Folder::new("race");
        let (index, one) = (SymbolIndex::new(&folder.0, 64 << 20), table(5000));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..8).for_each(|n| index.store(&id(n % 2), &one)));
            }
        });
        assert!(index.load(&id(0)).is_some() && index.load(&id(1)).is_some());
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 2);
    }
}
