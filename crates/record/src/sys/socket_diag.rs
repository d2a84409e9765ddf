//! Peers of unix sockets, from the kernel's socket monitor. `/proc/net/unix` doesn't show them.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// Bytes of one answer: the kernel sends at most 32 kB in one.
const ANSWER_BYTES: usize = 32 << 10;
/// Bytes of `struct nlmsghdr`.
pub(super) const HEAD_BYTES: usize = 16;
/// Bytes of `struct unix_diag_msg`: family, type, state, padding, inode, cookie.
const SOCKET_BYTES: usize = 16;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const UDIAG_SHOW_PEER: u32 = 4;
const UNIX_DIAG_PEER: u16 = 2;

/// Connected unix sockets of this network namespace: inode of each, inode of its peer.
///
/// # Errors
/// The kernel's: it has no monitor of unix sockets, or denies it.
pub fn unix_peers() -> io::Result<Vec<(u32, u32)>> {
    let socket = open()?;
    send(&socket, &request())?;
    let mut peers = Vec::new();
    let mut answer = vec![0; ANSWER_BYTES];
    loop {
        let bytes = receive(&socket, &mut answer)?;
        if !parse_answer(answer.get(..bytes).unwrap_or_default(), &mut peers)? {
            return Ok(peers);
        }
    }
}

/// A connection to the socket monitor of this network namespace.
pub(super) fn open() -> io::Result<OwnedFd> {
    // SAFETY: no pointer is passed; the result is checked.
    let raw = unsafe {
        libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_SOCK_DIAG)
    };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// The head of a request of so many bytes, with it.
pub(super) fn head(bytes: u32, flags: libc::c_int) -> Vec<u8> {
    let mut head = Vec::with_capacity(bytes as usize);
    head.extend(bytes.to_ne_bytes());
    head.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    head.extend((flags as u16).to_ne_bytes());
    head.extend([0; 8]);
    head
}

/// A request for all unix sockets with their peers.
// Layout: struct nlmsghdr, then struct unix_diag_req { family, protocol, pad u16, states, ino, show, cookie[2] }.
// Source: linux v6.18 include/uapi/linux/unix_diag.h; net/unix/diag.c, unix_diag_dump
fn request() -> Vec<u8> {
    let mut bytes = head(40, libc::NLM_F_REQUEST | libc::NLM_F_DUMP);
    bytes.extend([libc::AF_UNIX as u8, 0, 0, 0]);
    for word in [u32::MAX, 0, UDIAG_SHOW_PEER, u32::MAX, u32::MAX] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes
}

pub(super) fn send(socket: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the pointer is valid for reads of the length that is passed.
    let sent = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(super) fn receive(socket: &OwnedFd, into: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the pointer is valid for writes of the length that is passed.
    let read = unsafe { libc::recv(socket.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), 0) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// Appends the peers of an answer; true if another follows.
///
/// # Errors
/// The one in the answer.
pub(crate) fn parse_answer(mut bytes: &[u8], peers: &mut Vec<(u32, u32)>) -> io::Result<bool> {
    while let Some(len) = u32_at(bytes, 0).map(|len| len as usize).filter(|len| *len >= HEAD_BYTES) {
        let Some(message) = bytes.get(..len) else { break };
        match u16_at(message, 4).map(i32::from) {
            Some(libc::NLMSG_DONE) => return Ok(false),
            Some(libc::NLMSG_ERROR) => {
                let code = u32_at(message, HEAD_BYTES).unwrap_or(0).cast_signed();
                return Err(io::Error::from_raw_os_error(code.saturating_neg()));
            }
            _ => peers.extend(peer_of(message)),
        }
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(true)
}

/// Inode of a socket and of its peer; `None` for one without.
fn peer_of(message: &[u8]) -> Option<(u32, u32)> {
    let inode = u32_at(message, HEAD_BYTES + 4)?;
    let mut attributes = message.get(HEAD_BYTES + SOCKET_BYTES..)?;
    loop {
        let (len, kind) = (usize::from(u16_at(attributes, 0)?), u16_at(attributes, 2)?);
        if kind == UNIX_DIAG_PEER {
            return u32_at(attributes, 4).map(|peer| (inode, peer));
        }
        attributes = attributes.get(len.max(4).next_multiple_of(4)..)?;
    }
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::net::UnixStream;

    fn inode(stream: &UnixStream) -> u32 {
        let link = format!("/proc/self/fd/{}", stream.as_raw_fd());
        u32::try_from(std::fs::metadata(link).expect("it is open").ino()).expect("32 bits")
    }

    #[test]
    fn both_ends_of_a_pair_are_peers_of_each_other() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let Ok(peers) = unix_peers() else {
            println!("skipped: no monitor of unix sockets here");
            return;
        };
        assert!(peers.contains(&(inode(&one), inode(&other))));
        assert!(peers.contains(&(inode(&other), inode(&one))));
    }

    #[test]
    fn no_answer_is_read_beyond_its_end() {
        let mut whole = Vec::new();
        whole.extend(44u32.to_ne_bytes());
        whole.extend([0; 12]);
        whole.extend([1, 1, 1, 0]);
        whole.extend(77u32.to_ne_bytes());
        whole.extend([0; 8]);
        whole.extend([8, 0, 2, 0]);
        whole.extend(78u32.to_ne_bytes());
        whole.extend([0; 4]);
        for len in 0..whole.len() {
            let mut peers = Vec::new();
            assert!(parse_answer(&whole[..len], &mut peers).expect("no error in it"));
            assert_eq!(peers, []);
        }
        let mut peers = Vec::new();
        assert!(parse_answer(&whole, &mut peers).expect("no error in it"));
        assert_eq!(peers, [(77, 78)]);
    }
}
