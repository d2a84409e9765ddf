//! Source files that debug information names.
//!
//! Whoever built an object file chose those names, and can choose `/etc/shadow`: a view run by root would print it. So
//! a privileged reader is shown a source file only if its privileges are not what makes it readable:
//!
//! - every user may read it, and may pass through each folder on the way to it, or
//! - it belongs to the user who owns the object file, who could read it anyway. Root's files must also be readable by
//!   their own mode, whatever folder they are in: a program that root installed was not always built by root.
//!
//! A reader without privileges is shown what the system lets them read. Without /proc the reader counts as privileged.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::files::own_rights::OwnRights;
use crate::files::untrusted_file::{FileRule, Refused};

/// Larger files are not source.
pub const MAX_BYTES: u64 = 64 << 20;

const ROOT: u32 = 0;

/// `S_IROTH` and `S_IXOTH`.
const OTHERS_READ: u32 = 0o4;
const OTHERS_PASS: u32 = 0o1;

/// Reads source files on behalf of one object file's debug information.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceAccess {
    object_owner: Option<u32>,
    is_privileged: bool,
}

impl SourceAccess {
    /// For sources of an object file that belongs to user `object_owner`; `None` if that is not known.
    #[must_use]
    pub fn for_owner(object_owner: Option<u32>) -> Self {
        let is_privileged = OwnRights::read().is_none_or(|rights| rights.is_privileged);
        Self { object_owner, is_privileged }
    }

    /// The bytes of the source file at `path`.
    ///
    /// # Errors
    /// [`Refused::Private`] if only our privileges make it readable, else as [`FileRule::read`].
    pub fn read(&self, path: &Path) -> Result<Vec<u8>, Refused> {
        let rule = FileRule::up_to(MAX_BYTES);
        if !self.is_privileged {
            return rule.read(path);
        }
        let file = match rule.open(path) {
            Err(Refused::Empty) => return Ok(Vec::new()),
            file => file?,
        };
        let meta = file.metadata()?;
        if !self.is_owners(&meta) && !is_public(&file, &meta)? {
            return Err(Refused::Private { owner: meta.uid() });
        }
        let mut bytes = Vec::with_capacity(meta.len() as usize);
        file.take(MAX_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn is_owners(&self, meta: &Metadata) -> bool {
        self.object_owner == Some(meta.uid()) && (meta.uid() != ROOT || meta.mode() & OTHERS_READ != 0)
    }
}

/// Whether every user can reach and read the file.
fn is_public(file: &File, meta: &Metadata) -> io::Result<bool> {
    if meta.mode() & OTHERS_READ == 0 {
        return Ok(false);
    }
    // Path of the file that was opened, with all links resolved.
    let real = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    for folder in real.ancestors().skip(1) {
        if std::fs::metadata(folder)?.mode() & OTHERS_PASS == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("tally-source-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).expect("made");
            set_mode(&path, 0o755);
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
    }

    #[test]
    fn a_privileged_reader_is_shown_what_everybody_may_read() {
        let folder = Folder::new("public");
        let file = folder.0.join("a.c");
        std::fs::write(&file, "int x;\n").expect("written");
        set_mode(&file, 0o644);
        let owner = std::fs::metadata(&file).expect("it is there").uid();
        let everybody_passes = folder
            .0
            .ancestors()
            .all(|folder| std::fs::metadata(folder).is_ok_and(|meta| meta.mode() & OTHERS_PASS != 0));
        if !everybody_passes {
            return println!("skipped: the folder for temporary files is private");
        }
        let of = |owner| SourceAccess { object_owner: owner, is_privileged: true };
        let is_private = |owner| matches!(of(owner).read(&file), Err(Refused::Private { .. }));
        assert_eq!(of(None).read(&file).expect("public"), b"int x;\n");
        set_mode(&file, 0o640);
        let is_roots = owner == ROOT;
        assert_eq!([None, Some(owner), Some(owner + 1)].map(is_private), [true, is_roots, true]);
        set_mode(&file, 0o644);
        set_mode(&folder.0, 0o700);
        assert_eq!([None, Some(owner), Some(owner + 1)].map(is_private), [true, false, true]);
    }

    #[test]
    fn a_reader_without_privileges_is_shown_what_the_system_lets_them_read() {
        let folder = Folder::new("plain");
        let file = folder.0.join("a.c");
        std::fs::write(&file, "int x;\n").expect("written");
        set_mode(&file, 0o600);
        let access = SourceAccess { object_owner: None, is_privileged: false };
        assert_eq!(access.read(&file).expect("ours"), b"int x;\n");
    }
}
