//! Which user this program acts for, and whether it may read what that user could not: from /proc/self/status.

use crate::files::system_file;

/// `CAP_DAC_OVERRIDE` and `CAP_DAC_READ_SEARCH` of `linux/capability.h`: reading regardless of a file's mode.
const READ_EVERYTHING: u64 = 1 << 1 | 1 << 2;

/// Rights of this process according to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnRights {
    /// The effective user id.
    pub user: u32,
    /// Files are readable that another user would not be shown: as root, by a capability, or because the program was
    /// installed set-user-id or set-group-id.
    pub is_privileged: bool,
}

impl OwnRights {
    /// Those of this process; `None` without /proc.
    #[must_use]
    pub fn read() -> Option<Self> {
        parse(&system_file::read_text("/proc/self/status").ok()?)
    }
}

/// From the text of a `status` file. Layout: `Uid:\treal\teffective\tsaved\tfilesystem`, likewise `Gid:`; `CapEff:`
/// in hex. Source: linux v6.18 fs/proc/array.c, task_state() and task_cap().
fn parse(status: &str) -> Option<OwnRights> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let ids = |name: &str| {
        let mut ids = field(name)?.split_ascii_whitespace().map_while(|id| id.parse::<u32>().ok());
        Some((ids.next()?, ids.next()?))
    };
    let ((user, effective), (group, effective_group)) = (ids("Uid:")?, ids("Gid:")?);
    let capabilities = u64::from_str_radix(field("CapEff:")?.trim(), 16).ok()?;
    let is_privileged = effective == 0
        || user != effective
        || group != effective_group
        || capabilities & READ_EVERYTHING != 0;
    Some(OwnRights { user: effective, is_privileged })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn privileged_is_whoever_may_read_more_than_its_user() {
        let of = |uid: &str, gid: &str, caps: &str| {
            let text = format!("Name:\tx\nUid:\t{uid}\t0\t0\nGid:\t{gid}\t0\t0\nCapEff:\t{caps}\n");
            parse(&text).map(|rights| (rights.user, rights.is_privileged))
        };
        assert_eq!(of("1000\t1000", "1000\t1000", "0000000000000000"), Some((1000, false)));
        assert_eq!(of("1000\t1000", "1000\t1000", "0000004000000000"), Some((1000, false)), "CAP_PERFMON");
        assert_eq!(of("1000\t1000", "1000\t1000", "0000000000000004"), Some((1000, true)));
        assert_eq!(of("1000\t0", "1000\t1000", "0000000000000000"), Some((0, true)));
        assert_eq!(of("1000\t1000", "1000\t42", "0000000000000000"), Some((1000, true)));
        assert_eq!(of("0\t0", "0\t0", "0000000000000000"), Some((0, true)));
        assert_eq!(parse("Uid:\t0"), None);
    }

    #[test]
    fn our_own_rights_are_those_of_the_files_we_make() {
        use std::os::unix::fs::MetadataExt;
        let path = std::env::temp_dir().join(format!("tally-rights-{}", std::process::id()));
        std::fs::write(&path, "").expect("written");
        let owner = std::fs::metadata(&path).expect("it is there").uid();
        std::fs::remove_file(&path).expect("ours");
        assert_eq!(OwnRights::read().map(|rights| rights.user), Some(owner));
    }
}
