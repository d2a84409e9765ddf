//! Which file on this machine an opened file is, and in which state.

use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// Place and state of a file. Two files never share an identity at the same time, and nobody can give a file the
/// change time of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
    bytes: u64,
    modified_ns: i128,
    changed_ns: i128,
    owner: u32,
}

impl FileIdentity {
    /// From the system's metadata of an open file.
    #[must_use]
    pub fn of(meta: &Metadata) -> Self {
        let ns = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            bytes: meta.len(),
            modified_ns: ns(meta.mtime(), meta.mtime_nsec()),
            changed_ns: ns(meta.ctime(), meta.ctime_nsec()),
            owner: meta.uid(),
        }
    }

    /// The user id of its owner.
    #[must_use]
    pub const fn owner(&self) -> u32 {
        self.owner
    }
}

/// All of it in hex, fit for a file name of up to 80 letters.
impl fmt::Display for FileIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, inode, bytes, modified_ns, changed_ns, owner: _ } = self;
        write!(f, "{device:x}-{inode:x}-{bytes:x}-{modified_ns:x}-{changed_ns:x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_and_a_changed_file_have_other_identities() {
        let folder = std::env::temp_dir().join(format!("tally-identity-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("made");
        let (path, copy) = (folder.join("a"), folder.join("b"));
        std::fs::write(&path, "one").expect("written");
        std::fs::copy(&path, &copy).expect("copied");
        let of = |path| FileIdentity::of(&std::fs::metadata(path).expect("it is there")).to_string();
        let first = of(&path);
        assert_eq!(first, of(&path));
        assert_ne!(first, of(&copy));
        let long_ago = std::time::SystemTime::UNIX_EPOCH;
        std::fs::File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_modified(long_ago))
            .expect("set");
        assert_ne!(first, of(&path));
        std::fs::remove_dir_all(&folder).expect("ours");
    }
}
