//! Waiting for many descriptors at once (epoll), each with a number of the caller's.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// An epoll set.
#[derive(Debug)]
pub struct Poller {
    fd: OwnedFd,
}

/// Event of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// The number given to [`Poller::add`].
    pub token: u64,
    /// Something can be read.
    pub readable: bool,
    /// The other side is gone (for an event: its task has exited, and all that inherited it).
    pub hung_up: bool,
}

impl Poller {
    /// An empty set.
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes a number only.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor that nobody else owns.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Watches `fd` until it is removed or closed.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.add_for(fd, libc::EPOLLIN as u32, token)
    }

    /// The same, but only the end of the other side is of interest. `EPERM` for files, which have no other side.
    pub fn add_end(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.add_for(fd, 0, token)
    }

    fn add_for(&self, fd: BorrowedFd<'_>, events: u32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: token };
        // SAFETY: both descriptors are open; the pointer is to a live epoll_event.
        check(unsafe {
            libc::epoll_ctl(self.fd.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &mut event)
        })
    }

    /// Watches `fd` no more.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let none = std::ptr::null_mut();
        // SAFETY: both descriptors are open; a null event is allowed for removal.
        check(unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), libc::EPOLL_CTL_DEL, fd.as_raw_fd(), none) })
    }

    /// Waits until something is ready or `timeout` is over (`None`: for ever). Returns up to 64 at a time; an
    /// interruption by a signal returns none.
    pub fn wait(&self, timeout: Option<Duration>) -> io::Result<Vec<Ready>> {
        const MANY: usize = 64;
        let millis = timeout.map_or(-1, whole_millis);
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MANY];
        // SAFETY: the buffer is live and holds MANY events.
        let n = unsafe { libc::epoll_wait(self.fd.as_raw_fd(), events.as_mut_ptr(), MANY as i32, millis) };
        if n < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(Vec::new()) } else { Err(error) };
        }
        Ok(events.iter().take(n as usize).map(ready).collect())
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Rounded up: for a rest below a millisecond, zero would have the caller ask again and again until it is over.
fn whole_millis(timeout: Duration) -> i32 {
    i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
}

fn ready(event: &libc::epoll_event) -> Ready {
    let (bits, token) = (event.events, event.u64);
    Ready {
        token,
        readable: bits & libc::EPOLLIN as u32 != 0,
        hung_up: bits & (libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0,
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_below_a_millisecond_is_waited_for_and_none_is_not() {
        let millis = |nanos| whole_millis(Duration::from_nanos(nanos));
        assert_eq!([0, 1, 1_000_000, 49_100_000].map(millis), [0, 1, 1, 50]);
        assert_eq!(whole_millis(Duration::MAX), i32::MAX);
    }
}
