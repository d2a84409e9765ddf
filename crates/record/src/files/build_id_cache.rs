//! `~/.debug`: a copy of every file seen, by build-id, so that a recording can be read after the next upgrade.
//!
//! The layout is perf's, and shared with it:
//! `.debug/.build-id/ab/cdef…` → `../../usr/bin/app/abcdef…`, a directory with the file as `elf` (the kernel's symbols
//! as `kallsyms`). Nothing here is worth failing a recording: what can't be kept is left out.
//!
//! Root keeps nothing in the home of another user, where links could lead it elsewhere (`sudo` with `HOME` kept).

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};

use dso::private_folder::is_led_by_others;
use dso::{BuildId, ObjectFile, OwnRights, system_file};

use crate::files::build_id_cache_limit;
use crate::files::features::SeenFiles;
use crate::machine::objects::SeenObject;
use crate::session::opts::KeepFiles;

/// Larger files are only linked, never copied.
const MAX_COPY_BYTES: u64 = 256 << 20;

/// Most disk space for the cache. Files that are linked cost nothing until the original is replaced.
const MAX_TOTAL_BYTES: u64 = 4 << 30;

/// Where the cache is: the folder of perf's settings or `$HOME/.debug`; `None` without one.
#[must_use]
pub fn default_root() -> Option<PathBuf> {
    if let Some(folder) = dso::configured_build_id_cache() {
        return Some(folder).filter(|folder| folder != Path::new("/dev/null"));
    }
    let home = std::env::var_os("HOME").filter(|h| !h.is_empty())?;
    Some(Path::new(&home).join(".debug"))
}

/// Keeps the files seen, or only `which` of them, and with the kernel among them the running kernel's symbols. How
/// many are new.
pub fn keep(root: &Path, seen: SeenFiles<'_>, which: KeepFiles) -> usize {
    if which == KeepFiles::None || is_led_by_others(root) {
        return 0;
    }
    let files = seen.objects.iter().filter(|object| {
        let path = object.path.as_deref().filter(|path| path.is_absolute());
        // In a container the same name may be another file here.
        let is_here = || {
            path.is_some_and(|p| dso::elf::read_build_id(p).is_some_and(|id| id.same_as(&object.build_id)))
        };
        path.is_some() && (which == KeepFiles::All || !is_here())
    });
    let kernel = dso::elf::kernel_build_id().filter(|_| seen.with_kernel && which == KeepFiles::All);
    let kernel = kernel.map(|id| {
        keep_one(root, Path::new("/[kernel.kallsyms]"), &id, "kallsyms", |to| {
            write_whole(to, &system_file::read("/proc/kallsyms")?, None)
        })
    });
    let files = files.filter_map(|object| {
        let path = object.path.as_deref()?;
        Some(keep_one(root, path, &object.build_id, "elf", |to| link_or_copy(object, path, to)))
    });
    let new = files.chain(kernel).filter(|kept| matches!(kept, Ok(true))).count();
    if new > 0 {
        build_id_cache_limit::make_room(root, MAX_TOTAL_BYTES);
    }
    new
}

/// A file in the cache.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CachedFile {
    /// Build-id, in hexadecimal.
    pub build_id: String,
    /// Path that it had when it was kept.
    pub path: PathBuf,
}

/// Content of the cache at `root`, by build-id.
#[must_use]
pub fn list(root: &Path) -> Vec<CachedFile> {
    let mut all = build_id_cache_limit::all_files(root);
    all.sort();
    all
}

/// Keeps this file; `false` if the cache has it already.
///
/// # Errors
/// It can't be read, has no build-id, or the cache can't be written.
pub fn add(root: &Path, path: &Path) -> io::Result<bool> {
    if is_led_by_others(root) {
        return Err(io::Error::other(format!("{} belongs to another user", root.display())));
    }
    let path = path.canonicalize()?;
    let file = ObjectFile::open(&path).map_err(io::Error::other)?;
    let Some(build_id) = file.build_id().cloned() else { return Err(io::Error::other("no build-id")) };
    let name = path.as_os_str().as_bytes().into();
    let object = SeenObject { name, build_id, path: Some(path.clone()), file: std::sync::Arc::new(file) };
    keep_one(root, &path, &object.build_id, "elf", |to| link_or_copy(&object, &path, to))
}

/// Removes what `is_it` selects from the cache, if it is ours; returns the removed ones, by build-id.
#[must_use]
pub fn remove(root: &Path, is_it: &dyn Fn(&CachedFile) -> bool) -> Vec<CachedFile> {
    if is_led_by_others(root) {
        return Vec::new();
    }
    let mut removed = build_id_cache_limit::remove_files(root, is_it);
    removed.sort();
    removed
}

/// Keeps one file, which `write` puts there; `false` if it was there already.
fn keep_one(
    root: &Path,
    path: &Path,
    id: &BuildId,
    kind: &str,
    write: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<bool> {
    let Some(split) = id.split_path() else { return Ok(false) };
    let link = root.join(".build-id").join(split);
    if link.symlink_metadata().is_ok() {
        return Ok(false);
    }
    let inside = path.strip_prefix("/").unwrap_or(path).join(id.to_string());
    let dir = root.join(&inside);
    fs::create_dir_all(&dir)?;
    let file = dir.join(kind);
    if !file.exists() {
        write(&file)?;
    }
    if let Some(parent) = link.parent() {
        fs::create_dir_all(parent)?;
    }
    symlink(Path::new("../..").join(inside), &link)?;
    Ok(true)
}

/// By its name, if that is the same file here and only root or this user can change it later, else from what we have
/// opened of it.
fn link_or_copy(object: &SeenObject, path: &Path, to: &Path) -> io::Result<()> {
    let rights = OwnRights::read();
    let is_ours =
        |file: &ObjectFile| file.owner() == Some(0) || file.owner() == rights.map(|rights| rights.user);
    let is_same = |file: &ObjectFile| file.build_id().is_some_and(|id| id.same_as(&object.build_id));
    if ObjectFile::open(path).is_ok_and(|file| is_same(&file) && is_ours(&file))
        && fs::hard_link(path, to).is_ok()
    {
        return Ok(());
    }
    let bytes = object.file.bytes();
    if bytes.len() as u64 > MAX_COPY_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    // Readers of root's cache have to know whose file it was: its build-id may be that of another. Anybody else
    // records the programs that they run themselves, and can give no file away.
    let gives = rights.is_none_or(|rights| rights.is_privileged) && !is_ours(&object.file);
    let owner = object.file.owner().filter(|_| gives);
    write_whole(to, bytes, owner)?;
    // Cut off meanwhile: the copy would be taken for the file of that build-id for ever.
    if !bytes.is_intact() {
        fs::remove_file(to)?;
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

/// Under its name only once it is whole, and belongs to `owner` if one is named.
fn write_whole(to: &Path, bytes: &[u8], owner: Option<u32>) -> io::Result<()> {
    let mut name = to.as_os_str().as_bytes().to_vec();
    name.extend(format!(".{}", std::process::id()).bytes());
    let partial = PathBuf::from(std::ffi::OsStr::from_bytes(&name));
    // Left by one that was killed and had our number.
    let _ = fs::remove_file(&partial);
    let done = File::options()
        .write(true)
        .create_new(true)
        .open(&partial)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| owner.map_or(Ok(()), |owner| chown(&partial, Some(owner), None)))
        .and_then(|()| fs::rename(&partial, to));
    if done.is_err() {
        let _ = fs::remove_file(&partial);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen_files(objects: &[SeenObject]) -> SeenFiles<'_> {
        SeenFiles { objects, with_kernel: false }
    }

    #[test]
    fn a_file_is_kept_once_and_found_by_its_build_id() {
        let root = std::env::temp_dir().join(format!("tally-debug-{}", std::process::id()));
        let sh = fs::canonicalize("/bin/sh").expect("every Linux has one");
        let Some(build_id) = dso::elf::read_build_id(&sh) else { return eprintln!("skipped: no build-id") };
        let file = std::sync::Arc::new(ObjectFile::open(&sh).expect("an object file"));
        let name: std::sync::Arc<[u8]> = sh.as_os_str().as_bytes().into();
        let mut seen = [SeenObject { name, build_id: build_id.clone(), path: Some(sh), file }];
        assert_eq!(keep(&root, seen_files(&seen), KeepFiles::Unreachable), 0);
        assert_eq!(keep(&root, seen_files(&seen), KeepFiles::All), 1);
        assert_eq!(keep(&root, seen_files(&seen), KeepFiles::All), 0);
        fs::remove_dir_all(&root).expect("ours");
        // As if it were in a container that is gone.
        seen[0].path = Some("/no/such/sh".into());
        assert_eq!(keep(&root, seen_files(&seen), KeepFiles::Unreachable), 1);
        let link = root.join(".build-id").join(build_id.split_path().expect("long enough"));
        let kept = dso::elf::read_build_id(&link.join("elf")).expect("readable through the link");
        assert!(kept.same_as(&build_id));
        fs::remove_dir_all(&root).expect("ours");
    }

    #[test]
    fn files_are_added_listed_and_removed() {
        let root = std::env::temp_dir().join(format!("tally-cache-edit-{}", std::process::id()));
        let sh = fs::canonicalize("/bin/sh").expect("every Linux has one");
        let Some(build_id) = dso::elf::read_build_id(&sh) else { return println!("skipped: no build-id") };
        assert!(add(&root, &sh).expect("a program") && !add(&root, &sh).expect("a program"));
        assert!(add(&root, Path::new("/etc/passwd")).is_err());
        let only = CachedFile { build_id: build_id.to_string(), path: sh };
        assert_eq!(list(&root), std::slice::from_ref(&only));
        assert!(remove(&root, &|file| file.path == Path::new("/no/such")).is_empty());
        assert_eq!(remove(&root, &|file| *file == only), std::slice::from_ref(&only));
        assert!(list(&root).is_empty() && add(&root, &only.path).expect("a program"));
        fs::remove_dir_all(&root).expect("ours");
    }

    #[test]
    fn root_keeps_nothing_in_the_home_of_another_user() {
        let home = std::env::temp_dir().join(format!("tally-their-home-{}", std::process::id()));
        fs::create_dir_all(home.join("elsewhere")).expect("ours");
        symlink(home.join("elsewhere"), home.join(".debug")).expect("ours");
        if std::os::unix::fs::lchown(&home, Some(65534), None).is_err() {
            fs::remove_dir_all(&home).expect("ours");
            return println!("skipped: only root can give files away");
        }
        assert_eq!(
            keep(&home.join(".debug"), SeenFiles { objects: &[], with_kernel: true }, KeepFiles::All),
            0
        );
        assert_eq!(fs::read_dir(home.join("elsewhere")).expect("ours").count(), 0);
        fs::remove_dir_all(&home).expect("ours");
    }

    #[test]
    fn another_users_file_is_copied_with_its_owner_and_not_linked() {
        use std::os::unix::fs::MetadataExt;
        let root = std::env::temp_dir().join(format!("tally-foreign-{}", std::process::id()));
        fs::create_dir_all(&root).expect("ours");
        let program = root.join("program");
        fs::copy("/proc/self/exe", &program).expect("ours");
        let Some(build_id) = dso::elf::read_build_id(&program) else {
            return println!("skipped: no build-id");
        };
        if chown(&program, Some(65534), None).is_err() {
            return println!("skipped: only root can give files away");
        }
        let file = std::sync::Arc::new(ObjectFile::open(&program).expect("an object file"));
        let name: std::sync::Arc<[u8]> = program.as_os_str().as_bytes().into();
        let seen = [SeenObject { name, build_id: build_id.clone(), path: Some(program.clone()), file }];
        assert_eq!(keep(&root.join("cache"), seen_files(&seen), KeepFiles::All), 1);
        let link = root.join("cache/.build-id").join(build_id.split_path().expect("long enough"));
        let kept = fs::metadata(link.join("elf")).expect("kept");
        assert_eq!(kept.uid(), 65534);
        assert_ne!(kept.ino(), fs::metadata(&program).expect("ours").ino());
        fs::remove_dir_all(&root).expect("ours");
    }
}
