//! Peers that are waited for and are not in the recording: local processes, other machines.

use crate::grow::Grow as _;
use crate::off_cpu::WaitReason;
use crate::view::wall::{Part, WaitTarget, Wall};
use std::collections::BTreeMap;

/// A peer whose answers are waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerWaits {
    /// Where it is reached: `127.0.0.1:5432`, `/run/app.sock`.
    pub address: String,
    /// Name and id of its process, where it is on this machine.
    pub process: Option<(String, u32)>,
    /// How long in all, ns.
    pub ns: u64,
    /// Number of waits, and of most of them the median and the longest, ns.
    pub waits: u64,
    /// Median of the lengths, ns.
    pub p50_ns: u64,
    /// The longest, ns.
    pub longest_ns: u64,
}

/// The peer outside of the recording that most time was waited for; `None` if there is none.
pub(super) fn slowest_peer(wall: &Wall) -> Option<PeerWaits> {
    let own: Vec<u32> = wall.threads.iter().map(|row| row.pid.cast_unsigned()).collect();
    let mut peers: BTreeMap<String, PeerWaits> = BTreeMap::new();
    // Most time first: the lengths are those of the largest row.
    for target in wall.targets.iter().filter(|target| is_for_peer(target)) {
        let Some((address, process)) = peer_of(&target.name) else { continue };
        if process.as_ref().is_some_and(|(_, pid)| own.contains(pid)) {
            continue;
        }
        let peer = peers.entry(address.to_owned()).or_insert_with(|| PeerWaits {
            address: address.to_owned(),
            process,
            p50_ns: target.lengths.percentile_ns(50.0),
            ..PeerWaits::default()
        });
        peer.ns.grow(target.total_ns);
        peer.waits.grow(target.lengths.count());
        peer.longest_ns = peer.longest_ns.max(target.lengths.max_ns());
    }
    peers.into_values().max_by_key(|peer| peer.ns)
}

fn is_for_peer(target: &WaitTarget) -> bool {
    matches!(target.part, Part::Blocked(WaitReason::Socket | WaitReason::Poll))
}

/// Address and process in the name of a connection that this side made: `socket to 127.0.0.1:5432 (postgres 812)`,
/// `poll of socket to /run/app.sock (server 5) and other sockets`.
fn peer_of(name: &str) -> Option<(&str, Option<(String, u32)>)> {
    let (before, after) = name.split_once(" to ")?;
    if !before.ends_with("socket") && !before.ends_with("sockets") {
        return None;
    }
    let (address, rest) = after.split_once(' ').unwrap_or((after, ""));
    let is_address =
        address.starts_with('/') || address.rsplit_once(':').is_some_and(|(_, port)| is_number(port));
    if rest.starts_with("(the process itself)") {
        return None;
    }
    let process = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).and_then(|(of, _)| {
        let (name, pid) = of.rsplit_once(' ')?;
        Some((name.to_owned(), pid.parse().ok()?))
    });
    is_address.then_some((address, process))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_found_in_the_names_of_connections() {
        let of = |name| peer_of(name).map(|(address, process)| (address.to_owned(), process));
        let postgres = Some(("postgres".to_owned(), 812));
        assert_eq!(
            of("socket to 127.0.0.1:5432 (postgres 812)"),
            Some(("127.0.0.1:5432".to_owned(), postgres.clone()))
        );
        assert_eq!(
            of("poll of sockets to /run/pg.sock (postgres 812)"),
            Some(("/run/pg.sock".to_owned(), postgres))
        );
        assert_eq!(of("socket to 10.0.0.5:443"), Some(("10.0.0.5:443".to_owned(), None)));
        assert_eq!(of("epoll of socket to 127.0.0.1:80 (the process itself) and other sockets"), None);
        for other in ["socket 80 from 10.0.0.9", "pipe to gzip 11", "connections to port 80", "socket to a 5"]
        {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
