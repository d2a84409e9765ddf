//! Waits for sockets that ended with TCP's delayed acknowledgement: a sender with a small message on the way keeps the next
//! one until that is acknowledged (Nagle's algorithm), and the receiver acknowledges 40 ms later.

use crate::grow::Grow as _;
use crate::view::wall::{HELD_BACK, Wall};

/// Such waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldBackWaits {
    /// Name of the threads that waited most, and what for: `socket 8080 from 127.0.0.1 (client 812)`.
    pub thread: String,
    /// The socket.
    pub socket: String,
    /// How long in all, ns.
    pub ns: u64,
    /// Number of waits.
    pub waits: u64,
    /// Median of those for that socket, ns.
    pub p50_ns: u64,
}

impl HeldBackWaits {
    /// Place where the data is sent: `in nagle 812, which sends the data`; without a name where the process isn't known.
    pub(super) fn sender_words(&self) -> String {
        let process = self.socket.rsplit_once('(').and_then(|(_, rest)| rest.split_once(')'));
        let is_other = |name: &&str| name.ends_with(|c: char| c.is_ascii_digit());
        match process.map(|(name, _)| name).filter(is_other) {
            Some(process) => format!("in {process}, which sends the data"),
            None => "where the data is sent".to_owned(),
        }
    }
}

/// All such waits; `None` without any.
pub(super) fn held_back(wall: &Wall) -> Option<HeldBackWaits> {
    let mut found: Option<HeldBackWaits> = None;
    // Most time first.
    for target in &wall.targets {
        let Some((socket, _)) = target.name.split_once(HELD_BACK) else { continue };
        let all = found.get_or_insert_with(|| HeldBackWaits {
            thread: target.thread.clone(),
            socket: socket.trim_end_matches([',', ' ']).to_owned(),
            p50_ns: target.lengths.percentile_ns(50.0),
            ..HeldBackWaits::default()
        });
        all.ns.grow(target.total_ns);
        all.waits.grow(target.lengths.count());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sender_is_named_where_its_process_is_known() {
        let of =
            |socket: &str| HeldBackWaits { socket: socket.into(), ..HeldBackWaits::default() }.sender_words();
        assert_eq!(of("socket 8080 from 127.0.0.1 (client 812)"), "in client 812, which sends the data");
        assert_eq!(of("socket to 127.0.0.1:80 (the process itself)"), "where the data is sent");
        assert_eq!(of("socket to 10.0.0.5:443"), "where the data is sent");
    }
}
