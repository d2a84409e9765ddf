//! Open files of a process, as `/proc/PID/fd` shows them.

use super::seen_sockets::SeenSockets;
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

/// Reason why a descriptor has no target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotOpen {
    /// It is closed, or the process has ended.
    Gone,
    /// The process may not be looked at.
    Denied,
}

/// Target of a descriptor now.
pub(super) fn open_file(pid: u32, number: u32, sockets: &mut SeenSockets) -> Result<OpenFile, NotOpen> {
    let link = proc::descriptor_link(pid, number).map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => NotOpen::Denied,
        _ => NotOpen::Gone,
    })?;
    sockets.look_at(pid, number, &link);
    let members = (link == "anon_inode:[eventpoll]").then(|| epoll_members(pid, number, sockets));
    Ok(OpenFile { link, members })
}

// Source: linux v6.18 fs/eventpoll.c, ep_show_fdinfo: a line `tfd: N …` for each descriptor.
fn epoll_members(pid: u32, number: u32, sockets: &mut SeenSockets) -> Members {
    let info = dso::system_file::read_text(format!("/proc/{pid}/fdinfo/{number}")).unwrap_or_default();
    let member = |line: &str| line.strip_prefix("tfd:")?.split_ascii_whitespace().next()?.parse().ok();
    members(pid, &info.lines().filter_map(member).collect::<Vec<u32>>(), sockets)
}

/// The descriptors of a process with these numbers.
pub(super) fn members(pid: u32, numbers: &[u32], sockets: &mut SeenSockets) -> Members {
    let link = |&number: &u32| {
        let link = proc::descriptor_link(pid, number).ok()?;
        sockets.look_at(pid, number, &link);
        Some(link)
    };
    let links = numbers.iter().take(MOST_MEMBERS).filter_map(link).collect();
    Members { count: numbers.len(), links }
}
