use super::found::Owner;
use super::*;
use crate::off_cpu::descriptors::sockets::InetSocket;

fn owner(name: &str, reads: bool, writes: bool) -> Owner {
    Owner { name: name.to_owned(), reads, writes }
}

#[test]
fn looks_that_took_long_are_seldom() {
    let ms = Duration::from_millis;
    assert_eq!(pause_after(5_000_000, ms(10), 100), FIRST_AFTER);
    assert_eq!(pause_after(40_000_000, ms(100), 100), ms(900));
    assert_eq!(pause_after(40_000_000, ms(5000), 100), FIRST_AFTER);
    assert_eq!(pause_after(40_000_000, ms(100), 500), ms(4900));
}

#[test]
fn a_pipe_is_named_after_who_has_its_other_end() {
    let mut found = Found::default();
    found.owners.insert(7, [(10, owner("tar", false, true)), (11, owner("gzip", true, false))].into());
    assert_eq!(found.name(11, "pipe:[7]"), "pipe from tar 10");
    assert_eq!(found.name(10, "pipe:[7]"), "pipe to gzip 11");
    assert_eq!(found.name(10, "pipe:[8]"), "pipe");
    found.owners.insert(8, [(10, owner("make", true, true)), (12, owner("cc", true, true))].into());
    assert_eq!(found.name(10, "pipe:[8]"), "pipe with cc 12");
    found.owners.insert(9, [(10, owner("node", true, true))].into());
    assert_eq!(found.name(10, "pipe:[9]"), "pipe with the process itself");
}

#[test]
fn a_socket_is_named_after_its_peer() {
    let address = |text: &str| text.parse().expect("an address");
    let socket = |local: &str, remote: &str, inode, is_listening| InetSocket {
        local: address(local),
        remote: address(remote),
        is_listening,
        inode,
    };
    let mut found = Found::default();
    found.inet.insert(1, socket("127.0.0.1:5432", "0.0.0.0:0", 1, true));
    found.inet.insert(2, socket("127.0.0.1:5432", "127.0.0.1:40000", 2, false));
    found.inet.insert(3, socket("127.0.0.1:40000", "127.0.0.1:5432", 3, false));
    found.inet.insert(4, socket("10.0.0.2:40001", "10.0.0.5:80", 4, false));
    found.listening.insert(5432);
    found.peers.extend([(2, 3), (3, 2)]);
    found.owners.insert(2, [(812, owner("postgres", true, true))].into());
    found.owners.insert(3, [(900, owner("pgbench", true, true))].into());
    assert_eq!(found.name(811, "socket:[1]"), "connections to port 5432");
    assert_eq!(found.name(812, "socket:[2]"), "socket 5432 from 127.0.0.1 (pgbench 900)");
    assert_eq!(found.name(900, "socket:[3]"), "socket to 127.0.0.1:5432 (postgres 812)");
    assert_eq!(found.name(900, "socket:[4]"), "socket to 10.0.0.5:80");
    assert_eq!(found.name(900, "socket:[5]"), "socket");
}

#[test]
fn a_unix_socket_has_the_path_of_its_server() {
    let mut found = Found::default();
    found.unix_paths.insert(2, "/run/app.sock".to_owned());
    found.peers.extend([(2, 3), (3, 2)]);
    found.owners.insert(2, [(5, owner("server", true, true))].into());
    found.owners.insert(3, [(6, owner("client", true, true))].into());
    assert_eq!(found.name(6, "socket:[3]"), "socket to /run/app.sock (server 5)");
    assert_eq!(found.name(5, "socket:[2]"), "socket /run/app.sock from client 6");
    assert_eq!(found.name(5, "/var/log/a"), "/var/log/a");
    assert_eq!(found.name(5, "anon_inode:[eventfd]"), "eventfd");
}

#[test]
fn a_connection_that_was_closed_before_the_look_has_the_addresses_that_it_answered_with() {
    let address = |text: &str| text.parse().expect("an address");
    let ends = |local, remote, is_listening| SocketEnds::Inet {
        local: address(local),
        remote,
        is_listening,
        protocol: libc::IPPROTO_TCP,
    };
    let mut found = Found::default();
    found.listening.insert(80);
    let seen = [
        (1, ends("127.0.0.1:40000", Some(address("127.0.0.1:80")), false)),
        (2, ends("127.0.0.1:80", Some(address("10.0.0.7:40000")), false)),
        (3, ends("127.0.0.1:80", None, true)),
        (4, SocketEnds::Other(libc::AF_NETLINK)),
        (5, SocketEnds::Other(libc::AF_UNIX)),
    ];
    found.add_seen(seen.into_iter());
    let names = [1, 2, 3, 4, 5].map(|inode| found.name(9, &format!("socket:[{inode}]")));
    let wanted = [
        "socket to 127.0.0.1:80",
        "socket 80 from 10.0.0.7",
        "connections to port 80",
        "netlink socket",
        "socket",
    ];
    assert_eq!(names, wanted);
}
