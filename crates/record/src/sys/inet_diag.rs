//! Single TCP sockets of this network namespace, from the kernel's socket monitor.
//!
//! `/proc/net/tcp` shows the same, but the kernel looks through its whole hash table for it: milliseconds, where one
//! socket takes microseconds.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use super::socket_diag;

/// Bytes of an answer: `struct inet_diag_msg` and attributes that aren't asked for.
const ANSWER_BYTES: usize = 4096;

/// A TCP socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpSocket {
    /// Number, as links in `/proc/PID/fd` show it; 0 before it is accepted, and once its process has closed it.
    pub inode: u64,
    /// It waits for connections.
    pub is_listening: bool,
}

/// The socket monitor, asked for one socket at a time.
#[derive(Debug)]
pub struct TcpSockets(OwnedFd);

impl TcpSockets {
    /// # Errors
    /// The kernel's: it has no socket monitor, or denies it.
    pub fn open() -> io::Result<Self> {
        socket_diag::open().map(Self)
    }

    /// The socket with this own and this peer's address; where there is none, the one that waits for connections at the
    /// own address.
    ///
    /// # Errors
    /// The kernel's; there being no such socket is none.
    pub fn find(&self, local: SocketAddr, remote: SocketAddr) -> io::Result<Option<TcpSocket>> {
        socket_diag::send(&self.0, &request(local, remote))?;
        let mut answer = [0; ANSWER_BYTES];
        let bytes = socket_diag::receive(&self.0, &mut answer)?;
        parse_socket(answer.get(..bytes).unwrap_or_default())
    }
}

// Layout: struct nlmsghdr, then struct inet_diag_req_v2 { family, protocol, ext, pad, states u32, id { be16 sport,
// be16 dport, be32 src[4], be32 dst[4], u32 if, u32 cookie[2] } }.
// Source: linux v6.18 include/uapi/linux/inet_diag.h; net/ipv4/inet_diag.c, inet_diag_find_one_icsk
fn request(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let is_v4 = local.is_ipv4() && remote.is_ipv4();
    let family = if is_v4 { libc::AF_INET } else { libc::AF_INET6 };
    let mut bytes = socket_diag::head(72, libc::NLM_F_REQUEST);
    bytes.extend([family as u8, libc::IPPROTO_TCP as u8, 0, 0]);
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(local.port().to_be_bytes());
    bytes.extend(remote.port().to_be_bytes());
    for address in [local.ip(), remote.ip()] {
        bytes.extend(match address {
            IpAddr::V4(four) if is_v4 => {
                let mut sixteen = [0; 16];
                sixteen[..4].copy_from_slice(&four.octets());
                sixteen
            }
            IpAddr::V4(four) => four.to_ipv6_mapped().octets(),
            IpAddr::V6(six) => six.octets(),
        });
    }
    bytes.extend(0u32.to_ne_bytes());
    bytes.extend(u64::MAX.to_ne_bytes());
    bytes
}

/// The socket of an answer; `None` if there is none.
///
/// # Errors
/// Any other in the answer.
// Layout: struct nlmsghdr, then struct inet_diag_msg { family, state, timer, retrans, id (48 bytes), expires, rqueue,
// wqueue, uid, inode u32 }.
pub(crate) fn parse_socket(bytes: &[u8]) -> io::Result<Option<TcpSocket>> {
    /// `TCP_LISTEN`, include/net/tcp_states.h
    const LISTENING: u8 = 10;
    let body = bytes.get(socket_diag::HEAD_BYTES..).unwrap_or_default();
    match socket_diag::u16_at(bytes, 4).map(i32::from) {
        Some(libc::NLMSG_ERROR) => {
            let code = socket_diag::u32_at(body, 0).unwrap_or(0).cast_signed().saturating_neg();
            if code == libc::ENOENT { Ok(None) } else { Err(io::Error::from_raw_os_error(code)) }
        }
        _ => Ok(socket_diag::u32_at(body, 68).map(|inode| TcpSocket {
            inode: u64::from(inode),
            is_listening: body.get(1) == Some(&LISTENING),
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt as _;

    fn inode(of: &impl AsRawFd) -> u64 {
        std::fs::metadata(format!("/proc/self/fd/{}", of.as_raw_fd())).expect("it is open").ino()
    }

    #[test]
    fn both_ends_of_a_connection_and_its_listener_are_found() {
        let Ok(sockets) = TcpSockets::open() else {
            println!("skipped: no socket monitor here");
            return;
        };
        for at in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(at) else { continue };
            let at = listener.local_addr().expect("bound");
            let client = TcpStream::connect(at).expect("a connection");
            let (server, from) = listener.accept().expect("a connection");
            let Some(found) = sockets.find(from, at).expect("an answer") else {
                println!("skipped: no monitor of TCP sockets here");
                return;
            };
            assert_eq!(found, TcpSocket { inode: inode(&client), is_listening: false });
            let of_server = sockets.find(at, from).expect("an answer").expect("it is open");
            assert_eq!(of_server, TcpSocket { inode: inode(&server), is_listening: false });
            let nobody = SocketAddr::new(at.ip(), 1);
            let waiting = sockets.find(at, nobody).expect("an answer").expect("it is open");
            assert_eq!(waiting, TcpSocket { inode: inode(&listener), is_listening: true });
            assert_eq!(sockets.find(from, nobody).expect("an answer"), None);
        }
    }

    #[test]
    fn no_answer_is_read_beyond_its_end() {
        let mut whole = socket_diag::head(88, 0);
        whole.extend([2, 10, 0, 0]);
        whole.extend([0; 64]);
        whole.extend(77u32.to_ne_bytes());
        for len in 0..whole.len() {
            assert_eq!(parse_socket(&whole[..len]).expect("no error in it"), None);
        }
        let socket = TcpSocket { inode: 77, is_listening: true };
        assert_eq!(parse_socket(&whole).expect("no error in it"), Some(socket));
        let mut refused = vec![36, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        refused.extend((-libc::EPERM).to_ne_bytes());
        assert_eq!(parse_socket(&refused).expect_err("refused").raw_os_error(), Some(libc::EPERM));
    }
}
