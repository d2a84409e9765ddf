//! Which system calls are shown: names, patterns and strace's groups.

use super::argument::ArgKind;
use super::table::{CallSignature, CallTable};
use thiserror::Error;

/// Groups that no rule over arguments yields. Patterns may end with `*`.
const GROUPS: &[(&str, &str)] = &[
    (
        "network",
        "socket socketpair bind listen accept accept4 connect shutdown getsockname getpeername sendto recvfrom sendmsg \
         recvmsg sendmmsg recvmmsg setsockopt getsockopt",
    ),
    (
        "process",
        "clone clone3 fork vfork execve execveat exit exit_group wait4 waitid kill tkill tgkill unshare setns \
         rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open pidfd_send_signal pidfd_getfd process_mrelease arch_prctl",
    ),
    (
        "signal",
        "rt_sig* signalfd signalfd4 sigaltstack kill tkill tgkill pause rt_tgsigqueueinfo pidfd_send_signal",
    ),
    ("ipc", "shm* sem* msg* mq_*"),
    (
        "memory",
        "mmap munmap mremap mprotect msync brk mlock* munlock* madvise process_madvise mincore mbind set_mempolicy \
         get_mempolicy migrate_pages move_pages remap_file_pages pkey_* mseal map_shadow_stack",
    ),
    ("stat", "stat lstat fstat newfstatat statx"),
    (
        "creds",
        "getuid geteuid getgid getegid setuid setgid setreuid setregid setresuid setresgid getresuid getresgid setfsuid \
         setfsgid getgroups setgroups capget capset prctl",
    ),
    (
        "clock",
        "clock_* gettimeofday settimeofday time adjtimex timer_* timerfd_* nanosleep getitimer setitimer alarm times",
    ),
    ("poll", "poll ppoll select pselect6 epoll_* io_getevents io_pgetevents io_uring_enter"),
    ("futex", "futex futex_*"),
    (
        "pure",
        "getpid getppid gettid getuid geteuid getgid getegid getpgrp getpgid getsid umask uname sysinfo",
    ),
];

/// Names of the groups, as they are typed.
#[must_use]
pub fn group_names() -> Vec<String> {
    let own = GROUPS.iter().map(|(name, _)| *name);
    ["file", "desc"].into_iter().chain(own).map(|name| format!("%{name}")).collect()
}

/// A word that selects nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FilterError {
    /// `%` and a name that is no group's ([`group_names`]).
    #[error("no group '{0}' of system calls")]
    UnknownGroup(String),
    /// A name or pattern that no call has.
    #[error("no system call '{0}'")]
    UnknownCall(String),
}

/// The selected system calls, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallFilter {
    wanted: Vec<bool>,
    all: bool,
}

impl CallFilter {
    /// Reads lists like `openat,close`, `%file`, `epoll_*`, `!futex`; strace's `trace=` before it is allowed. Without a
    /// list all are selected.
    ///
    /// # Errors
    /// A word that matches no system call.
    pub fn parse(lists: &[String], table: &CallTable) -> Result<Self, FilterError> {
        let size = usize::from(u16::MAX) + 1;
        let mut filter = Self { wanted: Vec::new(), all: true };
        for list in lists {
            let list = list.strip_prefix("trace=").unwrap_or(list);
            let (is_not, list) = match list.strip_prefix('!') {
                Some(list) => (true, list),
                None => (false, list),
            };
            if filter.wanted.is_empty() {
                filter.wanted = vec![is_not; size];
            }
            for word in list.split(',').filter(|word| !word.is_empty()) {
                let (is_not, word) = match word.strip_prefix('!') {
                    Some(word) => (true, word),
                    None => (is_not, word),
                };
                for nr in numbers(word, table)? {
                    filter.wanted[usize::from(nr)] = !is_not;
                }
            }
            filter.all = false;
        }
        Ok(filter)
    }

    /// Whether this call is shown.
    #[must_use]
    pub fn wants(&self, nr: u16) -> bool {
        self.all || self.wanted.get(usize::from(nr)).copied().unwrap_or(false)
    }

    /// Calls whose names are not known are shown too.
    #[must_use]
    pub fn wants_all(&self) -> bool {
        self.all
    }
}

fn numbers(word: &str, table: &CallTable) -> Result<Vec<u16>, FilterError> {
    if word == "all" {
        return Ok(table.names().map(|(nr, _)| nr).collect());
    }
    let found: Vec<u16> = match word.strip_prefix('%') {
        Some("file") => of_arguments(table, ArgKind::is_path),
        Some("desc") => of_arguments(table, ArgKind::is_fd),
        Some(group) => {
            let patterns = GROUPS.iter().find(|(name, _)| *name == group).map(|(_, patterns)| *patterns);
            let Some(patterns) = patterns else {
                return Err(FilterError::UnknownGroup(group.to_owned()));
            };
            patterns.split_whitespace().flat_map(|pattern| named(pattern, table)).collect()
        }
        None => named(word, table),
    };
    if found.is_empty() {
        return Err(FilterError::UnknownCall(word.to_owned()));
    }
    Ok(found)
}

fn named(pattern: &str, table: &CallTable) -> Vec<u16> {
    let matches = |name: &str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    };
    table.names().filter(|(_, name)| matches(name)).map(|(nr, _)| nr).collect()
}

fn of_arguments(table: &CallTable, is_it: impl Fn(&ArgKind) -> bool) -> Vec<u16> {
    let has = |signature: &CallSignature| signature.arguments.iter().any(&is_it) || is_it(&signature.returns);
    let all = table.names().map(|(nr, _)| nr);
    all.filter(|nr| table.of(*nr).is_some_and(has)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(lists: &[&str]) -> Vec<&'static str> {
        let table = CallTable::of_this_processor();
        let lists: Vec<String> = lists.iter().map(|list| (*list).to_owned()).collect();
        let filter = CallFilter::parse(&lists, &table).expect("known");
        table.names().filter(|(nr, _)| filter.wants(*nr)).map(|(_, name)| name).collect()
    }

    #[test]
    fn calls_are_selected_by_name_group_and_pattern() {
        let mut two = chosen(&["trace=openat,close"]);
        two.sort_unstable();
        assert_eq!(two, ["close", "openat"]);
        assert!(chosen(&["%file"]).contains(&"execve") && !chosen(&["%file"]).contains(&"read"));
        assert!(chosen(&["%desc"]).contains(&"read") && chosen(&["%desc"]).contains(&"openat"));
        assert!(chosen(&["%network"]).contains(&"connect"));
        assert!(chosen(&["epoll_*"]).contains(&"epoll_ctl"));
        let most = chosen(&["!futex,%clock"]);
        assert!(most.contains(&"read") && !most.contains(&"futex") && !most.contains(&"clock_gettime"));
        assert!(!chosen(&["%desc", "!read"]).contains(&"read"));
    }

    #[test]
    fn a_word_that_matches_nothing_is_refused() {
        let table = CallTable::of_this_processor();
        let refused = |word: &str| CallFilter::parse(&[word.to_owned()], &table).expect_err("unknown");
        assert_eq!(refused("opnat"), FilterError::UnknownCall("opnat".to_owned()));
        assert_eq!(refused("%nosuch"), FilterError::UnknownGroup("nosuch".to_owned()));
        assert!(
            GROUPS.iter().all(|(name, _)| !numbers(&format!("%{name}"), &table).expect("known").is_empty())
        );
    }
}
