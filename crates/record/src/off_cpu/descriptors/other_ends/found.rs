//! Sockets and pipes as the looks have found them, and their names.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;

use rustc_hash::{FxHashMap, FxHashSet};

use super::super::sockets::{InetSocket, parse_inet, parse_unix};
use super::single_sockets::SingleSockets;
use super::{WantedEnd, inode_of};
use crate::machine::proc;
use crate::sys::open_socket::SocketEnds;
use crate::sys::socket_diag::unix_peers;

/// The tables of one network namespace.
const TABLES: [&str; 4] = ["tcp", "tcp6", "udp", "udp6"];

/// Results of the looks.
#[derive(Debug, Clone, Default)]
pub(in crate::off_cpu::descriptors) struct Found {
    pub(super) inet: FxHashMap<u64, InetSocket>,
    /// Families of those without addresses and paths.
    pub(super) families: FxHashMap<u64, i32>,
    pub(super) listening: FxHashSet<u16>,
    pub(super) unix_paths: FxHashMap<u64, String>,
    pub(super) peers: FxHashMap<u64, u64>,
    /// Connections to other machines.
    pub(super) remote: FxHashSet<u64>,
    /// Processes that have a socket or pipe open, by its number.
    pub(super) owners: FxHashMap<u64, BTreeMap<u32, Owner>>,
}

/// A process that has a socket or an end of a pipe open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) name: String,
    pub(super) reads: bool,
    pub(super) writes: bool,
}

impl Found {
    /// Adds what sockets answered; what was found in the tables counts.
    pub(in crate::off_cpu::descriptors) fn add_seen(
        &mut self,
        sockets: impl Iterator<Item = (u64, SocketEnds)>,
    ) {
        for (inode, ends) in sockets {
            match ends {
                SocketEnds::Inet { local, remote, is_listening, .. } => {
                    let nobody = SocketAddr::new(local.ip(), 0);
                    let remote = remote.unwrap_or(nobody);
                    self.inet.entry(inode).or_insert(InetSocket { local, remote, is_listening, inode });
                }
                SocketEnds::Other(family) => drop(self.families.insert(inode, family)),
            }
        }
    }

    pub(super) fn look_for(&mut self, new: &[WantedEnd], single: &mut SingleSockets) {
        single.begin_look();
        let mut wanted: FxHashSet<u64> = new.iter().filter_map(|of| inode_of(&of.link)).collect();
        let sockets = new.iter().filter(|of| of.link.starts_with("socket:"));
        let in_tables: Vec<&WantedEnd> = sockets.filter(|of| !self.ask_for(of, single)).collect();
        for pid in one_process_by_namespace(in_tables.iter().filter(|of| !of.is_unix())) {
            self.read_inet_tables(pid);
        }
        for pid in one_process_by_namespace(in_tables.iter().filter(|of| of.may_be_unix())) {
            self.unix_paths.extend(parse_unix(&table_of(pid, "unix")));
        }
        if in_tables.iter().any(|of| of.may_be_unix()) {
            let diag = unix_peers().unwrap_or_default();
            self.peers.extend(diag.into_iter().map(|(one, other)| (u64::from(one), u64::from(other))));
        }
        wanted.extend(wanted.clone().iter().filter_map(|inode| self.peers.get(inode)));
        self.find_owners(&wanted);
    }

    /// Asks for a single socket; false if only the kernel's tables can show its other end.
    fn ask_for(&mut self, of: &WantedEnd, single: &mut SingleSockets) -> bool {
        let Some(inode) = inode_of(&of.link) else { return true };
        match of.ends {
            Some(SocketEnds::Inet { local, remote: None, is_listening, .. }) => {
                if is_listening {
                    self.listening.insert(local.port());
                }
                true
            }
            Some(SocketEnds::Inet { local, remote: Some(remote), protocol: libc::IPPROTO_TCP, .. }) => {
                let Some(ends) = single.ends_of(of.pid, local, remote) else { return false };
                if ends.is_server {
                    self.listening.insert(local.port());
                }
                match ends.peer {
                    // 0: not accepted yet, or closed already. Then what was seen before still holds.
                    Some(peer) if peer.inode != 0 && !peer.is_listening => {
                        self.peers.insert(inode, peer.inode);
                    }
                    Some(_) => {}
                    None => {
                        self.remote.insert(inode);
                    }
                }
                true
            }
            Some(SocketEnds::Other(family)) => family != libc::AF_UNIX,
            _ => false,
        }
    }

    /// The sockets of the network namespace of `pid`, and which are peers of each other.
    fn read_inet_tables(&mut self, pid: u32) {
        let sockets: Vec<InetSocket> =
            TABLES.iter().flat_map(|table| parse_inet(&table_of(pid, table))).collect();
        let by_ends: FxHashMap<_, u64> = sockets.iter().map(|of| ((of.local, of.remote), of.inode)).collect();
        for socket in sockets.into_iter().filter(|socket| socket.inode != 0) {
            if socket.is_listening {
                self.listening.insert(socket.local.port());
            }
            // 0: not accepted yet, or closed already. Then what was seen before still holds.
            if let Some(&peer) = by_ends.get(&(socket.remote, socket.local)).filter(|peer| **peer != 0) {
                self.peers.insert(socket.inode, peer);
            }
            self.inet.insert(socket.inode, socket);
        }
    }

    fn find_owners(&mut self, wanted: &FxHashSet<u64>) {
        for pid in proc::pids() {
            let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            for entry in entries {
                let link = std::fs::read_link(entry.path()).unwrap_or_default();
                let Some(inode) = link.to_str().and_then(inode_of) else { continue };
                if !wanted.contains(&inode) {
                    continue;
                }
                // The link's own rights are those of the descriptor.
                let mode = entry.metadata().map_or(0, |of| of.permissions().mode());
                let owners = self.owners.entry(inode).or_default();
                let owner = owners.entry(pid).or_insert_with(|| Owner {
                    name: command_of(pid),
                    reads: false,
                    writes: false,
                });
                owner.reads |= mode & 0o400 != 0;
                owner.writes |= mode & 0o200 != 0;
            }
        }
    }

    /// True if another process is known that has the other end, or none can be.
    pub(super) fn is_settled(&self, wanted: &WantedEnd) -> bool {
        let WantedEnd { pid, link, ends } = wanted;
        let Some(inode) = inode_of(link) else { return true };
        let has_none = matches!(ends, Some(SocketEnds::Inet { remote: None, .. }))
            || matches!(ends, Some(SocketEnds::Other(family)) if *family != libc::AF_UNIX)
            || self.remote.contains(&inode)
            || self.inet.get(&inode).is_some_and(|socket| socket.is_listening);
        let end = if link.starts_with("socket:") { self.peers.get(&inode).copied() } else { Some(inode) };
        let owners = end.and_then(|end| self.owners.get(&end));
        has_none || owners.is_some_and(|owners| owners.keys().any(|owner| owner != pid))
    }

    /// Forgets all but these sockets and pipes, and their peers.
    pub(super) fn keep(&mut self, inodes: &FxHashSet<u64>) {
        self.peers.retain(|inode, _| inodes.contains(inode));
        let peers: FxHashSet<u64> = self.peers.values().copied().collect();
        let is_kept = |inode: &u64| inodes.contains(inode) || peers.contains(inode);
        self.inet.retain(|inode, _| is_kept(inode));
        self.families.retain(|inode, _| is_kept(inode));
        self.unix_paths.retain(|inode, _| is_kept(inode));
        self.remote.retain(is_kept);
        self.owners.retain(|inode, _| is_kept(inode));
    }

    /// Processes that have the other end of a descriptor with this link, ascending; of a pipe all that have it.
    pub(in crate::off_cpu::descriptors) fn other_pids(&self, link: &str) -> Vec<u32> {
        let Some(inode) = inode_of(link) else { return Vec::new() };
        let end = if link.starts_with("socket:") { self.peers.get(&inode).copied() } else { Some(inode) };
        let owners = end.and_then(|end| self.owners.get(&end));
        owners.map_or_else(Vec::new, |owners| owners.keys().copied().collect())
    }

    /// Description of the descriptor with this link of process `pid`.
    pub(in crate::off_cpu::descriptors) fn name(&self, pid: u32, link: &str) -> String {
        match inode_of(link) {
            Some(inode) if link.starts_with("socket:") => self.socket(pid, inode),
            Some(inode) => self.pipe(pid, inode),
            None => match link.strip_prefix("anon_inode:") {
                Some(kind) => kind.trim_matches(['[', ']']).to_owned(),
                None => link.to_owned(),
            },
        }
    }

    fn socket(&self, pid: u32, inode: u64) -> String {
        let peer_inode = self.peers.get(&inode);
        let peer = peer_inode.map_or_else(String::new, |peer| self.owners_text(*peer, pid, |_| true));
        let in_brackets = if peer.is_empty() { String::new() } else { format!(" ({peer})") };
        let Some(inet) = self.inet.get(&inode) else {
            let paths = [Some(&inode), peer_inode].map(|inode| self.unix_paths.get(inode?));
            return match paths {
                [Some(path), _] if peer.is_empty() && peer_inode.is_some() => format!("socket {path}"),
                [Some(path), _] if peer_inode.is_some() => format!("socket {path} from {peer}"),
                [Some(path), _] => format!("connections to {path}"),
                [_, Some(path)] => format!("socket to {path}{in_brackets}"),
                _ => match self.family(inode) {
                    Some(family) => format!("{family} socket"),
                    None if peer.is_empty() => "socket".to_owned(),
                    None => format!("socket to {peer}"),
                },
            };
        };
        let InetSocket { local, remote, is_listening, .. } = *inet;
        match (is_listening, remote.port()) {
            (true, _) => format!("connections to port {}", local.port()),
            (_, 0) => format!("socket at port {}", local.port()),
            _ if self.listening.contains(&local.port()) => {
                format!("socket {} from {}{in_brackets}", local.port(), remote.ip())
            }
            _ => format!("socket to {remote}{in_brackets}"),
        }
    }

    /// Name of the family of a socket without addresses and paths.
    fn family(&self, inode: u64) -> Option<&'static str> {
        match *self.families.get(&inode)? {
            libc::AF_NETLINK => Some("netlink"),
            libc::AF_PACKET => Some("packet"),
            libc::AF_VSOCK => Some("vsock"),
            libc::AF_ALG => Some("crypto"),
            _ => None,
        }
    }

    fn pipe(&self, pid: u32, inode: u64) -> String {
        let own = self.owners.get(&inode).and_then(|owners| owners.get(&pid));
        let (is_read, is_written) = own.map_or((false, false), |own| (own.reads, own.writes));
        let (kind, other) = match (is_read, is_written) {
            (true, false) => ("pipe from", self.owners_text(inode, pid, |other| other.writes)),
            (false, true) => ("pipe to", self.owners_text(inode, pid, |other| other.reads)),
            _ => ("pipe with", self.owners_text(inode, pid, |_| true)),
        };
        if other.is_empty() { "pipe".to_owned() } else { format!("{kind} {other}") }
    }

    /// `postgres 812`, `sh 9 and 3 more`; empty if nobody is known.
    fn owners_text(&self, inode: u64, own: u32, is_meant: impl Fn(&Owner) -> bool) -> String {
        let owners = self.owners.get(&inode);
        let others = owners.into_iter().flatten().filter(|(_, owner)| is_meant(owner));
        let mut others: Vec<(u32, &Owner)> = others.map(|(&pid, owner)| (pid, owner)).collect();
        // The process itself only where no other has the other end, as between two of its threads.
        if others.iter().any(|(pid, _)| *pid != own) {
            others.retain(|(pid, _)| *pid != own);
        }
        match others[..] {
            [] => String::new(),
            [(pid, _)] if pid == own => "the process itself".to_owned(),
            [(pid, owner)] => format!("{} {pid}", owner.name),
            [(pid, owner), ..] => format!("{} {pid} and {} more", owner.name, others.len() - 1),
        }
    }
}

fn command_of(pid: u32) -> String {
    let status = proc::status(pid);
    status.map_or_else(String::new, |status| String::from_utf8_lossy(&status.comm).into_owned())
}

/// One process of each network namespace, by which its tables are read.
fn one_process_by_namespace<'a>(new: impl Iterator<Item = &'a &'a WantedEnd>) -> Vec<u32> {
    let mut seen = FxHashSet::default();
    let pids: FxHashSet<u32> = new.map(|of| of.pid).collect();
    let namespace = |pid: &u32| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let mut pids: Vec<u32> = pids.into_iter().collect();
    pids.sort_unstable();
    pids.into_iter().filter(|pid| namespace(pid).is_some_and(|ns| seen.insert(ns))).collect()
}

/// A table of the network namespace of `pid`.
fn table_of(pid: u32, table: &str) -> String {
    dso::system_file::read_text(format!("/proc/{pid}/net/{table}")).unwrap_or_default()
}
