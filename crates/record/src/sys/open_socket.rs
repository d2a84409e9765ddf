//! A socket of another process, asked for its addresses while it is open: a copy of its descriptor for some microseconds.
//!
//! The kernel's tables show the same, but take milliseconds to read: by then many a connection is closed.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use super::wide;

/// Both ends of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketEnds {
    /// TCP or UDP.
    Inet {
        /// Its own address.
        local: SocketAddr,
        /// Peer's; `None` where it has none.
        remote: Option<SocketAddr>,
        /// It waits for connections.
        is_listening: bool,
        /// Protocol ([`libc::IPPROTO_TCP`] and others).
        protocol: libc::c_int,
    },
    /// One of another family ([`libc::AF_NETLINK`] and others).
    Other(libc::c_int),
}

/// Ends of the socket `number` of a process; `None` if that descriptor isn't the socket `inode` any more, or its
/// connection isn't made yet.
///
/// # Errors
/// The kernel's: the process has ended, or may not be looked at.
pub fn socket_ends(pid: u32, number: u32, inode: u64) -> io::Result<Option<SocketEnds>> {
    // SAFETY: no pointer is passed; the result is checked.
    let process = owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    // SAFETY: as above.
    let socket = owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) })?;
    if inode_of(&socket)? != inode {
        return Ok(None);
    }
    let family = option(&socket, libc::SO_DOMAIN)?;
    if !matches!(family, libc::AF_INET | libc::AF_INET6) {
        return Ok(Some(SocketEnds::Other(family)));
    }
    let Some(local) = address(&socket, libc::getsockname)? else { return Ok(None) };
    // Not connected, or not any more.
    let remote = address(&socket, libc::getpeername).unwrap_or(None);
    let is_listening = option(&socket, libc::SO_ACCEPTCONN)? != 0;
    if remote.is_none() && !is_listening && option(&socket, libc::SO_TYPE)? == libc::SOCK_STREAM {
        return Ok(None);
    }
    let protocol = option(&socket, libc::SO_PROTOCOL)?;
    Ok(Some(SocketEnds::Inet { local, remote, is_listening, protocol }))
}

fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    let raw = i32::try_from(result).ok().filter(|raw| *raw >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the kernel has just returned it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

fn inode_of(file: &OwnedFd) -> io::Result<u64> {
    let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the pointer is valid for writes of the type that the kernel writes.
    if unsafe { libc::fstat(file.as_raw_fd(), status.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has filled it.
    Ok(wide(unsafe { status.assume_init() }.st_ino))
}

fn option(socket: &OwnedFd, name: libc::c_int) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut bytes = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the pointers are valid for writes of the length that is passed.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut bytes)
    };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

type AddressCall =
    unsafe extern "C" fn(libc::c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> libc::c_int;

fn address(socket: &OwnedFd, call: AddressCall) -> io::Result<Option<SocketAddr>> {
    let mut bytes = [0u8; size_of::<libc::sockaddr_in6>()];
    let mut len = bytes.len() as libc::socklen_t;
    // SAFETY: the pointers are valid for writes of the length that is passed.
    let result = unsafe { call(socket.as_raw_fd(), bytes.as_mut_ptr().cast(), &raw mut len) };
    if result == 0 { Ok(parse_address(&bytes)) } else { Err(io::Error::last_os_error()) }
}

/// An address of the kernel; `None` for one of another family.
// Layout: struct sockaddr_in { u16 family; be16 port; u8 addr[4]; … }, sockaddr_in6 { u16 family; be16 port;
// be32 flowinfo; u8 addr[16]; … }
fn parse_address(bytes: &[u8; size_of::<libc::sockaddr_in6>()]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
    let port = u16::from_be_bytes([bytes[2], bytes[3]]);
    let ip = match family {
        libc::AF_INET => {
            let four: [u8; 4] = bytes[4..8].try_into().ok()?;
            IpAddr::V4(Ipv4Addr::from(four))
        }
        libc::AF_INET6 => {
            let sixteen: [u8; 16] = bytes[8..24].try_into().ok()?;
            Ipv6Addr::from(sixteen).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn ends(socket: &impl std::os::fd::AsRawFd) -> Option<SocketEnds> {
        let number = u32::try_from(socket.as_raw_fd()).expect("open");
        let link = std::fs::read_link(format!("/proc/self/fd/{number}")).expect("open");
        let inode =
            link.to_str().and_then(|link| link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
        socket_ends(std::process::id(), number, inode.expect("a socket")).expect("our own")
    }

    #[test]
    fn a_connection_has_both_addresses_and_a_listener_its_own() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let stream = TcpStream::connect(at).expect("a connection");
        let protocol = libc::IPPROTO_TCP;
        let of_listener = SocketEnds::Inet { local: at, remote: None, is_listening: true, protocol };
        assert_eq!(ends(&listener), Some(of_listener));
        let local = stream.local_addr().expect("an address");
        let of_stream = SocketEnds::Inet { local, remote: Some(at), is_listening: false, protocol };
        assert_eq!(ends(&stream), Some(of_stream));
    }

    #[test]
    fn a_number_that_is_another_socket_by_now_has_no_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let number = u32::try_from(listener.as_raw_fd()).expect("open");
        assert_eq!(socket_ends(std::process::id(), number, 1).expect("our own"), None);
        assert!(socket_ends(std::process::id(), 1 << 19, 1).is_err());
    }

    #[test]
    fn addresses_of_version_4_in_version_6_are_of_version_4() {
        let mut bytes = [0; 28];
        bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        bytes[2..4].copy_from_slice(&80u16.to_be_bytes());
        bytes[18..24].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 5]);
        assert_eq!(parse_address(&bytes), "10.0.0.5:80".parse().ok());
        bytes[0] = 1;
        bytes[1] = 0;
        assert_eq!(parse_address(&bytes), None);
    }
}
