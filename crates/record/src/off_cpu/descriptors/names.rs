//! Names of sets of descriptors: those of an epoll, and those of a call of `poll` or `select`.

use super::open_file::OpenFile;

/// The name of a descriptor or a set, by the names of the links.
pub(super) fn name_of(file: &OpenFile, of_link: &dyn Fn(&str) -> String) -> String {
    let Some(members) = &file.members else { return of_link(&file.link) };
    let kind = if file.link.starts_with("anon_inode:") { "epoll" } else { &file.link };
    let mut names: Vec<String> = members.links.iter().map(|link| of_link(link)).collect();
    names.sort_by_key(|name| rank(name));
    let connected: Vec<&String> = names.iter().filter(|name| rank(name) == 0).collect();
    match (&names[..], members.count) {
        ([], count) => format!("{kind} of {count} descriptors"),
        ([only], 1) if kind == "epoll" => format!("epoll of {only}"),
        // As good as a read of it.
        ([only], 1) => only.clone(),
        // Without a count: connections come and go, and it is still the same loop.
        _ if connected.len() > 1 => format!("{kind} of {}", sockets(&connected)),
        ([first, ..], count) => format!("{kind} of {first} (and {} more)", count.saturating_sub(1)),
    }
}

/// `sockets 6379 from 127.0.0.1 (redis-benchmark 7)`, or one of several that differ.
fn sockets(connected: &[&String]) -> String {
    let first = connected[0];
    match connected.iter().all(|name| *name == first) {
        true => first.replacen("socket", "sockets", 1),
        false => format!("{} and other sockets", most_frequent(connected)),
    }
}

fn most_frequent<'a>(names: &[&'a String]) -> &'a str {
    let count = |wanted: &String| names.iter().filter(|name| **name == wanted).count();
    let first_of_most = names.iter().rev().max_by_key(|name| count(name));
    first_of_most.map_or("", |name| name)
}

/// Connections say most about what an event loop waits for, its own alarms and wake-ups least.
fn rank(name: &str) -> usize {
    const KINDS: [&str; 3] = ["socket", "connections", "pipe"];
    const LAST: [&str; 4] = ["eventfd", "timerfd", "signalfd", "inotify"];
    if is_inherited(name) {
        return KINDS.len();
    }
    let kind = KINDS.iter().position(|kind| name.starts_with(kind));
    kind.unwrap_or(if LAST.contains(&name) { KINDS.len() + 1 } else { KINDS.len() })
}

/// True for one of a pair of sockets that a program made for its own processes: several have the other end.
fn is_inherited(name: &str) -> bool {
    let to = name.strip_prefix("socket to ");
    to.is_some_and(|to| !to.starts_with('/') && !to.contains(':') && to.ends_with(" more"))
}

#[cfg(test)]
mod tests {
    use super::super::open_file::Members;
    use super::*;

    fn set(kind: &str, links: &[&str]) -> OpenFile {
        let members =
            Members { count: links.len(), links: links.iter().map(|link| (*link).to_owned()).collect() };
        OpenFile { link: kind.to_owned(), members: Some(members) }
    }

    #[test]
    fn an_epoll_is_named_after_the_connection_among_its_descriptors() {
        let name = |links: &[&str]| name_of(&set("anon_inode:[eventpoll]", links), &str::to_owned);
        assert_eq!(name(&["pipe:[7]"]), "epoll of pipe:[7]");
        assert_eq!(name(&[]), "epoll of 0 descriptors");
        assert_eq!(
            name(&["eventfd", "pipe from sh 1", "socket to a 2"]),
            "epoll of socket to a 2 (and 2 more)"
        );
        assert_eq!(name(&["eventfd", "/dev/null"]), "epoll of /dev/null (and 1 more)");
        let file = OpenFile { link: "/tmp/a".to_owned(), members: None };
        assert_eq!(name_of(&file, &str::to_owned), "/tmp/a");
    }

    #[test]
    fn connections_of_one_peer_are_named_once_however_many_they_are() {
        let name = |links: &[&str]| name_of(&set("anon_inode:[eventpoll]", links), &str::to_owned);
        assert_eq!(name(&["eventfd", "socket 80 from a", "socket 80 from a"]), "epoll of sockets 80 from a");
        let differing = ["socket to b 3", "socket to a 2", "socket to a 2", "eventfd"];
        assert_eq!(name(&differing), "epoll of socket to a 2 and other sockets");
    }

    #[test]
    fn sockets_between_the_processes_of_a_server_say_less_than_its_connections() {
        let name = |links: &[&str]| name_of(&set("anon_inode:[eventpoll]", links), &str::to_owned);
        let pair = "socket to nginx 7 and 1 more";
        assert_eq!(name(&[pair, "connections to port 80"]), "epoll of connections to port 80 (and 1 more)");
        assert_eq!(name(&[pair, "socket 80 from a", "eventfd"]), "epoll of socket 80 from a (and 2 more)");
        assert_eq!(name(&[pair, "eventfd"]), "epoll of socket to nginx 7 and 1 more (and 1 more)");
    }

    #[test]
    fn a_poll_of_one_descriptor_is_named_like_a_read_of_it() {
        let name = |links: &[&str]| name_of(&set("poll", links), &str::to_owned);
        assert_eq!(name(&["socket to a 2"]), "socket to a 2");
        assert_eq!(name(&["pipe from b 1", "socket to a 2"]), "poll of socket to a 2 (and 1 more)");
    }
}
