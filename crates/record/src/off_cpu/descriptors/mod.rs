//! Names of the descriptors that threads wait for: files, sockets with their peers, pipes with their other ends.
//!
//! What a descriptor refers to is read when a wait for it becomes a sample, within milliseconds of its end. Finding
//! the process at the other end takes a look at all processes; a thread of its own does that, seldom.

mod other_ends;
pub(crate) mod sockets;

use perfdata::appendix::descriptors::{NamedDescriptor, NamedDescriptors};
use rustc_hash::FxHashMap;
use syscalls::table::CallTable;

use crate::machine::proc;

use super::layout::{OffCpuRecord, SiteSums};
use super::proc_sampler::ProcSample;
use super::registers::syscall_of;
use other_ends::OtherEnds;

/// More descriptors than these stay without name: a program that opens files all the time has no end of them.
const MOST_NAMES: usize = 20_000;
/// Of an epoll's descriptors so many are looked at.
const MOST_MEMBERS: usize = 64;
/// Of so many the other ends are looked for.
const MOST_MEMBERS_FOLLOWED: usize = 8;

/// The descriptors of one recording.
#[derive(Debug)]
pub struct Descriptors {
    /// Numbers of the system calls whose first argument is a descriptor.
    calls: Vec<u32>,
    /// By process and number: what it was at the last look.
    current: FxHashMap<(u32, u32), OpenFile>,
    seen: Vec<SeenDescriptor>,
    other_ends: OtherEnds,
}

/// What a link in `/proc/PID/fd` shows, and for epoll how many descriptors it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OpenFile {
    link: String,
    /// `None` for all but epoll.
    members: Option<EpollMembers>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct EpollMembers {
    count: usize,
    /// Links of the first of them, by number.
    links: Vec<String>,
}

#[derive(Debug)]
struct SeenDescriptor {
    pid: u32,
    number: u32,
    since_ns: u64,
    file: OpenFile,
}

/// The system call that a thread waited in.
struct WaitingCall {
    pid: u32,
    syscall: Option<u32>,
    /// Its first.
    argument: u64,
    since_ns: u64,
}

impl Default for Descriptors {
    /// Reads the table of calls: not while threads are looked at, whose looks are the rarer the longer they take.
    fn default() -> Self {
        Self {
            calls: calls_with_descriptor(),
            current: FxHashMap::default(),
            seen: Vec::new(),
            other_ends: OtherEnds::default(),
        }
    }
}

fn calls_with_descriptor() -> Vec<u32> {
    let table = CallTable::of_this_processor();
    let takes_descriptor = |nr: &u16| {
        let signature = table.of(*nr);
        signature.and_then(|signature| signature.arguments.first()).is_some_and(|first| first.is_fd())
    };
    table.names().map(|(nr, _)| nr).filter(takes_descriptor).map(u32::from).collect()
}

impl Descriptors {
    /// A record of the engine: looks at the descriptor that its wait was for.
    pub fn note(&mut self, record: &OffCpuRecord<'_>) {
        match record {
            OffCpuRecord::Sample(sample) => {
                let (syscall, args) = syscall_of(sample.regs());
                let (pid, since_ns) = (sample.pid(), sample.since_ns());
                self.look_at(&WaitingCall { pid, syscall, argument: args[0], since_ns });
            }
            OffCpuRecord::Rest(rest) => {
                let SiteSums { pid, syscall, arg: argument, since_ns, .. } = rest.sums;
                self.look_at(&WaitingCall { pid, syscall, argument, since_ns });
            }
            _ => {}
        }
    }

    /// A thread that was seen waiting.
    pub fn note_look(&mut self, look: &ProcSample) {
        let ProcSample { pid, syscall, args, time_ns: since_ns, .. } = *look;
        self.look_at(&WaitingCall { pid, syscall, argument: args[0], since_ns });
    }

    fn look_at(&mut self, call: &WaitingCall) {
        let WaitingCall { pid, syscall, argument, since_ns } = *call;
        let Some(number) = u32::try_from(argument).ok().filter(|number| *number < 1 << 20) else { return };
        let takes_one = syscall.is_some_and(|syscall| self.calls.contains(&syscall));
        if !takes_one || pid == 0 || self.seen.len() >= MOST_NAMES {
            return;
        }
        // Closed since, or the process has ended: what was seen before still holds for the time before.
        let Some(file) = open_file(pid, number) else { return };
        if self.current.get(&(pid, number)) == Some(&file) {
            return;
        }
        let members = file.members.iter().flat_map(|members| &members.links);
        for link in std::iter::once(&file.link).chain(members.take(MOST_MEMBERS_FOLLOWED)) {
            self.other_ends.want(pid, link);
        }
        self.current.insert((pid, number), file.clone());
        self.seen.push(SeenDescriptor { pid, number, since_ns, file });
    }

    /// All names, once recording has ended.
    #[must_use]
    pub fn finish(self) -> NamedDescriptors {
        let Self { calls, seen, other_ends, .. } = self;
        let ends = other_ends.finish();
        let name = |seen: SeenDescriptor| NamedDescriptor {
            pid: seen.pid,
            number: seen.number,
            since_ns: seen.since_ns,
            name: name_of(&seen.file, &|link| ends.name(seen.pid, link)),
        };
        let mut all: Vec<_> = seen.into_iter().map(name).collect();
        all.sort_by_key(|named| (named.pid, named.number, named.since_ns));
        NamedDescriptors { calls, all }
    }
}

fn name_of(file: &OpenFile, of_link: &dyn Fn(&str) -> String) -> String {
    let Some(EpollMembers { count, links }) = &file.members else { return of_link(&file.link) };
    let mut names: Vec<String> = links.iter().map(|link| of_link(link)).collect();
    names.sort_by_key(|name| rank(name));
    let connected = names.iter().filter(|name| rank(name) == 0).count();
    match (names.first(), count) {
        (None, _) => format!("epoll of {count} descriptors"),
        (Some(only), 1) => format!("epoll of {only}"),
        (Some(_), _) if connected > 1 => format!("epoll of {count} descriptors (mostly sockets)"),
        (Some(first), _) => format!("epoll of {first} (and {} more)", count - 1),
    }
}

/// Connections say most about what an event loop waits for, its own alarms and wake-ups least.
fn rank(name: &str) -> usize {
    const KINDS: [&str; 3] = ["socket", "connections", "pipe"];
    const LAST: [&str; 4] = ["eventfd", "timerfd", "signalfd", "inotify"];
    let kind = KINDS.iter().position(|kind| name.starts_with(kind));
    kind.unwrap_or(if LAST.contains(&name) { KINDS.len() + 1 } else { KINDS.len() })
}

/// What a descriptor refers to now; `None` if it is closed or the process may not be looked at.
fn open_file(pid: u32, number: u32) -> Option<OpenFile> {
    let link = proc::descriptor_link(pid, number)?;
    let members = (link == "anon_inode:[eventpoll]").then(|| epoll_members(pid, number));
    Some(OpenFile { link, members })
}

// Source: linux v6.18 fs/eventpoll.c, ep_show_fdinfo: a line `tfd: N …` for each descriptor.
fn epoll_members(pid: u32, number: u32) -> EpollMembers {
    let info = dso::system_file::read_text(format!("/proc/{pid}/fdinfo/{number}")).unwrap_or_default();
    let member = |line: &str| line.strip_prefix("tfd:")?.split_ascii_whitespace().next()?.parse().ok();
    let members: Vec<u32> = info.lines().filter_map(member).collect();
    let links =
        members.iter().take(MOST_MEMBERS).filter_map(|&member| proc::descriptor_link(pid, member)).collect();
    EpollMembers { count: members.len(), links }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoll_is_named_after_the_connection_among_its_descriptors() {
        let of_link = str::to_owned;
        let epoll = |links: &[&str]| OpenFile {
            link: "anon_inode:[eventpoll]".to_owned(),
            members: Some(EpollMembers {
                count: links.len(),
                links: links.iter().map(|link| (*link).to_owned()).collect(),
            }),
        };
        let name = |links: &[&str]| name_of(&epoll(links), &of_link);
        assert_eq!(name(&["pipe:[7]"]), "epoll of pipe:[7]");
        assert_eq!(name(&[]), "epoll of 0 descriptors");
        assert_eq!(
            name(&["eventfd", "pipe from sh 1", "socket to a 2"]),
            "epoll of socket to a 2 (and 2 more)"
        );
        assert_eq!(name(&["eventfd", "/dev/null"]), "epoll of /dev/null (and 1 more)");
        let many = ["eventfd", "socket to a 2", "socket to b 3"];
        assert_eq!(name(&many), "epoll of 3 descriptors (mostly sockets)");
        let file = OpenFile { link: "/tmp/a".to_owned(), members: None };
        assert_eq!(name_of(&file, &of_link), "/tmp/a");
    }

    #[test]
    fn reading_takes_a_descriptor_and_waiting_for_a_child_does_not() {
        let calls = calls_with_descriptor();
        let nr = |wanted: &str| {
            let table = CallTable::of_this_processor();
            table.names().find(|(_, name)| *name == wanted).map(|(nr, _)| u32::from(nr)).expect("it exists")
        };
        for call in ["read", "epoll_pwait", "accept4", "recvfrom", "flock"] {
            assert!(calls.contains(&nr(call)), "{call}");
        }
        for call in ["wait4", "futex", "clock_nanosleep"] {
            assert!(!calls.contains(&nr(call)), "{call}");
        }
    }
}
