//! TCP sockets whose other ends the kernel is asked for one by one, in place of its tables.

use std::net::SocketAddr;
use std::path::PathBuf;

use rustc_hash::FxHashMap;

use crate::sys::inet_diag::{TcpSocket, TcpSockets};

/// Looks for single TCP sockets of our own network namespace.
#[derive(Debug)]
pub(super) struct SingleSockets {
    sockets: Option<TcpSockets>,
    own_namespace: Option<PathBuf>,
    /// Processes of this look, and whether they are in our namespace.
    are_own: FxHashMap<u32, bool>,
    /// The kernel has found a socket: it has a monitor of TCP sockets.
    has_answered: bool,
}

/// An answer about a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConnectionEnds {
    /// The other end, if it is on this machine.
    pub peer: Option<TcpSocket>,
    /// The own address is one that connections are made to.
    pub is_server: bool,
}

impl Default for SingleSockets {
    fn default() -> Self {
        Self {
            sockets: TcpSockets::open().ok(),
            own_namespace: std::fs::read_link("/proc/self/ns/net").ok(),
            are_own: FxHashMap::default(),
            has_answered: false,
        }
    }
}

impl SingleSockets {
    /// A new look: a process id may be that of another process by now.
    pub(super) fn begin_look(&mut self) {
        self.are_own.clear();
    }

    /// The other end of a connection of process `pid`; `None` if only the tables show it.
    pub(super) fn ends_of(
        &mut self,
        pid: u32,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Option<ConnectionEnds> {
        let Self { sockets, own_namespace, are_own, has_answered } = self;
        let sockets = sockets.as_ref()?;
        let is_own = are_own.entry(pid).or_insert_with(|| {
            let of_process = std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
            of_process.is_some() && of_process == *own_namespace
        });
        if !*is_own {
            return None;
        }
        let peer = sockets.find(remote, local).ok()?;
        let nobody = SocketAddr::new(local.ip(), 0);
        let server = sockets.find(local, nobody).ok()?;
        // A kernel without a monitor of TCP sockets gives the same answer as for a socket that is not there.
        if !*has_answered && peer.or(server).or(sockets.find(local, remote).ok()?).is_none() {
            return None;
        }
        *has_answered = true;
        Some(ConnectionEnds { peer, is_server: server.is_some_and(|server| server.is_listening) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_within_this_machine_has_a_peer_and_knows_its_server() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("bound");
        let client = TcpStream::connect(at).expect("a connection");
        let (_server, from) = listener.accept().expect("a connection");
        let mut sockets = SingleSockets::default();
        let (pid, local) = (std::process::id(), client.local_addr().expect("bound"));
        let Some(of_client) = sockets.ends_of(pid, local, at) else {
            println!("skipped: no monitor of TCP sockets here");
            return;
        };
        assert!(of_client.peer.is_some_and(|peer| peer.inode != 0) && !of_client.is_server);
        assert!(sockets.ends_of(pid, at, from).is_some_and(|ends| ends.peer.is_some() && ends.is_server));
        let elsewhere = "192.0.2.7:80".parse().expect("an address");
        let nobody = ConnectionEnds { peer: None, is_server: false };
        assert_eq!(sockets.ends_of(pid, local, elsewhere), Some(nobody));
    }
}
