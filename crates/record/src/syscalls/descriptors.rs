//! Open files of a live process, as `/proc` shows them.

use crate::machine::proc;
use syscalls::files::Descriptor;

/// The descriptors that a process has open now; none if it may not be looked at.
#[must_use]
pub fn open_descriptors(pid: u32) -> Vec<i32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Description of a descriptor.
#[must_use]
pub fn descriptor(pid: u32, fd: i32) -> Descriptor {
    const CLOEXEC: u32 = 0o2_000_000;
    let info = dso::system_file::read_text(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).unwrap_or(0);
    Descriptor {
        name: u32::try_from(fd).ok().and_then(|fd| proc::descriptor_link(pid, fd).ok()).map(Into::into),
        closes_at_exec: flags & CLOEXEC != 0,
    }
}
