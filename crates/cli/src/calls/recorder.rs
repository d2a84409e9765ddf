//! The recorder: the shared object that is preloaded into programs, and where it lies for the loader to find it.

use anyhow::{Context, bail};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::sleds::Instrumented;

/// As the build script made it; empty where it has no hooks for the processor.
const BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libtally_calls.so"));
/// Its file's name, by which it is known among what a process has mapped.
pub const NAME: &str = "libtally_calls.so";

/// The recorder in a file.
pub struct Recorder {
    path: PathBuf,
    /// Made only for it, and to be removed.
    apart: Option<PathBuf>,
}

impl Recorder {
    /// Whether there is one for this processor.
    #[must_use]
    pub fn is_there() -> bool {
        !BYTES.is_empty()
    }

    /// Writes it into the recording's folder; where the loader could not read that folder's name in a list, into one of
    /// its own, which goes with this value.
    ///
    /// # Errors
    /// If it can't be written, or there is no folder that the loader can read.
    pub fn write(dir: &Path) -> anyhow::Result<Self> {
        let apart = (!can_be_listed(dir))
            .then(|| std::env::temp_dir().join(format!("tally-recorder-{}", std::process::id())));
        if let Some(apart) = &apart {
            if !can_be_listed(apart) {
                bail!(
                    "{}: the loader takes no folder with a space, `:` or `$` in its name, nor does it {} (TMPDIR); choose \
                     another with -o",
                    dir.display(),
                    apart.display()
                );
            }
            fs::create_dir_all(apart)
                .with_context(|| format!("can't make the folder {}", apart.display()))?;
        }
        let path = apart.as_deref().unwrap_or(dir).join(NAME);
        let recorder = Self { path, apart };
        fs::write(&recorder.path, BYTES)
            .with_context(|| format!("can't write {}", recorder.path.display()))?;
        Ok(recorder)
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the program's environment is to have: the recorder is preloaded before whatever is preloaded already; and the
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

/// What there is of two lists, in one.
fn joined(first: Option<OsString>, second: Option<OsString>) -> OsString {
    let lists: Vec<OsString> =
        [first, second].into_iter().flatten().filter(|list| !list.is_empty()).collect();
    lists.join(OsStr::new(":"))
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Some(apart) = &self.apart {
            // A file left in a folder for such is all that can come of it.
            let _ = fs::remove_dir_all(apart);
        }
    }
}

/// Whether a path may stand in `LD_PRELOAD`.
// Source: glibc elf/rtld.c, handle_preload_list() splits at " :"; elf/dl-load.c expands `$`.
fn can_be_listed(path: &Path) -> bool {
    !path.as_os_str().as_bytes().iter().any(|byte| b" :$".contains(byte))
}
