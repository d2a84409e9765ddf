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

impl OpenFile {
    /// The own link, and those of the members.
    pub(super) fn links(&self) -> impl Iterator<Item = &str> {
        let members = self.members.iter().flat_map(|members| &members.links);
        std::iter::once(self.link.as_str()).chain(members.map(String::as_str))
    }
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
    let link =
        if link.starts_with('/') && proc::is_pipe(pid, number) { format!("pipe {link}") } else { link };
    let members = (link == "anon_inode:[eventpoll]").then(|| epoll_members(pid, number, sockets));
    Ok(OpenFile { link, members })
}

// Source: linux v6.18 fs/eventpoll.c, ep_show_fdinfo: a line `tfd: N events: X data: X  pos:N ino:X sdev:X` for each
// descriptor.
fn epoll_members(pid: u32, number: u32, sockets: &mut SeenSockets) -> Members {
    let info = dso::system_file::read_text(format!("/proc/{pid}/fdinfo/{number}")).unwrap_or_default();
    let listed: Vec<EpollMember> = info.lines().filter_map(EpollMember::parse).collect();
    // The link of a socket that was seen before is known by its number: no system call.
    let link = |member: &EpollMember| match sockets.link_of(member.inode, member.device) {
        Some(link) => Some(link),
        None => member_link(pid, member.number, sockets, member.device),
    };
    let links = listed.iter().take(MOST_MEMBERS).filter_map(link).collect();
    Members { count: listed.len(), links }
}

/// A descriptor of an epoll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EpollMember {
    number: u32,
    /// 0 where the kernel doesn't show them.
    inode: u64,
    device: u64,
}

impl EpollMember {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("tfd:")?.split_ascii_whitespace();
        let number = words.next()?.parse().ok()?;
        let hex = |word: Option<&str>, key: &str| {
            word.and_then(|word| u64::from_str_radix(word.strip_prefix(key)?, 16).ok()).unwrap_or(0)
        };
        let mut last = words.skip_while(|word| !word.starts_with("ino:"));
        let (inode, device) = (hex(last.next(), "ino:"), hex(last.next(), "sdev:"));
        Some(Self { number, inode, device })
    }
}

fn member_link(pid: u32, number: u32, sockets: &mut SeenSockets, device: u64) -> Option<String> {
    let link = proc::descriptor_link(pid, number).ok()?;
    sockets.look_at(pid, number, &link);
    sockets.is_on(&link, device);
    Some(link)
}

/// The descriptors of a process with these numbers.
pub(super) fn members(pid: u32, numbers: &[u32], sockets: &mut SeenSockets) -> Members {
    let link = |&number: &u32| member_link(pid, number, sockets, 0);
    let links = numbers.iter().take(MOST_MEMBERS).filter_map(link).collect();
    Members { count: numbers.len(), links }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_an_epoll_has_the_numbers_of_descriptor_and_file() {
        let line = "tfd:        8 events:       19 data:                8  pos:0 ino:1a2f sdev:8";
        assert_eq!(EpollMember::parse(line), Some(EpollMember { number: 8, inode: 0x1a2f, device: 8 }));
        let short = "tfd:        8 events:       19 data:                8";
        assert_eq!(EpollMember::parse(short), Some(EpollMember { number: 8, inode: 0, device: 0 }));
        assert_eq!(EpollMember::parse("pos:\t0"), None);
        assert_eq!(EpollMember::parse("tfd: x"), None);
    }

    #[test]
    fn a_pipe_in_a_folder_is_no_file() {
        use std::os::fd::AsRawFd as _;

        let folder = crate::files::scratch::ScratchFolder::private("fifo").expect("a folder of our own");
        let path = folder.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo runs");
        assert!(made.success());
        let fifo = std::fs::File::options().read(true).write(true).open(&path).expect("opened");
        let file = std::fs::File::create(folder.path().join("file")).expect("made");
        let mut sockets = SeenSockets::default();
        let mut link = |of: &std::fs::File| {
            open_file(std::process::id(), of.as_raw_fd().cast_unsigned(), &mut sockets).expect("open").link
        };
        assert_eq!(link(&fifo), format!("pipe {}", path.display()));
        assert!(link(&file).starts_with('/'));
    }

    #[test]
    fn members_of_an_epoll_are_the_same_at_a_second_look() {
        use std::os::fd::AsRawFd as _;

        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let (from, _to) = std::io::pipe().expect("a pipe");
        let poller = crate::sys::Poller::new().expect("an epoll");
        poller.add(std::os::fd::AsFd::as_fd(&listener), 1).expect("added");
        poller.add(std::os::fd::AsFd::as_fd(&from), 2).expect("added");
        let (pid, number) =
            (std::process::id(), std::os::fd::AsFd::as_fd(&poller).as_raw_fd().cast_unsigned());
        let mut sockets = SeenSockets::default();
        let first = open_file(pid, number, &mut sockets).expect("open");
        let of_listener = proc::descriptor_link(pid, listener.as_raw_fd() as u32).expect("open");
        let members = first.members.as_ref().expect("an epoll");
        assert!(members.count == 2 && members.links.contains(&of_listener), "{members:?}");
        assert_eq!(open_file(pid, number, &mut sockets).as_ref(), Ok(&first));
    }
}
