//! The most that the build-id cache may take of the disk: what was kept first goes first.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::build_id_cache::CachedFile;

/// Unit of `st_blocks`, whatever the file system's own is.
const BLOCK_BYTES: u64 = 512;

/// A build-id with a folder in the cache.
#[derive(Debug)]
struct KeptFile {
    kept: SystemTime,
    /// Disk space that removing it frees.
    bytes: u64,
    link: PathBuf,
    folder: PathBuf,
}

/// Removes entries of the cache at `root`, oldest first, until all of them take at most `most_bytes`. Files that have a
/// name elsewhere take nothing, so they stay.
pub fn make_room(root: &Path, most_bytes: u64) {
    let Ok(root) = root.canonicalize() else { return };
    let mut all = kept_files(&root);
    all.sort_by_key(|entry| entry.kept);
    let mut total: u64 = all.iter().map(|entry| entry.bytes).sum();
    for entry in all.iter().filter(|entry| entry.bytes > 0) {
        if total <= most_bytes {
            break;
        }
        if remove(entry, &root) {
            total -= entry.bytes;
        }
    }
}

/// Every file of the cache at `root`, which is canonical, with its folder and link.
fn described(root: &Path) -> Vec<(CachedFile, KeptFile)> {
    let of = |kept: KeptFile| {
        let id = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
        let build_id = id(kept.link.parent()?)? + &id(&kept.link)?;
        let path = Path::new("/").join(kept.folder.parent()?.strip_prefix(root).ok()?);
        Some((CachedFile { build_id, path }, kept))
    };
    kept_files(root).into_iter().filter_map(of).collect()
}

/// Content of the cache at `root`, in no order.
pub fn all_files(root: &Path) -> Vec<CachedFile> {
    let Ok(root) = root.canonicalize() else { return Vec::new() };
    described(&root).into_iter().map(|(file, _)| file).collect()
}

/// Removes what `is_it` selects; returns the removed ones, in no order.
pub fn remove_files(root: &Path, is_it: &dyn Fn(&CachedFile) -> bool) -> Vec<CachedFile> {
    let Ok(root) = root.canonicalize() else { return Vec::new() };
    let selected = described(&root).into_iter().filter(|(file, _)| is_it(file));
    selected.filter(|(_, kept)| remove(kept, &root)).map(|(file, _)| file).collect()
}

fn kept_files(root: &Path) -> Vec<KeptFile> {
    let list = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let links = list(&root.join(".build-id")).flat_map(|part| list(&part).collect::<Vec<_>>());
    links.filter_map(|link| kept_file(link, root)).collect()
}

/// `None` for a link that leads out of the cache.
fn kept_file(link: PathBuf, root: &Path) -> Option<KeptFile> {
    let folder = link.canonicalize().ok().filter(|folder| folder.starts_with(root))?;
    let kept = folder.metadata().ok().filter(fs::Metadata::is_dir)?.modified().ok()?;
    let files = fs::read_dir(&folder).ok()?.flatten().filter_map(|file| file.metadata().ok());
    let bytes =
        files.filter(|file| file.is_file() && file.nlink() == 1).map(|file| file.blocks() * BLOCK_BYTES);
    Some(KeptFile { kept, bytes: bytes.sum(), link, folder })
}

/// Removes the files, the link to them, and the folders that are empty then.
fn remove(entry: &KeptFile, root: &Path) -> bool {
    let files = fs::read_dir(&entry.folder).into_iter().flatten().flatten();
    files.for_each(|file| drop(fs::remove_file(file.path())));
    if fs::remove_dir(&entry.folder).is_err() {
        return false;
    }
    let _ = fs::remove_file(&entry.link);
    for above in [&entry.folder, &entry.link] {
        let inside = above.ancestors().skip(1).take_while(|folder| *folder != root);
        // The first that holds something else ends it.
        let _ = inside.map(fs::remove_dir).take_while(Result::is_ok).count();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::scratch::ScratchFolder;
    use std::fs::FileTimes;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    /// Keeps a file of a megabyte as the cache does; `age` counts from the first.
    fn add(root: &Path, name: &str, age: u64) -> PathBuf {
        let folder = root.join("usr/bin").join(name).join("abcdef");
        fs::create_dir_all(&folder).expect("ours");
        fs::create_dir_all(root.join(".build-id").join(name)).expect("ours");
        fs::write(folder.join("elf"), vec![1; 1 << 20]).expect("room");
        symlink(&folder, root.join(".build-id").join(name).join("cdef")).expect("ours");
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + age);
        let times = FileTimes::new().set_modified(time);
        fs::File::open(&folder).and_then(|dir| dir.set_times(times)).expect("ours");
        folder
    }

    #[test]
    fn the_oldest_files_go_and_links_to_files_that_live_elsewhere_stay() {
        let room = ScratchFolder::private("test").expect("a place");
        let root = room.path().join("debug");
        let linked = add(&root, "a0", 0);
        fs::hard_link(linked.join("elf"), room.path().join("program")).expect("ours");
        let (old, new) = (add(&root, "b0", 1), add(&root, "c0", 2));
        fs::create_dir(room.path().join("victim")).expect("ours");
        fs::write(room.path().join("victim/elf"), "precious").expect("ours");
        symlink(room.path().join("victim"), root.join(".build-id/out")).expect("ours");
        make_room(&root, 3 << 19);
        assert!(linked.join("elf").exists() && new.join("elf").exists() && !old.exists());
        assert!(!root.join(".build-id/b0").exists() && !root.join("usr/bin/b0").exists());
        make_room(&root, 0);
        assert!(linked.join("elf").exists() && !root.join("usr/bin/c0").exists());
        assert!(room.path().join("victim/elf").exists());
    }
}
