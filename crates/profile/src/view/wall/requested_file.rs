//! The file of a wait for a disk, by the requests that the waiting thread made itself.
//!
//! A descriptor's number is looked at seldom, and programs use one number for one file after the other; the requests are
//! all recorded.

use crate::off_cpu::{Wait, WaitReason};
use crate::profile::Profile;
use crate::view::wall::Part;
use perfdata::appendix::disk_files::{DiskFile, FileOwner};

/// Longest time that a thread computes between its request and the wait for it, ns.
const BEFORE_NS: u64 = 10_000_000;

/// Name of the file that the thread requested last before this wait's end, and whether it waited for others in the
/// time that the wait stands for; `None` if it requested nothing then, or that has no name.
pub(super) fn requested_file<'p>(profile: &'p Profile, wait: &Wait, part: Part) -> Option<(&'p str, bool)> {
    let files = &profile.block_io.files;
    let is_for_disk = matches!(part, Part::Blocked(WaitReason::Disk | WaitReason::PageFault));
    if !is_for_disk || files.parts.is_empty() {
        return None;
    }
    let task = profile.task(wait.task);
    let tid = task.tid.cast_unsigned();
    let begin_ns = wait.since_ns.saturating_sub(BEFORE_NS);
    let newest = files.newest_of(tid, begin_ns..=wait.since_ns.saturating_add(wait.length_ns))?;
    let comm = profile.strings.of(profile.last_comm(wait.task));
    let name = name_of(files.files.get(newest.file as usize)?, comm)?;
    let first_ns = wait.sums.as_ref().map_or(0, |sums| sums.since_ns);
    let earlier = if first_ns == 0 { begin_ns } else { first_ns.min(begin_ns) };
    let has_others = files.requested_in(tid, earlier..=wait.since_ns).any(|part| part.file != newest.file);
    Some((name, has_others))
}

fn name_of<'f>(file: &'f DiskFile, comm: &str) -> Option<&'f str> {
    match file.owner {
        FileOwner::File if !file.path.is_empty() => Some(&file.path),
        FileOwner::Device if comm.starts_with("jbd2") => Some("file system journal"),
        FileOwner::Device => Some("file system metadata"),
        FileOwner::Swap => Some("swap"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Task;
    use perfdata::appendix::disk_files::{DiskFiles, RequestPart};

    #[test]
    fn a_wait_for_a_disk_is_for_the_file_that_its_thread_requested_last() {
        let mut profile = Profile::default();
        let comm = profile.strings.intern("app");
        let task = profile.push_task(Task { pid: 7, tid: 8, process: 0, comm });
        let file = |owner, path: &str| DiskFile {
            owner,
            device: 1,
            inode: 5,
            is_deleted: false,
            path: path.to_owned(),
        };
        let files =
            vec![file(FileOwner::File, "/a"), file(FileOwner::File, "/b"), file(FileOwner::Device, "")];
        let part = |time_ns, file, tid| RequestPart {
            time_ns,
            sector: time_ns,
            device: 1,
            bytes: 512,
            file,
            tid,
            by_kernel: false,
            is_direct: false,
        };
        let parts =
            vec![part(100, 0, 8), part(50_000_000, 1, 8), part(50_000_010, 0, 9), part(90_000_000, 2, 8)];
        profile.block_io.files = DiskFiles::new(files, parts, 0);
        let named = |since_ns, reason| {
            let wait = Wait { since_ns, length_ns: 1000, ..Wait::of(task) };
            requested_file(&profile, &wait, Part::Blocked(reason))
        };
        assert_eq!(named(50_000_020, WaitReason::Disk), Some(("/b", false)));
        assert_eq!(
            named(49_999_500, WaitReason::PageFault),
            Some(("/b", false)),
            "queued, then given to the driver"
        );
        assert_eq!(named(90_000_100, WaitReason::Disk), Some(("file system metadata", false)));
        assert_eq!(named(70_000_000, WaitReason::Disk), None, "too long ago");
        assert_eq!(named(50_000_020, WaitReason::Futex), None);
    }
}
