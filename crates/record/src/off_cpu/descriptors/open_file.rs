//! Open files of a process, as `/proc/PID/fd` shows them.

use crate::machine::proc;

/// Most descriptors of a set that are looked at.
pub(super) const MOST_MEMBERS: usize = 64;

/// Content of a link in `/proc/PID/fd`, and for epoll the descriptors it is for. For a call of `poll` or `select` the
/// link is its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenFile {
    pub link: String,
    /// `None` for a single descriptor.
    pub members: Option<Members>,
}

/// The descriptors of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Members {
    pub count: usize,
    /// Links of the first of them, by number.
    pub links: Vec<String>,
}

/// Target of a descriptor now; `None` if it is closed or the process may not be looked at.
pub(super) fn open_file(pid: u32, number: u32) -> Option<OpenFile> {
    let link = proc::descriptor_link(pid, number)?;
    let members = (link == "anon_inode:[eventpoll]").then(|| epoll_members(pid, number));
    Some(OpenFile { link, members })
}

// Source: linux v6.18 fs/eventpoll.c, ep_show_fdinfo: a line `tfd: N …` for each descriptor.
fn epoll_members(pid: u32, number: u32) -> Members {
    let info = dso::system_file::read_text(format!("/proc/{pid}/fdinfo/{number}")).unwrap_or_default();
    let member = |line: &str| line.strip_prefix("tfd:")?.split_ascii_whitespace().next()?.parse().ok();
    members(pid, &info.lines().filter_map(member).collect::<Vec<u32>>())
}

/// The descriptors of a process with these numbers.
pub(super) fn members(pid: u32, numbers: &[u32]) -> Members {
    let links = numbers.iter().take(MOST_MEMBERS).filter_map(|&number| proc::descriptor_link(pid, number));
    Members { count: numbers.len(), links: links.collect() }
}
