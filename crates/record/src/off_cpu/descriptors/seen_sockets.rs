//! Addresses of sockets, each asked for once, when it is first seen.

use rustc_hash::{FxHashMap, FxHashSet};

use super::other_ends::inode_of;
use crate::sys::open_socket::{SocketEnds, socket_ends};

/// More of them aren't asked: a busy client opens one for each request.
const MOST: usize = 100_000;

/// Sockets by their number in links; `None` where the kernel didn't answer.
#[derive(Debug, Default)]
pub(super) struct SeenSockets {
    ends: FxHashMap<u64, Option<SocketEnds>>,
    /// The device of all sockets, once one was seen; 0 before.
    device: u64,
}

impl SeenSockets {
    /// A descriptor with this link has been seen just now.
    pub(super) fn look_at(&mut self, pid: u32, number: u32, link: &str) {
        let Some(inode) = inode_of(link).filter(|_| link.starts_with("socket:")) else { return };
        if self.ends.len() >= MOST || self.ends.contains_key(&inode) {
            return;
        }
        match socket_ends(pid, number, inode) {
            Ok(None) => {}
            answer => drop(self.ends.insert(inode, answer.unwrap_or_default())),
        }
    }

    /// A link of this file system's device, as the kernel shows it for a descriptor.
    pub(super) fn is_on(&mut self, link: &str, device: u64) {
        if self.device == 0 && link.starts_with("socket:") {
            self.device = device;
        }
    }

    /// The link of a socket that has been seen before, by its numbers.
    pub(super) fn link_of(&self, inode: u64, device: u64) -> Option<String> {
        let is_known = device != 0 && device == self.device && self.ends.contains_key(&inode);
        is_known.then(|| format!("socket:[{inode}]"))
    }

    /// Answer of the socket with this link.
    pub(super) fn ends_of(&self, link: &str) -> Option<SocketEnds> {
        inode_of(link).and_then(|inode| self.ends.get(&inode).copied().flatten())
    }

    /// Forgets all but these.
    pub(super) fn keep(&mut self, links: &FxHashSet<&str>) {
        let inodes: FxHashSet<u64> = links.iter().filter_map(|link| inode_of(link)).collect();
        self.ends.retain(|inode, _| inodes.contains(inode));
    }

    /// All that answered.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, SocketEnds)> {
        self.ends.iter().filter_map(|(&inode, &ends)| Some((inode, ends?)))
    }
}
