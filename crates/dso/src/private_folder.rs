//! A folder that belongs to this user and that no other user may enter: what lies in it was put there by this user.

use std::fs::{DirBuilder, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::OwnRights;

/// Any right of the group or of others.
const RIGHTS_OF_OTHERS: u32 = 0o077;

/// Such a folder, held open: the folder its path leads to may change, the open one stays.
#[derive(Debug)]
pub struct PrivateFolder {
    folder: File,
    owner: u32,
}

impl PrivateFolder {
    /// The folder at `dir`; `None` unless it belongs to this user, others may not enter it, and it is no symbolic link.
    #[must_use]
    pub fn open(dir: &Path) -> Option<Self> {
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let folder = File::options().read(true).custom_flags(flags).open(dir).ok()?;
        let (meta, owner) = (folder.metadata().ok()?, OwnRights::read()?.user);
        (meta.uid() == owner && meta.mode() & RIGHTS_OF_OTHERS == 0).then_some(Self { folder, owner })
    }

    /// The same, made if it is missing; `None` too if it would have to be made inside a folder of another user.
    #[must_use]
    pub fn make(dir: &Path) -> Option<Self> {
        let above = dir.ancestors().find_map(|folder| std::fs::metadata(folder).ok())?;
        if above.uid() == OwnRights::read()?.user {
            DirBuilder::new().recursive(true).mode(0o700).create(dir).ok()?;
        }
        Self::open(dir)
    }

    /// A path that leads to this very folder as long as it is held.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.folder.as_raw_fd()).into()
    }

    /// The user id of this user, who owns it.
    #[must_use]
    pub const fn owner(&self) -> u32 {
        self.owner
    }
}
