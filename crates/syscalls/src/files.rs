//! Names of the open files of the traced processes, followed from call to call.
//!
//! A descriptor that was opened before the trace is looked up once, while its process lives.

use super::argument::ArgKind;
use super::table::CallSignature;
use crate::layout::CallRecord;
use crate::memory::{parse_fds, parse_socket_address};
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// An open file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// Path, or another name; `None` if it is not known.
    pub name: Option<Arc<str>>,
    /// An exec closes it.
    pub closes_at_exec: bool,
}

/// Finds an open file of a live process, by the ids of process and descriptor.
pub type DescriptorLookup = fn(pid: u32, fd: i32) -> Descriptor;

/// Open files by descriptor, of each process.
pub struct OpenFiles {
    lookup: DescriptorLookup,
    processes: HashMap<u32, HashMap<i32, Descriptor>>,
    /// Files of children that have not run yet, by their id in the initial pid namespace.
    unborn: HashMap<u64, HashMap<i32, Descriptor>>,
}

impl fmt::Debug for OpenFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFiles").field("processes", &self.processes).finish_non_exhaustive()
    }
}

impl OpenFiles {
    /// None yet; `lookup` finds those that were opened before the trace.
    #[must_use]
    pub fn new(lookup: DescriptorLookup) -> Self {
        Self { lookup, processes: HashMap::new(), unborn: HashMap::new() }
    }

    /// Looks up these descriptors of a process now.
    pub fn look_up(&mut self, pid: u32, fds: &[i32]) {
        for fd in fds {
            self.ask(pid, *fd);
        }
    }

    /// A process was made; `child` is its id in the initial pid namespace.
    pub fn fork(&mut self, parent: u32, child: u64) {
        let files = self.processes.get(&parent).cloned().unwrap_or_default();
        self.unborn.insert(child, files);
    }

    /// A process runs for the first time.
    pub fn is_born(&mut self, pid: u32, global: u64) {
        if let Some(files) = self.unborn.remove(&global) {
            self.processes.insert(pid, files);
        }
    }

    /// A process runs another program.
    pub fn exec(&mut self, pid: u32) {
        if let Some(files) = self.processes.get_mut(&pid) {
            files.retain(|_, file| !file.closes_at_exec);
        }
    }

    /// A process has ended.
    pub fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }

    /// The name of a descriptor.
    pub fn name(&mut self, pid: u32, fd: i32) -> Option<Arc<str>> {
        if fd < 0 {
            return None;
        }
        match self.processes.entry(pid).or_default().get(&fd) {
            Some(file) => file.name.clone(),
            None => self.ask(pid, fd),
        }
    }

    fn ask(&mut self, pid: u32, fd: i32) -> Option<Arc<str>> {
        let file = (self.lookup)(pid, fd);
        let name = file.name.clone();
        self.processes.entry(pid).or_default().insert(fd, file);
        name
    }

    fn insert(&mut self, pid: u32, fd: i64, name: Option<Arc<str>>, closes_at_exec: bool) {
        if let Ok(fd) = i32::try_from(fd) {
            self.processes.entry(pid).or_default().insert(fd, Descriptor { name, closes_at_exec });
        }
    }

    /// Learns from a call that did not fail. Descriptors are named before this, because `close` takes them away.
    pub fn learn(&mut self, signature: &CallSignature, record: &CallRecord<'_>) {
        const O_CLOEXEC: u64 = 0o2_000_000;
        let (pid, args, ret) = (record.tgid, &record.args, record.ret);
        if ret < 0 {
            return;
        }
        let fd_of = |at: usize| args[at] as u32 as i32;
        let made = |files: &mut Self, name: &str, flags: u64| {
            files.insert(pid, ret, Some(name.into()), flags & O_CLOEXEC != 0);
        };
        match signature.name {
            "open" => made(self, &path(record), args[1]),
            "creat" => made(self, &path(record), 0),
            "openat" => {
                let name = self.below(pid, fd_of(0), path(record));
                made(self, &name, args[2]);
            }
            "openat2" => {
                let name = self.below(pid, fd_of(0), path(record));
                made(self, &name, 0);
            }
            "close" => drop(self.processes.entry(pid).or_default().remove(&fd_of(0))),
            "close_range" => {
                let range = args[0] as u32..=args[1] as u32;
                let files = self.processes.entry(pid).or_default();
                // With CLOSE_RANGE_CLOEXEC they stay open till the next exec; they are asked for again.
                files.retain(|fd, _| !range.contains(&fd.cast_unsigned()));
            }
            "dup" | "dup2" => self.copy(record, false),
            "dup3" => self.copy(record, args[2] & O_CLOEXEC != 0),
            "fcntl" => self.control(record),
            "socket" => made(self, socket_kind(args), args[1]),
            "accept" | "accept4" => {
                let peer = record.bytes(0).and_then(parse_socket_address);
                let name = peer.map_or_else(|| "socket".to_owned(), |peer| format!("from {peer}"));
                made(self, &name, if signature.name == "accept4" { args[3] } else { 0 });
            }
            "connect" | "bind" => {
                let peer = record.bytes(0).and_then(parse_socket_address);
                let kind = self.name(pid, fd_of(0)).unwrap_or_else(|| "socket".into());
                let kind = kind.split(' ').next().unwrap_or_default();
                let arrow = if signature.name == "bind" { "" } else { "to " };
                if let Some(peer) = peer {
                    let name = format!("{kind} {arrow}{peer}");
                    self.insert(pid, i64::from(fd_of(0)), Some(name.into()), false);
                }
            }
            "pipe" | "pipe2" | "socketpair" => self.pair(signature, record),
            "epoll_create" | "epoll_create1" => {
                made(self, "epoll", if args[0] & O_CLOEXEC != 0 { args[0] } else { 0 })
            }
            "eventfd" | "eventfd2" => made(self, "eventfd", args[1]),
            "timerfd_create" => made(self, "timerfd", args[1]),
            "inotify_init" => made(self, "inotify", 0),
            "inotify_init1" => made(self, "inotify", args[0]),
            "signalfd" | "signalfd4" => made(self, "signalfd", args[3]),
            "memfd_create" => made(self, &format!("memfd:{}", path(record)), 0),
            // The files they made are asked for.
            _ if matches!(signature.returns, ArgKind::Fd) => {
                self.processes.entry(pid).or_default().remove(&(ret as i32));
            }
            _ => {}
        }
    }

    /// A path that is relative to a folder that is open.
    fn below(&mut self, pid: u32, folder: i32, path: String) -> String {
        if path.starts_with('/') {
            return path;
        }
        match self.name(pid, folder) {
            Some(name) if name.starts_with('/') => {
                Path::new(&*name).join(path).to_string_lossy().into_owned()
            }
            _ => path,
        }
    }

    fn copy(&mut self, record: &CallRecord<'_>, closes_at_exec: bool) {
        let name = self.name(record.tgid, record.args[0] as u32 as i32);
        self.insert(record.tgid, record.ret, name, closes_at_exec);
    }

    fn control(&mut self, record: &CallRecord<'_>) {
        const F_DUPFD: u64 = 0;
        const F_SETFD: u64 = 2;
        const F_DUPFD_CLOEXEC: u64 = 1030;
        match record.args[1] & 0xffff_ffff {
            F_DUPFD => self.copy(record, false),
            F_DUPFD_CLOEXEC => self.copy(record, true),
            F_SETFD => {
                let files = self.processes.entry(record.tgid).or_default();
                if let Some(file) = files.get_mut(&(record.args[0] as u32 as i32)) {
                    file.closes_at_exec = record.args[2] & 1 != 0;
                }
            }
            _ => {}
        }
    }

    fn pair(&mut self, signature: &CallSignature, record: &CallRecord<'_>) {
        const O_CLOEXEC: u64 = 0o2_000_000;
        let (name, flags) = match signature.name {
            "socketpair" => ("socketpair", record.args[1]),
            "pipe2" => ("pipe", record.args[1]),
            _ => ("pipe", 0),
        };
        for fd in parse_fds(record.bytes(0).unwrap_or_default()) {
            self.insert(record.tgid, i64::from(fd), Some(name.into()), flags & O_CLOEXEC != 0);
        }
    }
}

fn path(record: &CallRecord<'_>) -> String {
    String::from_utf8_lossy(record.bytes(0).unwrap_or_default()).into_owned()
}

fn socket_kind(args: &[u64; 6]) -> &'static str {
    match (args[0], args[1] & 0xf) {
        (1, _) => "unix",
        (2, 1) => "tcp",
        (2, 2) => "udp",
        (10, 1) => "tcp6",
        (10, 2) => "udp6",
        (16, _) => "netlink",
        (17, _) => "packet",
        _ => "socket",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Copied, RecordKind};
    use crate::table::CallTable;

    fn call<'a>(args: [u64; 6], ret: i64, bytes: &'a [u8]) -> CallRecord<'a> {
        let copies = [Copied::Bytes(bytes), Copied::Nothing, Copied::Nothing];
        CallRecord {
            kind: RecordKind::Call,
            start_ns: 1,
            end_ns: 2,
            ret,
            tid: 5,
            tgid: 4_194_303,
            nr: 0,
            is_open: false,
            is_compat: false,
            args,
            copies,
        }
    }

    #[test]
    fn descriptors_are_followed_through_dup_fork_exec_and_close() {
        let table = CallTable::of_this_processor();
        let pid = 4_194_303;
        let mut files = OpenFiles::new(|_, _| Descriptor::default());
        let learn = |files: &mut OpenFiles, name: &str, record: &CallRecord<'_>| {
            let (nr, _) = table.names().find(|(_, known)| *known == name).expect("a call");
            files.learn(table.of(nr).expect("known"), record);
        };
        let at_cwd = u64::from(100u32.wrapping_neg());
        learn(&mut files, "openat", &call([at_cwd, 0, 0, 0, 0, 0], 3, b"/etc"));
        learn(&mut files, "openat", &call([3, 0, 0o2_000_000, 0, 0, 0], 4, b"passwd"));
        learn(&mut files, "dup", &call([4, 0, 0, 0, 0, 0], 5, b""));
        learn(&mut files, "openat", &call([at_cwd, 0, 0, 0, 0, 0], -2, b"/nosuch"));
        assert_eq!(files.name(pid, 4).as_deref(), Some("/etc/passwd"));
        files.fork(pid, 77);
        learn(&mut files, "close", &call([3, 0, 0, 0, 0, 0], 0, b""));
        files.is_born(4_194_302, 77);
        assert_eq!(files.name(4_194_302, 3).as_deref(), Some("/etc"), "the child has its own");
        assert_eq!(files.name(pid, 3), None);
        files.exec(pid);
        assert_eq!((files.name(pid, 4), files.name(pid, 5).as_deref()), (None, Some("/etc/passwd")));
    }
}
