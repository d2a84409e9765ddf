//! The tracer: the shared object that is preloaded into programs, and where it is for the loader to find it.

use ::record::packed::PackedBytes;
use ::record::scratch::{self, PlaceRule, ScratchFolder};
use ::record::sys::mem;
use anyhow::Context;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::own_folder;
use calls::instrumented::sleds::Instrumented;

/// As the build script made it; empty where it has no hooks for the processor.
const LIBRARY: PackedBytes =
    PackedBytes(include_bytes!(concat!(env!("OUT_DIR"), "/libtally_calls.so.deflate")));

/// The tracer in a file.
pub struct PreloadedTracer {
    path: PathBuf,
    place: TracerFolder,
}

/// The tracer's folder.
enum TracerFolder {
    /// The recording's own, which others may search as long as this lives.
    Recording(PathBuf),
    /// Made only for it, and removed with it.
    Apart(ScratchFolder),
}

impl PreloadedTracer {
    /// Whether there is one for this processor.
    #[must_use]
    pub fn is_there() -> bool {
        !LIBRARY.is_empty()
    }

    /// Writes it into the recording's folder `dir` (absolute, without links), or into a temporary one that goes with
    /// this value: if the loader can't read the folder's name in a list, and if another user could put a library of
    /// his own in its place, which would then run as us.
    ///
    /// # Errors
    /// If it can't be written, or there is no folder that the loader can read.
    pub fn write(dir: &Path) -> anyhow::Result<Self> {
        let is_fit = can_be_listed(dir) && scratch::unguarded_part(dir).is_none();
        let place = if is_fit {
            TracerFolder::Recording(dir.to_owned())
        } else {
            TracerFolder::Apart(folder_apart(dir)?)
        };
        let path = place.path().join(own_folder::TRACER_FILE);
        write_for_all(&path).with_context(|| format!("can't write {}", path.display()))?;
        if let TracerFolder::Recording(dir) = &place {
            own_folder::set_searchable(dir, true).with_context(|| format!("can't open {}", dir.display()))?;
        }
        Ok(Self { path, place })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Environment of the program: the tracer is preloaded before whatever is preloaded already; and the
    /// address sanitizer's library, if the program needs that, takes it that it then does not come first.
    #[must_use]
    pub fn environment(&self, found: &Instrumented) -> Vec<(&'static str, OsString)> {
        const UNORDERED: &str = "verify_asan_link_order=0";
        let mut all =
            vec![("LD_PRELOAD", joined(Some(self.path.clone().into()), std::env::var_os("LD_PRELOAD")))];
        if found.needs_asan {
            all.push(("ASAN_OPTIONS", joined(std::env::var_os("ASAN_OPTIONS"), Some(UNORDERED.into()))));
        }
        all
    }
}

/// Two lists joined into one.
fn joined(first: Option<OsString>, second: Option<OsString>) -> OsString {
    let lists: Vec<OsString> =
        [first, second].into_iter().flatten().filter(|list| !list.is_empty()).collect();
    lists.join(OsStr::new(":"))
}

impl TracerFolder {
    fn path(&self) -> &Path {
        match self {
            Self::Recording(dir) => dir,
            Self::Apart(folder) => folder.path(),
        }
    }
}

impl Drop for PreloadedTracer {
    fn drop(&mut self) {
        if let TracerFolder::Recording(dir) = &self.place {
            // The recording there is its owner's alone, whether it succeeds or not.
            let _ = own_folder::set_searchable(dir, false);
        }
    }
}

/// A temporary folder from which the loader takes the tracer of `dir`.
fn folder_apart(dir: &Path) -> anyhow::Result<ScratchFolder> {
    let rule = PlaceRule {
        fits: |parent| can_be_listed(parent) && mem::may_hold_code(parent),
        wanted: "without space, `:` and `$` in its name and mounted without noexec",
    };
    ScratchFolder::for_programs("recorder", rule).with_context(|| {
        format!("the tracer can't be loaded from {}, so choose another folder with -o", dir.display())
    })
}

/// Writes the library as a new file, readable whoever the program is when it is loaded.
fn write_for_all(path: &Path) -> io::Result<()> {
    let mut file = fs::File::options().write(true).create_new(true).open(path)?;
    file.write_all(&LIBRARY.unpacked()?)?;
    file.set_permissions(fs::Permissions::from_mode(0o644))
}

/// Whether a path may be in `LD_PRELOAD`.
// Source: glibc elf/rtld.c, handle_preload_list() splits at " :"; elf/dl-load.c expands `$`.
fn can_be_listed(path: &Path) -> bool {
    !path.as_os_str().as_bytes().iter().any(|byte| b" :$".contains(byte))
}
