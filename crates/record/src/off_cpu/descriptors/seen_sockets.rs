//! Addresses of sockets, each asked for once, when it is first seen.

use rustc_hash::FxHashMap;

use super::other_ends::inode_of;
use crate::sys::open_socket::{SocketEnds, socket_ends};

/// More of them aren't asked: a busy client opens one for each request.
const MOST: usize = 100_000;

/// Sockets by their number in links; `None` where the kernel didn't answer.
#[derive(Debug, Default)]
pub(super) struct SeenSockets(FxHashMap<u64, Option<SocketEnds>>);

impl SeenSockets {
    /// A descriptor with this link has been seen just now.
    pub(super) fn look_at(&mut self, pid: u32, number: u32, link: &str) {
        let Some(inode) = inode_of(link).filter(|_| link.starts_with("socket:")) else { return };
        if self.0.len() >= MOST || self.0.contains_key(&inode) {
            return;
        }
        match socket_ends(pid, number, inode) {
            Ok(None) => {}
            answer => drop(self.0.insert(inode, answer.unwrap_or_default())),
        }
    }

    /// All that answered.
    pub(super) fn all(self) -> impl Iterator<Item = (u64, SocketEnds)> {
        self.0.into_iter().filter_map(|(inode, ends)| Some((inode, ends?)))
    }
}
