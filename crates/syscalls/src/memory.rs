//! Structures that arguments of system calls point to.
//
// Layout: timespec, timeval: seconds s64, part u64; stat: mode u32 at 24 (x86-64) or 16, size u64 at 48; pollfd: fd s32,
// events u16, revents u16; iovec: base u64, len u64; msghdr: iovlen at 24, controllen at 40; epoll_event: events u32.
// Source: include/uapi/linux/time_types.h, uio.h, socket.h, asm-generic/stat.h, poll.h; arch/x86/include/uapi/asm/stat.h

use std::net::{Ipv4Addr, Ipv6Addr};

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    number(bytes, at).map(u64::from_le_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    number(bytes, at).map(u32::from_le_bytes)
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    number(bytes, at).map(u16::from_le_bytes)
}

/// A descriptor that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolledFd {
    /// The descriptor.
    pub fd: i32,
    /// Bits of the events waited for.
    pub events: u16,
    /// Bits of the events that came.
    pub returned: u16,
}

/// A `struct timespec` or `timeval`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSpan {
    /// Seconds.
    pub seconds: i64,
    /// ns or µs.
    pub part: u64,
}

/// Fields shown of a `struct stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// Type and rights.
    pub mode: u32,
    /// Bytes.
    pub size: i64,
}

/// Fields shown of a `struct msghdr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHead {
    /// Number of vectors.
    pub vectors: u64,
    /// Bytes of control data.
    pub control_bytes: u64,
}

/// Reads a `struct timespec` or `timeval`; `None` if it is cut.
#[must_use]
pub fn parse_time_span(bytes: &[u8]) -> Option<TimeSpan> {
    Some(TimeSpan { seconds: u64_at(bytes, 0)?.cast_signed(), part: u64_at(bytes, 8)? })
}

/// Reads a `struct stat` of this processor; `None` if it is cut.
#[must_use]
pub fn parse_file_stat(bytes: &[u8]) -> Option<FileStat> {
    let mode_at = if cfg!(target_arch = "x86_64") { 24 } else { 16 };
    Some(FileStat { mode: u32_at(bytes, mode_at)?, size: u64_at(bytes, 48)?.cast_signed() })
}

/// Reads a `struct msghdr`; `None` if it is cut.
#[must_use]
pub fn parse_message_head(bytes: &[u8]) -> Option<MessageHead> {
    Some(MessageHead { vectors: u64_at(bytes, 24)?, control_bytes: u64_at(bytes, 40)? })
}

/// Reads the whole ones of several `struct pollfd`.
#[must_use]
pub fn parse_polled_fds(bytes: &[u8]) -> Vec<PolledFd> {
    let of = |item: &[u8]| {
        let fd = u32_at(item, 0)?.cast_signed();
        Some(PolledFd { fd, events: u16_at(item, 4)?, returned: u16_at(item, 6)? })
    };
    bytes.chunks_exact(8).filter_map(of).collect()
}

/// Sizes of several `struct iovec`, in bytes.
#[must_use]
pub fn parse_vector_sizes(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(16).filter_map(|item| u64_at(item, 8)).collect()
}

/// Descriptors, as `pipe` writes them.
#[must_use]
pub fn parse_fds(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks_exact(4).filter_map(|item| u32_at(item, 0)).map(u32::cast_signed).collect()
}

/// A set of signals: bit 0 is signal 1; `None` if it is cut.
#[must_use]
pub fn parse_signal_set(bytes: &[u8]) -> Option<u64> {
    u64_at(bytes, 0)
}

/// Events of a `struct epoll_event`; `None` if it is cut.
#[must_use]
pub fn parse_epoll_events(bytes: &[u8]) -> Option<u32> {
    u32_at(bytes, 0)
}

/// Reads a `struct sockaddr`: `1.2.3.4:80`, `[::1]:80`, `/run/socket`, `@abstract`; `None` if it is cut or of an
/// unknown family.
//
// Layout: sa_family u16; AF_INET: port u16 (big endian), address 4; AF_INET6: port u16, flowinfo u32, address 16;
// AF_UNIX: a path, or 0 and a name; AF_NETLINK: pad u16, pid u32, groups u32.
// Source: include/uapi/linux/in.h, in6.h, un.h, netlink.h
#[must_use]
pub fn parse_socket_address(bytes: &[u8]) -> Option<String> {
    let family = u16_at(bytes, 0)?;
    let port = || u16_at(bytes, 2).map(u16::swap_bytes);
    match family {
        1 => {
            let path = &bytes[2..];
            let (mark, name) = match path {
                [] => return Some("unnamed".to_owned()),
                [0, name @ ..] => ("@", name),
                name => ("", name.split(|byte| *byte == 0).next().unwrap_or_default()),
            };
            Some(format!("{mark}{}", String::from_utf8_lossy(name)))
        }
        2 => {
            let address: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            Some(format!("{}:{}", Ipv4Addr::from(address), port()?))
        }
        10 => {
            let address: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            Some(format!("[{}]:{}", Ipv6Addr::from(address), port()?))
        }
        16 => {
            let pid = u32_at(bytes, 4)?;
            Some(format!("netlink:{pid}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_each_family_are_read() {
        assert_eq!(parse_socket_address(&[2, 0, 0, 80, 1, 2, 3, 4]).as_deref(), Some("1.2.3.4:80"));
        let mut six = vec![10, 0, 0x1f, 0x90, 0, 0, 0, 0];
        six.extend([0; 15]);
        six.push(1);
        assert_eq!(parse_socket_address(&six).as_deref(), Some("[::1]:8080"));
        assert_eq!(parse_socket_address(b"\x01\0/run/x\0junk").as_deref(), Some("/run/x"));
        assert_eq!(parse_socket_address(b"\x01\0\0name").as_deref(), Some("@name"));
        assert_eq!(
            (
                parse_socket_address(b"\x02\0\0"),
                parse_socket_address(b""),
                parse_socket_address(b"\x63\0abcdef")
            ),
            (None, None, None)
        );
        assert!((0..six.len()).all(|len| parse_socket_address(&six[..len]).is_none()));
    }
}
