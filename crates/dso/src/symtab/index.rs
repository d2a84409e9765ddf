//! The on-disk symbol index: finished symbol tables, so that the second look at a large binary maps one file instead
//! of reading and sorting its symbols.
//!
//! One file per [`TableKey`], in the byte form of [`SymbolTable`]. The build-id alone isn't a key: anybody can
//! build a file with the build-id of another, so the files that the table was read from are part of it. Written
//! to a temporary file and renamed, so that readers see a whole file or none, whoever else runs. Bounded: when
//! a store makes the sum too large, the files not used for longest go. A damaged file is taken as absent.
//!
//! Only a folder that belongs to this user and that nobody else may enter is used. With `sudo` the home folder can be
//! another user's, who could put tables there for root to believe.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use crate::files::private_folder::PrivateFolder;
use crate::{BuildId, Bytes, FileIdentity, FileRule, MappedFile, ObjectFile, SymbolTable};

/// Default limit of the folder.
pub const DEFAULT_LIMIT_BYTES: u64 = 512 << 20;
/// Smaller tables are read from the object file faster than they are worth a file.
const WORTH_SYMBOLS: usize = 4096;
/// Part of the file name, raised when the byte form, the key or the choice of symbols changes.
const VERSION: &str = "4";
/// The end of the file names, without which no file is removed.
const ENDING: &str = ".sym";

/// Inputs of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableKey {
    /// `None` for files without one, such as Rust's own: their identity is enough.
    id: Option<BuildId>,
    /// The object file and its debug file; empty for the running kernel.
    files: Vec<FileIdentity>,
}

impl TableKey {
    /// For the table of an object file and its debug file. `None` for bytes that are in no file.
    pub fn of_object(object: &ObjectFile, debug: Option<&ObjectFile>) -> Option<Self> {
        let files = std::iter::once(object).chain(debug).map(ObjectFile::identity);
        Some(Self { id: object.build_id().cloned(), files: files.collect::<Option<_>>()? })
    }

    /// For the table of the running kernel, which has this build-id. Object files never share its key.
    pub fn of_running_kernel(id: &BuildId) -> Self {
        Self { id: Some(id.clone()), files: Vec::new() }
    }

    fn file_name(&self) -> String {
        let files: String = self.files.iter().map(|file| format!(".{file}")).collect();
        let id = self.id.as_ref().map_or_else(|| "no-id".to_owned(), ToString::to_string);
        format!("{id}{files}.{VERSION}{ENDING}")
    }
}

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

    /// The table with this key, `None` if it isn't here or is damaged. Marks it as used.
    pub fn load(&self, key: &TableKey) -> Option<SymbolTable> {
        let folder = PrivateFolder::open(&self.dir)?;
        let rule = FileRule::up_to(self.limit_bytes).without_links().owned_by(vec![folder.owner()]);
        let file = rule.open(&folder.path().join(key.file_name())).ok()?;
        let table = SymbolTable::from_bytes(Bytes::new(MappedFile::from_file(file.try_clone().ok()?).ok()?))?;
        // Only the owner may set times; for others the file just ages.
        let _ = file.set_modified(SystemTime::now());
        Some(table)
    }

    /// Keeps `table` if it is large enough. One of a stripped file, too: a debug file installed later makes another key.
    /// A failed write isn't an error: the next lookup is just slower. True if it is kept.
    pub fn store(&self, key: &TableKey, table: &SymbolTable) -> bool {
        let size = table.as_bytes().len() as u64;
        if table.len() < WORTH_SYMBOLS || size > self.limit_bytes / 2 {
            return false;
        }
        let Some(folder) = PrivateFolder::make(&self.dir) else { return false };
        make_room(&folder.path(), self.limit_bytes, size);
        write(&folder.path(), &key.file_name(), table.as_bytes()).is_ok()
    }
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let aside = folder.join(format!(".{}.{number}{ENDING}", std::process::id()));
    let made = std::fs::File::options().write(true).create_new(true).mode(0o600).open(&aside);
    let done = made.and_then(|mut file| file.write_all(bytes));
    let done = done.and_then(|()| std::fs::rename(&aside, folder.join(name)));
    if done.is_err() {
        let _ = std::fs::remove_file(&aside);
    }
    done
}

/// Removes the files unused for longest until `wanted` more bytes fit. Left-overs of killed writers are files like
/// others and age away.
fn make_room(folder: &Path, limit_bytes: u64, wanted: u64) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
        .flatten()
        .filter(|e| e.file_name().as_encoded_bytes().ends_with(ENDING.as_bytes()))
        .filter_map(|e| Some((e.metadata().ok().filter(|m| m.is_file())?, e.path())))
        .filter_map(|(m, path)| Some((m.modified().ok()?, m.len(), path)))
        .collect();
    files.sort();
    let mut total: u64 = files.iter().map(|f| f.1).sum::<u64>() + wanted;
    for (_, size, path) in files {
        if total <= limit_bytes {
            break;
        }
        if std::fs::remove_file(path).is_ok() {
            total -= size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symtab::{Binding, SymbolTableBuilder};
    use crate::{Svma, SymbolSource};
    use std::fs::File;

    fn table(n: u64) -> SymbolTable {
        table_from(SymbolSource::Symtab, n)
    }

    fn table_from(source: SymbolSource, n: u64) -> SymbolTable {
        let mut b = SymbolTableBuilder::new(source);
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

    fn id(n: u8) -> TableKey {
        TableKey::of_running_kernel(&BuildId::from_bytes(&[n; 20]).unwrap())
    }

    impl Folder {
        fn file(&self, key: &TableKey) -> PathBuf {
            self.0.join(key.file_name())
        }
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
        std::fs::write(folder.file(&id(1)), b"TALSYM02 damaged").unwrap();
        assert!(index.load(&id(1)).is_none());
    }

    #[test]
    fn the_exported_symbols_of_a_stripped_file_are_stored_as_well() {
        let folder = Folder::new("stripped");
        let index = SymbolIndex::new(&folder.0, 1 << 20);
        index.store(&id(1), &table_from(SymbolSource::Dynsym, 5000));
        assert_eq!(index.load(&id(1)).map(|table| table.source()), Some(SymbolSource::Dynsym));
    }

    #[test]
    fn the_longest_unused_goes_when_the_folder_is_full() {
        let folder = Folder::new("lru");
        let one = table(5000);
        let index = SymbolIndex::new(&folder.0, 3 * one.as_bytes().len() as u64);
        for n in 1..=3 {
            index.store(&id(n), &one);
            let old = SystemTime::now() - std::time::Duration::from_secs(100 - u64::from(n));
            File::open(folder.file(&id(n))).unwrap().set_modified(old).unwrap();
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
                scope.spawn(|| (0..8).for_each(|n| assert!(index.store(&id(n % 2), &one))));
            }
        });
        assert!(index.load(&id(0)).is_some() && index.load(&id(1)).is_some());
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 2);
    }

    #[test]
    fn a_file_with_the_build_id_of_another_has_a_key_of_its_own() {
        let folder = Folder::new("copied");
        std::fs::create_dir_all(&folder.0).unwrap();
        let copy = folder.0.join("copy");
        std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
        let open = |path: &Path| ObjectFile::open(path).unwrap();
        let (own, copied) = (open(&std::env::current_exe().unwrap()), open(&copy));
        let Some(key) = TableKey::of_object(&own, None) else { return println!("skipped: no build-id") };
        assert_eq!(own.build_id(), copied.build_id());
        let other = TableKey::of_object(&copied, None).unwrap();
        let index = SymbolIndex::new(&folder.0.join("index"), 1 << 30);
        index.store(&other, &table(5000));
        assert!(index.load(&other).is_some() && index.load(&key).is_none());
        let with_debug = TableKey::of_object(&own, Some(&copied)).unwrap();
        assert_ne!(with_debug.file_name(), key.file_name());
        assert!(with_debug.file_name().len() < 255);
        let kernel = TableKey::of_running_kernel(own.build_id().unwrap());
        assert_ne!(kernel.file_name(), key.file_name());
    }

    #[test]
    fn a_file_without_a_build_id_is_known_by_its_identity() {
        let folder = Folder::new("no-id");
        let own = ObjectFile::open(&std::env::current_exe().unwrap()).unwrap();
        let key = |file: &ObjectFile| TableKey { id: None, ..TableKey::of_object(file, None).unwrap() };
        let index = SymbolIndex::new(&folder.0, 1 << 20);
        index.store(&key(&own), &table(5000));
        assert!(index.load(&key(&own)).is_some() && index.load(&id(1)).is_none());
        assert!(key(&own).file_name().starts_with("no-id."));
    }

    #[test]
    fn a_folder_that_others_may_enter_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let folder = Folder::new("shared");
        let index = SymbolIndex::new(&folder.0, 1 << 20);
        index.store(&id(1), &table(5000));
        let set_mode = |mode| std::fs::set_permissions(&folder.0, std::fs::Permissions::from_mode(mode));
        set_mode(0o755).unwrap();
        index.store(&id(2), &table(5000));
        assert!(index.load(&id(1)).is_none());
        assert!(!folder.file(&id(2)).exists());
        set_mode(0o700).unwrap();
        assert!(index.load(&id(1)).is_some());
        std::fs::write(folder.0.join("not ours"), vec![0; 1 << 20]).unwrap();
        (2..9).for_each(|n| assert!(index.store(&id(n), &table(5000))));
        assert!(folder.0.join("not ours").exists());
    }

    #[test]
    fn a_link_in_the_place_of_the_folder_is_not_followed() {
        let (folder, link) = (Folder::new("target"), Folder::new("link"));
        let index = SymbolIndex::new(&folder.0, 1 << 20);
        index.store(&id(1), &table(5000));
        std::os::unix::fs::symlink(&folder.0, &link.0).unwrap();
        assert!(SymbolIndex::new(&link.0, 1 << 20).load(&id(1)).is_none());
        std::fs::remove_file(&link.0).unwrap();
    }
}
