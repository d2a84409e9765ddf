//! Where the kernel describes its tracepoints.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::sync::OnceLock;

use dso::system_file;

use crate::sys::mount;

/// The tracefs folder: where it is mounted, or else, for root, a mount that only this process sees.
///
/// It is looked for once. If there is none, the path is the usual place, so that errors name it.
#[must_use]
pub fn tracefs() -> PathBuf {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let usual = PathBuf::from("/sys/kernel/tracing");
        let old = PathBuf::from("/sys/kernel/debug/tracing");
        let has_events = |folder: &PathBuf| folder.join("events").exists();
        let known = [usual.clone(), old].into_iter().find(has_events);
        known.or_else(|| mounted_tracefs().map(PathBuf::from)).or_else(private_tracefs).unwrap_or(usual)
    })
    .clone()
}

/// Where tracefs is mounted, readable for this user or not.
pub(crate) fn mounted_tracefs() -> Option<String> {
    let mounts = system_file::read_text("/proc/mounts").ok()?;
    in_mounts(&mounts)
}

/// Where tracefs is, by the text of /proc/mounts; debugfs has it below itself.
fn in_mounts(mounts: &str) -> Option<String> {
    let of_type = |wanted: &str| {
        let mut lines = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        lines.find(|line| line.get(2) == Some(&wanted)).and_then(|line| line.get(1).map(ToString::to_string))
    };
    of_type("tracefs").or_else(|| of_type("debugfs").map(|at| at + "/tracing"))
}

/// A mount of our own, kept until the process ends.
fn private_tracefs() -> Option<PathBuf> {
    static MOUNT: OnceLock<Option<File>> = OnceLock::new();
    let mount = MOUNT.get_or_init(|| mount::private(c"tracefs").ok()).as_ref()?;
    Some(PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracefs_is_found_by_its_type_or_below_debugfs() {
        let both = "debugfs /sys/kernel/debug debugfs rw 0 0\ntracefs /sys/kernel/tracing tracefs rw 0 0\n";
        assert_eq!(in_mounts(both).as_deref(), Some("/sys/kernel/tracing"));
        assert_eq!(in_mounts("none /d debugfs rw 0 0").as_deref(), Some("/d/tracing"));
        assert_eq!(in_mounts("proc /proc proc rw 0 0\n"), None);
    }
}
