//! A folder that belongs to this user and that no other user may enter: its contents were put there by this
//! user.

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
    /// The folder at `dir`; `None` unless it belongs to this user, others may not enter it, and it isn't a
    /// symbolic link.
    #[must_use]
    pub fn open(dir: &Path) -> Option<Self> {
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let folder = File::options().read(true).custom_flags(flags).open(dir).ok()?;
        let (meta, owner) = (folder.metadata().ok()?, OwnRights::read()?.user);
        (meta.uid() == owner && meta.mode() & RIGHTS_OF_OTHERS == 0).then_some(Self { folder, owner })
    }

    /// The same, made if it is missing; `None` too if it would have to be made inside a folder of another user, or if
    /// another user is met on the way to it.
    #[must_use]
    pub fn make(dir: &Path) -> Option<Self> {
        if is_led_by_others(dir) {
            return None;
        }
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

/// Whether a privileged program must not write at `path`, because another user could lead it elsewhere by a symbolic
/// link: a folder or link on the way belongs to a user who is neither root nor the one this program runs as. That is so
/// where `sudo` keeps `HOME`. Without privileges a program writes where its own user may write anyway.
#[must_use]
pub fn is_led_by_others(path: &Path) -> bool {
    let Some(rights) = OwnRights::read().filter(|rights| rights.is_privileged) else { return false };
    let is_foreign = |uid: u32| uid != 0 && uid != rights.user;
    let found = path.ancestors().filter_map(|part| std::fs::symlink_metadata(part).ok());
    found.into_iter().any(|part| is_foreign(part.uid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_writes_nothing_in_the_home_of_another_user() {
        let dir = std::env::temp_dir().join(format!("tally-home-{}", std::process::id()));
        let cache = dir.join("home/.cache/tally");
        std::fs::create_dir_all(dir.join("home")).expect("ours");
        std::fs::create_dir(dir.join("roots")).expect("ours");
        assert!(PrivateFolder::make(&cache).is_some(), "our own");
        let gave = std::os::unix::fs::lchown(dir.join("home"), Some(65534), None);
        if gave.is_ok() {
            assert!(is_led_by_others(&cache) && PrivateFolder::make(&cache).is_none());
            // The link leads to a folder of root's.
            std::os::unix::fs::symlink(dir.join("roots"), dir.join("home/link")).expect("root may");
            assert!(PrivateFolder::make(&dir.join("home/link/tally")).is_none());
            assert!(!dir.join("roots/tally").exists());
        } else {
            println!("skipped: only root can give files away");
        }
        std::fs::remove_dir_all(&dir).expect("ours");
    }
}
