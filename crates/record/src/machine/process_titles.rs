//! Text that distinguishes processes of one name: the titles that servers give them, or their arguments.

use std::collections::{BTreeMap, BTreeSet};

use crate::accounting::summary::ThreadUse;
use crate::machine::proc;
use crate::off_cpu::EndRecord;
use dso::system_file;
use perfdata::off_cpu::flag;

/// Adds titles to the first threads of processes that live and have their name in common with others.
pub fn add(threads: &mut [ThreadUse]) {
    let mut processes: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for thread in threads.iter().filter(|thread| thread.tid == thread.pid) {
        processes.entry(thread.comm.clone()).or_default().insert(thread.pid);
    }
    let is_shared = |thread: &&mut ThreadUse| {
        thread.tid == thread.pid && processes.get(&thread.comm).is_some_and(|pids| pids.len() > 1)
    };
    for thread in threads.iter_mut().filter(is_shared) {
        thread.title = cmdline(thread.pid, thread.comm.as_bytes()).and_then(|cmdline| title_of(&cmdline));
    }
}

/// The title of a process, of its first thread: the one that it gave itself if it lives, or its name with what it is for,
/// `git pack-objects`. Other arguments aren't kept in a recording: they may be nobody else's business.
#[must_use]
pub fn recorded_title(end: &EndRecord) -> Option<String> {
    if end.pid != end.tid || end.flags & flag::KTHREAD != 0 {
        return None;
    }
    let lives = end.flags & flag::OPEN_RIGHT != 0;
    let own = lives.then(|| cmdline(end.pid, &end.comm)).flatten().filter(|cmdline| is_own_title(cmdline));
    own.and_then(|cmdline| title_of(&cmdline))
        .or_else(|| Some(format!("{} {}", String::from_utf8_lossy(&end.comm), what_for(&end.argument)?)))
}

/// Purpose of a program by its first argument: a command of its own or a script's name without folders. `None` for
/// options, settings and all that is not plainly a name.
fn what_for(argument: &[u8]) -> Option<&str> {
    if argument.starts_with(b"-") {
        return None;
    }
    let name = argument.rsplit(|&byte| byte == b'/').next().and_then(|name| str::from_utf8(name).ok())?;
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    (is_plain && name.starts_with(|first: char| first.is_ascii_alphabetic())).then_some(name)
}

/// True if the arguments are one text of several words: a program has written over them.
fn is_own_title(cmdline: &[u8]) -> bool {
    let mut args = cmdline.split(|&byte| byte == 0).filter(|arg| !arg.is_empty());
    args.next().is_some_and(|first| first.trim_ascii().contains(&b' ')) && args.next().is_none()
}

/// The arguments of a process of this name.
fn cmdline(pid: u32, comm: &[u8]) -> Option<Vec<u8>> {
    // The number may be another process's by now.
    let is_it = proc::status(pid).is_some_and(|status| status.comm == comm);
    is_it.then(|| system_file::read(format!("/proc/{pid}/cmdline")).ok()).flatten()
}

/// The arguments as one line; `None` if there are none.
fn title_of(cmdline: &[u8]) -> Option<String> {
    /// Longer than any screen.
    const MOST_BYTES: usize = 400;
    let cut = &cmdline[..cmdline.len().min(MOST_BYTES)];
    let words = cut.split(|&byte| byte == 0).map(String::from_utf8_lossy).collect::<Vec<_>>();
    let title = words.join(" ").trim().to_owned();
    (!title.is_empty()).then_some(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_what_servers_write_over_their_arguments() {
        let title = |cmdline: &[u8]| title_of(cmdline);
        // A title is shorter than the arguments were: the rest is zeros.
        assert_eq!(title(b"postgres: checkpointer \0\0\0\0").as_deref(), Some("postgres: checkpointer"));
        assert_eq!(title(b"nginx: worker process").as_deref(), Some("nginx: worker process"));
        assert_eq!(title(b"python3\0serve.py\0--port\080\0").as_deref(), Some("python3 serve.py --port 80"));
        assert_eq!((title(b""), title(b"\0\0")), (None, None));
        assert!(
            is_own_title(b"postgres: checkpointer \0\0\0\0") && !is_own_title(b"python3\0serve.py --key x\0")
        );
        assert!(!is_own_title(b"redis-server\0") && !is_own_title(b""));
        assert!(title(&[b'a'; 5000]).is_some_and(|title| title.len() == 400));
    }

    #[test]
    fn arguments_that_are_plain_names_say_what_a_process_is_for() {
        assert_eq!(what_for(b"pack-objects"), Some("pack-objects"));
        assert_eq!(what_for(b"/srv/app/worker_2.py"), Some("worker_2.py"));
        for other in ["", "-quiet", "--port/x", "key=value", "user@host", "/", "/srv/", "8080", "two words"] {
            assert_eq!(what_for(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn only_processes_that_share_their_name_get_one() {
        let mut children: Vec<_> = (0..2)
            .map(|_| std::process::Command::new("sleep").arg("60").spawn().expect("sleep runs"))
            .collect();
        let of =
            |pid: u32, comm: &str| ThreadUse { pid, tid: pid, comm: comm.to_owned(), ..ThreadUse::default() };
        let ours = std::process::id();
        // The kernel sets a program's name before its arguments.
        let is_ready = |child: &std::process::Child| {
            cmdline(child.id(), b"sleep").is_some_and(|cmdline| !cmdline.is_empty())
        };
        while !children.iter().all(is_ready) {
            std::thread::yield_now();
        }
        let mut threads =
            vec![of(children[0].id(), "sleep"), of(children[1].id(), "sleep"), of(ours, "alone")];
        add(&mut threads);
        for child in &mut children {
            child.kill().expect("ours to kill");
            child.wait().expect("ours to wait for");
        }
        let titles: Vec<_> = threads.iter().map(|thread| thread.title.as_deref()).collect();
        assert_eq!(titles, [Some("sleep 60"), Some("sleep 60"), None]);
    }
}
