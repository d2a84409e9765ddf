//! Target of a recording: a command, processes, threads, a user, or the whole machine.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::machine::{proc, process_tree};
use dso::system_file;

/// The watched tasks and CPUs, and the command to start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// The tasks that are sampled.
    pub whom: Whom,
    /// Only on these CPUs, ascending; `None` is all.
    pub cpus: Option<Vec<u32>>,
    /// The command to start. Unless `whom` is [`Whom::Command`], the recording only lasts as long as it runs.
    pub command: Vec<OsString>,
    /// Only tasks of this cgroup (a path below the hierarchy's mount), with [`Whom::System`].
    pub cgroup: Option<String>,
}

/// The tasks that are sampled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Whom {
    /// The command and all it starts.
    #[default]
    Command,
    /// These processes, all their threads, and what they will start.
    Processes(Vec<u32>),
    /// These processes and all that descend from them, all their threads, and what they will start.
    Trees(Vec<u32>),
    /// Just these threads and what they will start.
    Threads(Vec<u32>),
    /// All processes of this user that run now, and what they will start.
    User(u32),
    /// Everything.
    System,
}

impl Target {
    /// True if events are opened for CPUs and not for tasks.
    #[must_use]
    pub fn is_system_wide(&self) -> bool {
        self.whom == Whom::System
    }

    /// The processes that were named; empty for other targets.
    #[must_use]
    pub fn named_pids(&self) -> &[u32] {
        match &self.whom {
            Whom::Processes(pids) | Whom::Trees(pids) => pids,
            _ => &[],
        }
    }

    /// True if it is tasks that run already.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        !matches!(self.whom, Whom::Command | Whom::System)
    }

    /// The threads to open events for, ascending; empty for a command (its pid is known after the fork) and for
    /// the whole system.
    pub fn threads(&self) -> Result<Vec<u32>, Error> {
        let tids: BTreeSet<u32> = match &self.whom {
            Whom::Command | Whom::System => BTreeSet::new(),
            Whom::Threads(tids) => {
                let gone = tids.iter().find(|t| !Path::new(&format!("/proc/{t}")).exists());
                match gone {
                    Some(tid) => return Err(Error::NoSuchTask(*tid)),
                    None => tids.iter().copied().collect(),
                }
            }
            Whom::Processes(pids) => threads_of(pids)?,
            Whom::Trees(pids) => {
                let mut tids = threads_of(pids)?;
                let below = process_tree::descendants(pids);
                tids.extend(below.iter().flat_map(|&pid| proc::threads(pid).unwrap_or_default()));
                tids
            }
            Whom::User(uid) => {
                let pids: Vec<u32> =
                    proc::pids().into_iter().filter(|&p| proc::uid(p) == Some(*uid)).collect();
                let ours = std::process::id();
                let others: Vec<u32> = pids.into_iter().filter(|&p| p != ours).collect();
                if others.is_empty() {
                    return Err(Error::NoTaskOfUser(*uid));
                }
                others.iter().flat_map(|&p| proc::threads(p).unwrap_or_default()).collect()
            }
        };
        Ok(tids.into_iter().collect())
    }

    /// Number of living descendants of the selected processes that are not recorded.
    #[must_use]
    pub fn children_left_out(&self) -> usize {
        match &self.whom {
            Whom::Processes(pids) => process_tree::descendants(pids).len(),
            _ => 0,
        }
    }

    /// The CPUs to open events on, ascending.
    pub fn cpus(&self) -> Vec<u32> {
        self.cpus.clone().unwrap_or_else(proc::online_cpus)
    }
}

/// The folder of a cgroup, by its path below the mount of the unified or the perf_event hierarchy.
pub(crate) fn open_cgroup(name: &str) -> Result<File, Error> {
    let mut roots = mounted_hierarchies();
    let last = roots.pop().unwrap_or_else(|| "/sys/fs/cgroup".to_owned());
    let open = |root: &String| system_file::open(format!("{root}/{}", name.trim_start_matches('/')));
    let found = roots.iter().find_map(|root| open(root).ok());
    let found = found.map_or_else(|| open(&last), Ok);
    found.map_err(|source| Error::Cgroup { name: name.to_owned(), source })
}

/// The folders of the hierarchies that events can be bound to, the preferred one first.
pub(crate) fn cgroup_mounts() -> Vec<PathBuf> {
    mounted_hierarchies().into_iter().map(PathBuf::from).collect()
}

fn mounted_hierarchies() -> Vec<String> {
    cgroup_roots(&system_file::read_text("/proc/self/mounts").unwrap_or_default())
}

/// Where the hierarchies are mounted that events can be bound to: perf_event's own before the unified one.
fn cgroup_roots(mounts: &str) -> Vec<String> {
    let with = |wanted: fn(&str, &str) -> bool| {
        mounts.lines().filter_map(move |line| {
            let mut words = line.split(' ').skip(1);
            let (root, kind, options) = (words.next()?, words.next()?, words.next()?);
            wanted(kind, options).then(|| root.to_owned())
        })
    };
    let own = with(|kind, options| kind == "cgroup" && options.split(',').any(|o| o == "perf_event"));
    own.chain(with(|kind, _| kind == "cgroup2")).collect()
}

fn threads_of(pids: &[u32]) -> Result<BTreeSet<u32>, Error> {
    let mut tids = BTreeSet::new();
    for &pid in pids {
        tids.extend(proc::threads(pid).ok_or(Error::NoSuchTask(pid))?);
    }
    Ok(tids)
}

pub use counts::parse_cpu_list;

/// Reads a user's list of CPUs and checks that each is online.
pub fn online_cpu_list(text: &str) -> Result<Vec<u32>, Error> {
    let online = proc::online_cpus();
    parse_cpu_list(text)
        .filter(|cpus| cpus.iter().all(|c| online.contains(c)))
        .ok_or_else(|| Error::BadCpuList(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_are_looked_for_where_events_can_be_bound_to_them() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                      cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n\
                      cgroup /sys/fs/cgroup/perf_event cgroup rw,perf_event 0 0\n";
        assert_eq!(cgroup_roots(mounts), ["/sys/fs/cgroup/perf_event", "/sys/fs/cgroup/unified"]);
        assert!(cgroup_roots("").is_empty());
    }

    #[test]
    fn cpu_lists_have_ranges_and_refuse_nonsense() {
        assert_eq!(parse_cpu_list("0,2-3\n"), Some(vec![0, 2, 3]));
        assert_eq!(parse_cpu_list("1,1,0"), Some(vec![0, 1]));
        for bad in ["", "a", "3-1", "0-4294967295", "-1"] {
            assert_eq!(parse_cpu_list(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_process_that_is_gone_is_told_by_number() {
        let target = Target { whom: Whom::Processes(vec![4_194_303]), ..Target::default() };
        assert!(matches!(target.threads(), Err(Error::NoSuchTask(4_194_303))));
    }

    #[test]
    fn our_own_threads_are_found() {
        let pid = std::process::id();
        let target = Target { whom: Whom::Processes(vec![pid]), ..Target::default() };
        assert!(target.threads().expect("we live").contains(&pid));
    }
}
