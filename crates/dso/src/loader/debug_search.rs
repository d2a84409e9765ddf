//! Finds the files that belong to an object file: its debug file, dwz's common part, cached copies.
//!
//! In order: `.build-id` folders of the debug directories, perf's build-id cache, the debug link next to the
//! file and under the debug directories, the distributions' path forms, debuginfod's cache. A file found by
//! build-id must have that build-id; one found by name must have it too, or the link's checksum.
//!
//! Anybody can build a file with the build-id of another, and recording it puts a copy into the cache of
//! whoever records. So a cached file is used only if it belongs to root, to this user, or to the owner of the
//! object file that it replaces. A copy of a file that is gone is also used if it was kept under the path in
//! the recording.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::elf::DebugLink;
use crate::{BuildId, Bytes, ObjectFile, OwnRights};

/// Larger files are not summed up to compare them with a link's checksum: reading them takes seconds.
const CHECKSUM_BYTES: u64 = 4 << 30;

/// Where to look.
#[derive(Clone, Debug)]
pub struct DebugSearch {
    /// Roots with `.build-id/` and mirrored paths, `/usr/lib/debug` by default.
    pub debug_dirs: Vec<PathBuf>,
    /// perf's build-id cache, `~/.debug` by default.
    pub build_id_cache: Option<PathBuf>,
    /// debuginfod's client cache, `~/.cache/debuginfod_client` by default.
    pub debuginfod_cache: Option<PathBuf>,
    /// Prefixed to every path of the recording (perf's `--symfs`).
    pub root: Option<PathBuf>,
    /// Where the kernel's names are to be taken from; `None` for the usual places.
    pub kernel: Option<KernelNames>,
    /// Debug files that came with the object file; nothing else is searched then.
    pub archived: Option<ArchivedDebugFiles>,
}

/// Debug files of one object file, from an archive.
#[derive(Clone, Debug, Default)]
pub struct ArchivedDebugFiles {
    /// With DWARF and full symbols.
    pub debug: Option<Bytes>,
    /// dwz's common part.
    pub common: Option<Bytes>,
}

/// A file that somebody named as the source of the kernel's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelNames {
    /// A text in the form of /proc/kallsyms; it has no build-id, so whoever names it answers for it.
    Kallsyms(PathBuf),
    /// An uncompressed kernel image with symbols (`vmlinux`); one of another build-id than recorded is refused.
    Image(PathBuf),
}

/// The build-id cache that perf's settings name, for all searches of this program.
static CONFIGURED_CACHE: OnceLock<PathBuf> = OnceLock::new();

/// Sets the build-id cache in place of `~/.debug`, for the rest of the program. `/dev/null` is none.
pub fn set_build_id_cache(folder: PathBuf) {
    // A second call in one process changes nothing.
    let _ = CONFIGURED_CACHE.set(folder);
}

/// The folder of [`set_build_id_cache`].
pub fn configured_build_id_cache() -> Option<PathBuf> {
    CONFIGURED_CACHE.get().cloned()
}

impl Default for DebugSearch {
    fn default() -> Self {
        Self {
            debug_dirs: vec!["/usr/lib/debug".into()],
            build_id_cache: None,
            debuginfod_cache: None,
            root: None,
            kernel: None,
            archived: None,
        }
    }
}

impl DebugSearch {
    /// The usual places of this user: reads `HOME`, `XDG_CACHE_HOME`, `DEBUGINFOD_CACHE_PATH` and
    /// `PERF_BUILDID_DIR`.
    pub fn from_env() -> Self {
        let var = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let home = var("HOME");
        let cache = var("XDG_CACHE_HOME").or_else(|| home.as_ref().map(|h| h.join(".cache")));
        Self {
            build_id_cache: var("PERF_BUILDID_DIR")
                .or_else(configured_build_id_cache)
                .or_else(|| home.as_ref().map(|h| h.join(".debug"))),
            debuginfod_cache: var("DEBUGINFOD_CACHE_PATH")
                .or_else(|| cache.map(|c| c.join("debuginfod_client"))),
            ..Self::default()
        }
    }

    /// `path` as seen under `root`.
    pub fn rooted(&self, path: &Path) -> PathBuf {
        match &self.root {
            Some(root) => root.join(path.strip_prefix("/").unwrap_or(path)),
            None => path.into(),
        }
    }

    /// A copy of the very file with this build-id, which was recorded at `path`: perf's cache, then debuginfod's.
    /// Used when the path of the recording is gone or holds another build.
    pub fn find_copy(&self, id: &BuildId, path: &Path) -> Option<ObjectFile> {
        let dir = self.in_build_id_cache(id);
        let is_of_path = dir.as_deref().and_then(cached_path).is_some_and(|kept| kept == path);
        let cached = dir.into_iter().flat_map(|dir| [dir.join("elf"), dir.join("vdso"), dir]);
        let fits = |p: PathBuf| open_matching(&p, id).filter(|copy| is_of_path || is_ours(copy, None));
        let fetched = self.debuginfod_cache.iter().map(|c| c.join(id.to_string()).join("executable"));
        cached.into_iter().find_map(fits).or_else(|| fetched.into_iter().find_map(|p| open_matching(&p, id)))
    }

    /// The copy of kallsyms that perf keeps for the kernel with this build-id.
    pub fn find_kallsyms(&self, id: &BuildId) -> Option<PathBuf> {
        let file = self.in_build_id_cache(id)?.join("kallsyms");
        file.is_file().then_some(file)
    }

    /// The file with DWARF and full symbols for `object`, `None` if it has them itself or none is found.
    pub fn find_debug(&self, object: &ObjectFile) -> Option<ObjectFile> {
        if object.has_dwarf() && object.has_symtab() {
            return None;
        }
        if let Some(archived) = &self.archived {
            return ObjectFile::parse(archived.debug.clone()?).ok();
        }
        let by_id = object
            .build_id()
            .and_then(|id| self.by_build_id(id).find_map(|p| useful(self.open_for(&p, id, object)?)));
        by_id
            .or_else(|| self.by_link(object))
            .or_else(|| self.by_path(object))
            .or_else(|| self.by_debuginfod(object))
    }

    /// dwz's common file for `file`, which has a `.gnu_debugaltlink`.
    pub fn find_alt(&self, file: &ObjectFile) -> Option<ObjectFile> {
        let link = file.alt_link()?;
        if let Some(archived) = &self.archived {
            return ObjectFile::parse(archived.common.clone()?).ok();
        }
        let beside = match (link.path.is_absolute(), file.path().and_then(Path::parent)) {
            (true, _) | (_, None) => self.rooted(&link.path),
            (false, Some(folder)) => folder.join(&link.path),
        };
        let named = ObjectFile::open(&beside).ok();
        let named = named.filter(|found| link.build_id.as_ref().is_none_or(|id| found.matches(id)));
        let by_id = || {
            let id = link.build_id.as_ref()?;
            self.by_build_id(id).find_map(|p| self.open_for(&p, id, file))
        };
        named.or_else(by_id)
    }

    fn by_build_id(&self, id: &BuildId) -> impl Iterator<Item = PathBuf> {
        let with_suffix = id.split_path().map(|split| {
            let mut name = split.into_os_string();
            name.push(".debug");
            name
        });
        let installed =
            self.debug_dirs.iter().filter_map(move |d| Some(d.join(".build-id").join(with_suffix.as_ref()?)));
        let cached = self.in_build_id_cache(id);
        installed.chain(cached.into_iter().flat_map(|dir| [dir.join("debug"), dir.join("elf")]))
    }

    /// A file that [`Self::by_build_id`] named, for `object`.
    fn open_for(&self, path: &Path, id: &BuildId, object: &ObjectFile) -> Option<ObjectFile> {
        let is_cached = self.build_id_cache.as_ref().is_some_and(|cache| path.starts_with(cache));
        open_matching(path, id).filter(|found| !is_cached || is_ours(found, object.owner()))
    }

    fn by_link(&self, object: &ObjectFile) -> Option<ObjectFile> {
        let link = object.debug_link()?;
        let path = std::fs::canonicalize(object.path()?).ok()?;
        let folder = path.parent()?;
        let below = folder.strip_prefix("/").unwrap_or(folder);
        let mut places = vec![folder.join(&link.name), folder.join(".debug").join(&link.name)];
        places.extend(self.debug_dirs.iter().map(|d| d.join(below).join(&link.name)));
        places.iter().filter(|p| **p != path).find_map(|p| useful(open_linked(p, object, &link)?))
    }

    /// /usr/lib/debug/PATH.debug (Fedora) and /usr/lib/debug/PATH (Ubuntu of old).
    fn by_path(&self, object: &ObjectFile) -> Option<ObjectFile> {
        let (id, path) = (object.build_id()?, object.path()?);
        let below = path.strip_prefix("/").ok()?;
        let mut suffixed = below.as_os_str().to_owned();
        suffixed.push(".debug");
        let places = self.debug_dirs.iter().flat_map(|d| [d.join(&suffixed), d.join(below)]);
        places.into_iter().find_map(|p| useful(open_matching(&p, id)?))
    }

    fn by_debuginfod(&self, object: &ObjectFile) -> Option<ObjectFile> {
        let (id, cache) = (object.build_id()?, self.debuginfod_cache.as_ref()?);
        useful(open_matching(&cache.join(id.to_string()).join("debuginfo"), id)?)
    }

    fn in_build_id_cache(&self, id: &BuildId) -> Option<PathBuf> {
        Some(self.build_id_cache.as_ref()?.join(".build-id").join(id.split_path()?))
    }
}

/// Whether `file` belongs to root, to this user, or to `owner`.
fn is_ours(file: &ObjectFile, owner: Option<u32>) -> bool {
    let own = OwnRights::read().map(|rights| rights.user);
    let by = file.owner();
    by.is_some() && [Some(0), own, owner].contains(&by)
}

/// The path of the file that a folder of the build-id cache was made for: `.build-id/ab/cd…` is a link to
/// `../../PATH/BUILDID`.
fn cached_path(dir: &Path) -> Option<PathBuf> {
    let target = std::fs::read_link(dir).ok()?;
    let inside = target.strip_prefix("../..").ok()?;
    Some(Path::new("/").join(inside.parent()?))
}

fn open_matching(path: &Path, id: &BuildId) -> Option<ObjectFile> {
    ObjectFile::open(path).ok().filter(|o| o.build_id().is_some_and(|own| own.same_as(id)))
}

fn open_linked(path: &Path, object: &ObjectFile, link: &DebugLink) -> Option<ObjectFile> {
    let found = ObjectFile::open(path).ok()?;
    let same = match (found.build_id(), object.build_id()) {
        (Some(a), Some(b)) => a.same_as(b),
        _ if found.bytes().len() as u64 > CHECKSUM_BYTES => false,
        _ => {
            let mut crc = flate2::Crc::new();
            crc.update(found.bytes());
            crc.sum() == link.crc
        }
    };
    same.then_some(found)
}

/// A debug file must bring something.
fn useful(file: ObjectFile) -> Option<ObjectFile> {
    (file.has_dwarf() || file.has_symtab()).then_some(file)
}
