//! The kernel's tables of sockets: `/proc/PID/net/{tcp,tcp6,udp,udp6,unix}`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A TCP or UDP socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InetSocket {
    /// Its own address.
    pub local: SocketAddr,
    /// Peer's; port 0 where it has none.
    pub remote: SocketAddr,
    /// It waits for connections.
    pub is_listening: bool,
    /// Number, as the links in `/proc/PID/fd` show it; 0 once its process has closed it.
    pub inode: u64,
}

/// The sockets of a table of TCP or UDP. Lines of other forms are left out.
///
/// ```text
///   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
///    0: 0100007F:1538 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 81921 1 …
/// ```
// Source: linux v6.18 net/ipv4/tcp_ipv4.c, get_tcp4_sock; net/ipv6/tcp_ipv6.c, get_tcp6_sock
#[must_use]
pub fn parse_inet(table: &str) -> Vec<InetSocket> {
    const LISTENING: &str = "0A";
    let socket = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (local, remote, state) = (address(words.next()?)?, address(words.next()?)?, words.next()?);
        let inode = words.nth(5)?.parse().ok()?;
        Some(InetSocket { local, remote, is_listening: state == LISTENING, inode })
    };
    table.lines().filter_map(socket).collect()
}

/// `0100007F:1538`: words of the address in the machine's byte order, port.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let word = |at: usize| u32::from_str_radix(address.get(at * 8..at * 8 + 8)?, 16).ok();
    let ip = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?.to_ne_bytes())),
        32 => {
            let mut bytes = [0; 16];
            for (at, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(at)?.to_ne_bytes());
            }
            Ipv6Addr::from(bytes).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

/// Number and path of the unix sockets that have a path. An accepted connection has that of the socket it came to.
///
/// ```text
/// Num       RefCount Protocol Flags    Type St Inode Path
/// 0000000000000000: 00000002 00000000 00010000 0001 01 81923 /run/app.sock
/// ```
// Source: linux v6.18 net/unix/af_unix.c, unix_seq_show
#[must_use]
pub fn parse_unix(table: &str) -> Vec<(u64, String)> {
    let socket = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(6);
        let (inode, path) = (words.next()?.parse().ok()?, words.next()?);
        Some((inode, path.to_owned()))
    };
    table.lines().filter_map(socket).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_states_of_a_table_are_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   0: 0100007F:1538 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 81921 1 0 100\n   1: 0100007F:1538 0200007F:A5C2 01 00000000:00000000 00:00000000 00000000     0        0 81925 1 0 20\n";
        let sockets = parse_inet(table);
        assert_eq!(sockets.len(), 2);
        assert_eq!(sockets[0].local, "127.0.0.1:5432".parse().expect("an address"));
        assert!(sockets[0].is_listening && !sockets[1].is_listening);
        assert_eq!(sockets[1].remote, "127.0.0.2:42434".parse().expect("an address"));
        assert_eq!(sockets[1].inode, 81925);
    }

    #[test]
    fn addresses_of_both_versions_are_one() {
        let line = "   0: 0000000000000000FFFF00000100007F:1538 00000000000000000000000001000000:0050 01 0:0 0:0 0 0 0 7 1\n";
        let sockets = parse_inet(line);
        assert_eq!(sockets[0].local, "127.0.0.1:5432".parse().expect("an address"));
        assert_eq!(sockets[0].remote, "[::1]:80".parse().expect("an address"));
    }

    #[test]
    fn lines_of_other_forms_are_left_out() {
        for text in ["", "\n", "0: x", "0: 0100007F:1538 0100007F:", "0: é0100007F:1538 00000000:0000 0A"] {
            assert_eq!(parse_inet(text), [], "{text}");
        }
        assert_eq!(parse_unix("Num RefCount Protocol Flags Type St Inode Path\n"), []);
    }

    #[test]
    fn unix_sockets_have_their_paths() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n0000: 00000002 00000000 00010000 0001 01 81923 /run/app.sock\n0000: 00000003 00000000 00000000 0001 03 81924\n";
        assert_eq!(parse_unix(table), [(81923, "/run/app.sock".to_owned())]);
    }
}
