//! Other ends of sockets and pipes: a look at all processes, by a thread of its own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};

use super::sockets::{InetSocket, parse_inet, parse_unix};
use crate::machine::proc;
use crate::sys::open_socket::SocketEnds;
use crate::sys::socket_diag::unix_peers;
use crate::sys::time::thread_cpu_ns;

/// From a socket's first wait to the look: a connection that is just being made is whole by then.
const FIRST_AFTER: Duration = Duration::from_millis(3);
/// Pauses before one looks again for other ends that were not found.
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LAST_RETRY: Duration = Duration::from_secs(2);

/// All looks together may take so much of a CPU: this at once, and one part in a hundred of the time.
const FREE_NS: u64 = 30_000_000;
const ONE_PART_IN: u64 = 100;

/// The tables of one network namespace.
const TABLES: [&str; 4] = ["tcp", "tcp6", "udp", "udp6"];

/// Looks for the other ends of sockets and pipes that are wanted.
#[derive(Debug, Default)]
pub(super) struct OtherEnds {
    shared: Arc<Shared>,
    looker: Option<std::thread::JoinHandle<Found>>,
    wanted: FxHashSet<String>,
}

#[derive(Debug, Default)]
struct Shared {
    asked: Mutex<Asked>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Asked {
    /// Links like `socket:[81925]`, each with a process that has it.
    new: Vec<(u32, String)>,
    is_over: bool,
}

/// Results of the looks.
#[derive(Debug, Default)]
pub(super) struct Found {
    inet: FxHashMap<u64, InetSocket>,
    /// Families of those without addresses and paths.
    families: FxHashMap<u64, i32>,
    listening: FxHashSet<u16>,
    unix_paths: FxHashMap<u64, String>,
    peers: FxHashMap<u64, u64>,
    /// Processes that have a socket or pipe open, by its number.
    owners: FxHashMap<u64, BTreeMap<u32, Owner>>,
}

/// A process that has a socket or an end of a pipe open.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Owner {
    name: String,
    reads: bool,
    writes: bool,
}

impl OtherEnds {
    /// A descriptor of `pid` with this link is waited for.
    pub(super) fn want(&mut self, pid: u32, link: &str) {
        if inode_of(link).is_none() || !self.wanted.insert(link.to_owned()) {
            return;
        }
        let mut asked = self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.new.push((pid, link.to_owned()));
        drop(asked);
        self.shared.changed.notify_one();
        if self.looker.is_none() {
            let shared = Arc::clone(&self.shared);
            let looker = std::thread::Builder::new().name("tally-names".to_owned());
            // Without it they keep their kind as name.
            self.looker = looker.spawn(move || look_until_over(&shared)).ok();
        }
    }

    /// Results, after a last look at new descriptors.
    pub(super) fn finish(self) -> Found {
        self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner).is_over = true;
        self.shared.changed.notify_one();
        self.looker.and_then(|looker| looker.join().ok()).unwrap_or_default()
    }
}

fn look_until_over(shared: &Shared) -> Found {
    let mut found = Found::default();
    let begin = Instant::now();
    // A connection that nobody has accepted yet has no other end: it is looked for again, later and later.
    let mut again: Vec<(u32, String)> = Vec::new();
    let mut retry_after = FIRST_RETRY;
    loop {
        let retry = (!again.is_empty() && retry_after <= LAST_RETRY).then_some(retry_after);
        let (new, is_over) = wait_for_new(shared, pause_after(thread_cpu_ns(), begin.elapsed()), retry);
        retry_after = if new.is_empty() { retry_after * 2 } else { FIRST_RETRY };
        again.extend(new);
        if !again.is_empty() {
            found.look_for(&again);
            again.retain(|(pid, link)| !found.has_other_end(*pid, link));
        }
        if is_over {
            return found;
        }
    }
}

/// How long to wait with the next look when all so far took `spent_ns` of a CPU.
fn pause_after(spent_ns: u64, elapsed: Duration) -> Duration {
    let due = Duration::from_nanos(spent_ns.saturating_sub(FREE_NS).saturating_mul(ONE_PART_IN));
    due.saturating_sub(elapsed).max(FIRST_AFTER)
}

/// Waits until something is wanted, or for `retry`, and then for the pause unless recording ends.
fn wait_for_new(shared: &Shared, pause: Duration, retry: Option<Duration>) -> (Vec<(u32, String)>, bool) {
    let asked = shared.asked.lock().unwrap_or_else(PoisonError::into_inner);
    let is_idle = |asked: &mut Asked| asked.new.is_empty() && !asked.is_over;
    let forever = Duration::from_secs(1 << 30);
    let idle = shared.changed.wait_timeout_while(asked, retry.unwrap_or(forever), is_idle);
    let (asked, _) = idle.unwrap_or_else(PoisonError::into_inner);
    let waited = shared.changed.wait_timeout_while(asked, pause, |asked| !asked.is_over);
    let (mut asked, _) = waited.unwrap_or_else(PoisonError::into_inner);
    (std::mem::take(&mut asked.new), asked.is_over)
}

/// The number in `socket:[81925]` and `pipe:[81926]`.
pub(super) fn inode_of(link: &str) -> Option<u64> {
    let number = link.strip_prefix("socket:[").or_else(|| link.strip_prefix("pipe:["))?;
    number.strip_suffix(']')?.parse().ok()
}

impl Found {
    /// Adds what sockets answered; what was found in the tables counts.
    pub(super) fn add_seen(&mut self, sockets: impl Iterator<Item = (u64, SocketEnds)>) {
        for (inode, ends) in sockets {
            match ends {
                SocketEnds::Inet { local, remote, is_listening } => {
                    let nobody = SocketAddr::new(local.ip(), 0);
                    let remote = remote.unwrap_or(nobody);
                    self.inet.entry(inode).or_insert(InetSocket { local, remote, is_listening, inode });
                }
                SocketEnds::Other(family) => drop(self.families.insert(inode, family)),
            }
        }
    }

    fn look_for(&mut self, new: &[(u32, String)]) {
        let mut wanted: FxHashSet<u64> = new.iter().filter_map(|(_, link)| inode_of(link)).collect();
        if new.iter().any(|(_, link)| link.starts_with("socket:")) {
            for pid in one_process_by_namespace(new) {
                self.read_tables(pid);
            }
            let diag = unix_peers().unwrap_or_default();
            self.peers.extend(diag.into_iter().map(|(one, other)| (u64::from(one), u64::from(other))));
            wanted.extend(wanted.clone().iter().filter_map(|inode| self.peers.get(inode)));
        }
        self.find_owners(&wanted);
    }

    /// The sockets of the network namespace of `pid`, and which are peers of each other.
    fn read_tables(&mut self, pid: u32) {
        let read =
            |table: &str| dso::system_file::read_text(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        let sockets: Vec<InetSocket> = TABLES.iter().flat_map(|table| parse_inet(&read(table))).collect();
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
        self.unix_paths.extend(parse_unix(&read("unix")));
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

    /// Whether another process is known that has the other end.
    fn has_other_end(&self, pid: u32, link: &str) -> bool {
        let Some(inode) = inode_of(link) else { return true };
        let is_listening = self.inet.get(&inode).is_some_and(|socket| socket.is_listening);
        let end = if link.starts_with("socket:") { self.peers.get(&inode).copied() } else { Some(inode) };
        let owners = end.and_then(|end| self.owners.get(&end));
        is_listening || owners.is_some_and(|owners| owners.keys().any(|owner| *owner != pid))
    }

    /// Processes that have the other end of a descriptor with this link, ascending; of a pipe all that have it.
    pub(super) fn other_pids(&self, link: &str) -> Vec<u32> {
        let Some(inode) = inode_of(link) else { return Vec::new() };
        let end = if link.starts_with("socket:") { self.peers.get(&inode).copied() } else { Some(inode) };
        let owners = end.and_then(|end| self.owners.get(&end));
        owners.map_or_else(Vec::new, |owners| owners.keys().copied().collect())
    }

    /// Description of the descriptor with this link of process `pid`.
    pub(super) fn name(&self, pid: u32, link: &str) -> String {
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
fn one_process_by_namespace(new: &[(u32, String)]) -> Vec<u32> {
    let mut seen = FxHashSet::default();
    let pids: FxHashSet<u32> = new.iter().map(|(pid, _)| *pid).collect();
    let namespace = |pid: &u32| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let mut pids: Vec<u32> = pids.into_iter().collect();
    pids.sort_unstable();
    pids.into_iter().filter(|pid| namespace(pid).is_some_and(|ns| seen.insert(ns))).collect()
}

#[cfg(test)]
mod tests;
