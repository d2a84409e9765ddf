//! Keeps the names of JIT code with the recording: `/tmp/perf-PID.map` as each process sees it, read when the process
//! ends or recording does.
//!
//! A process in a container has another `/tmp` and knows itself by another number. Both are noted while it lives.
//! Names that were read in a process's memory are kept as lines of the same map.

use dso::{FileRule, system_file};
use perfdata::appendix::jit_maps::{JitMap, JitMaps};
use rustc_hash::FxHashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::{Duration, SystemTime};

use super::v8::OwnLogs;
use super::{dotnet, hotspot};
use crate::machine::proc;

/// Larger maps are not kept.
const MAX_BYTES: u64 = 32 << 20;
/// All of a recording together.
const MAX_ALL_BYTES: u64 = 128 << 20;
/// A map that is older than its process by more than this is of an earlier process with the same number: about the
/// exactness of both times.
const OLDER: Duration = Duration::from_secs(2);
/// Processes whose maps are looked for; each in a container takes a descriptor.
const MOST_PROCESSES: usize = 256;

/// Where the names of one process are.
#[derive(Debug)]
struct MapPlace {
    /// `/tmp` of its container; `None` in ours, or if it has none.
    folder: Option<File>,
    /// Number in its container; `None` in ours.
    inner_pid: Option<u32>,
    user: u32,
    /// When the process began; `None` if that is not known.
    started: Option<SystemTime>,
    /// Its working folder, where its files are there because of us.
    logs: Option<OwnLogs>,
}

/// Names of a process's code that were read in its memory.
#[derive(Debug, Default)]
pub struct OwnLines {
    /// As in a map.
    pub text: String,
    /// Compiled code is named, too: the process's own map isn't needed.
    pub has_compiled: bool,
}

/// The maps of all processes with JIT code.
#[derive(Debug, Default)]
pub struct JitMapKeeper {
    places: FxHashMap<u32, MapPlace>,
    kept: Vec<JitMap>,
    /// Lines of our own for the maps of processes: names that were read in their memory.
    own_lines: FxHashMap<u32, OwnLines>,
    bytes: u64,
    /// The files are there because of us.
    removes: bool,
    /// Processes whose files were read, and are not removed yet: the kernel reports a process's end before it is gone.
    leaving: Vec<(u32, MapPlace)>,
    /// JVMs and .NET runtimes that still run are asked for their maps.
    asks: bool,
}

impl JitMapKeeper {
    /// From now on the map of a process that has ended is removed once it is read: it was written because of us.
    pub fn remove_read(&mut self) {
        self.removes = true;
    }

    /// JVMs and .NET runtimes that still run at the end write their maps for us.
    pub fn ask_runtimes(&mut self) {
        self.asks = true;
    }

    /// A process has mapped memory for code of its own.
    pub fn note(&mut self, pid: u32) {
        if self.places.contains_key(&pid) || self.places.len() >= MOST_PROCESSES {
            return;
        }
        let Some(user) = proc::uid(pid) else { return };
        let inner_pid = proc::innermost_pid(pid);
        let folder = inner_pid.and_then(|_| system_file::open(format!("/proc/{pid}/root/tmp")).ok());
        let logs = self.removes.then(|| OwnLogs::of(pid)).flatten();
        self.places.insert(pid, MapPlace { folder, inner_pid, user, started: proc::started(pid), logs });
    }

    /// True if the process writes a map of its own.
    #[must_use]
    pub fn has_map(&self, pid: u32) -> bool {
        let place = self.places.get(&pid);
        place.is_some_and(|place| place.path(pid).is_some_and(|path| place.is_own(&path)))
    }

    /// More lines for the map of a process.
    pub fn name(&mut self, pid: u32, lines: &OwnLines) {
        if lines.text.is_empty() {
            return;
        }
        let own = self.own_lines.entry(pid).or_default();
        own.has_compiled |= lines.has_compiled;
        if own.text.len() + lines.text.len() <= MAX_BYTES as usize {
            own.text.push_str(&lines.text);
        }
    }

    /// A process was forked: it goes on with the code of its parent.
    pub fn forked(&mut self, pid: u32, parent: u32) {
        if self.places.contains_key(&parent) {
            self.note(pid);
        }
    }

    /// A process ended: what it wrote is kept.
    pub fn ended(&mut self, pid: u32) {
        if let Some(place) = self.places.remove(&pid) {
            let text = place.read(pid);
            if self.removes && text.is_some() {
                self.leaving.push((pid, place));
            }
            self.keep(pid, text);
            self.own_lines.remove(&pid);
        }
        self.remove_files();
    }

    /// Removes the files of processes that are gone by now.
    fn remove_files(&mut self) {
        for (pid, place) in self.leaving.extract_if(.., |(pid, _)| !proc::is_alive(*pid)) {
            place.remove_files(pid);
        }
    }

    /// Keeps the text of a map, with the lines of our own.
    fn keep(&mut self, pid: u32, text: Option<Vec<u8>>) {
        let own = self.own_lines.get(&pid).map(|own| own.text.as_bytes().to_vec());
        let text = match (text, own) {
            (Some(text), Some(own)) => Some([text, b"\n".to_vec(), own].concat()),
            (text, own) => text.or(own),
        };
        let text = text.filter(|text| self.bytes + text.len() as u64 <= MAX_ALL_BYTES);
        if let Some(text) = text {
            self.bytes += text.len() as u64;
            self.kept.push(JitMap { pid, text });
        }
    }

    /// The maps of the processes that ended since the last call, and of those that live.
    pub fn take(&mut self) -> JitMaps {
        self.remove_files();
        let is_named = |pid| self.own_lines.get(&pid).is_some_and(|own| own.has_compiled);
        let read =
            |(&pid, place): (&u32, &MapPlace)| (pid, place.read_living(pid, self.asks && !is_named(pid)));
        let mut living: Vec<_> = self.places.iter().map(read).collect();
        living.sort_unstable_by_key(|(pid, _)| *pid);
        living.into_iter().for_each(|(pid, text)| self.keep(pid, text));
        self.bytes = 0;
        JitMaps(std::mem::take(&mut self.kept))
    }
}

impl MapPlace {
    /// Should that fail, a file is left in /tmp, where there is one after each such program.
    fn remove_files(&self, pid: u32) {
        if let Some(path) = self.path(pid) {
            let _ = std::fs::remove_file(&path);
            // .NET writes a list of its modules next to the map.
            let _ = std::fs::remove_file(path.replace("/perf-", "/perfinfo-"));
        }
        self.logs.iter().for_each(|logs| logs.remove(self.inner_pid.unwrap_or(pid)));
    }

    /// `None` in a container without `/tmp`.
    fn path(&self, pid: u32) -> Option<String> {
        let Some(inner_pid) = self.inner_pid else { return Some(format!("/tmp/perf-{pid}.map")) };
        let folder = self.folder.as_ref()?.as_raw_fd();
        Some(format!("/proc/self/fd/{folder}/perf-{inner_pid}.map"))
    }

    /// True if there is a map that this process wrote, and not an earlier one.
    fn is_own(&self, path: &str) -> bool {
        let written = std::fs::symlink_metadata(path).and_then(|found| found.modified());
        written.is_ok_and(|written| self.started.is_none_or(|started| written + OLDER >= started))
    }

    /// The map of a process that still runs. Its runtime may write it first; then the file doesn't stay.
    fn read_living(&self, pid: u32, asks: bool) -> Option<Vec<u8>> {
        let before = self.read(pid);
        // One that .NET writes by itself would end.
        let writes = || match hotspot::is_jvm(pid) {
            true => hotspot::write_map(pid),
            false => before.is_none() && dotnet::write_map(pid),
        };
        if !asks || !writes() {
            return before;
        }
        let text = self.read(pid);
        if let (None, Some(_), Some(path)) = (&before, &text, self.path(pid)) {
            let _ = std::fs::remove_file(&path);
            let _ = std::fs::remove_file(path.replace("/perf-", "/perfinfo-"));
        }
        text
    }

    /// The map's text: a regular file of root, of the process's user or ours.
    fn read(&self, pid: u32) -> Option<Vec<u8>> {
        let path = self.path(pid).filter(|path| self.is_own(path))?;
        let own = dso::OwnRights::read().map(|rights| rights.user);
        let owners = [Some(0), Some(self.user), own].into_iter().flatten().collect();
        let rule = FileRule::up_to(MAX_BYTES).without_links().dense().owned_by(owners);
        rule.read(path.as_ref()).ok().filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_a_process_wrote_because_of_us_are_removed_when_it_ended() {
        let mut process = std::process::Command::new("sleep").arg("60").spawn().expect("coreutils are there");
        let pid = process.id();
        let paths = ["perf", "perfinfo"].map(|kind| format!("/tmp/{kind}-{pid}.map"));
        for path in &paths {
            std::fs::write(path, "1000 10 made up\n").expect("a file of ours");
        }
        let mut keeper = JitMapKeeper::default();
        keeper.remove_read();
        keeper.note(pid);
        // The kernel reports the end before the process is gone.
        keeper.ended(pid);
        process.kill().and_then(|()| process.wait()).expect("ours");
        let kept = keeper.take().0.len();
        let left = paths.iter().filter(|path| std::fs::remove_file(path).is_ok()).count();
        if proc::innermost_pid(std::process::id()).is_some() {
            return println!("skipped: in a container, where the map has another name");
        }
        assert_eq!((kept, left), (1, 0));
    }

    #[test]
    fn the_map_of_a_process_is_kept_until_it_ended() {
        let pid = std::process::id();
        let path = format!("/tmp/perf-{pid}.map");
        let text = b"1000 10 made up\n";
        std::fs::write(&path, text).expect("a map of ours");
        let mut keeper = JitMapKeeper::default();
        keeper.note(pid);
        keeper.note(pid);
        let living = [keeper.take().0, keeper.take().0];
        keeper.ended(pid);
        let ended = [keeper.take().0, keeper.take().0];
        std::fs::remove_file(&path).expect("ours");
        if proc::innermost_pid(pid).is_some() {
            return println!("skipped: in a container, where the map has another name");
        }
        let map = || vec![JitMap { pid, text: text.to_vec() }];
        assert_eq!((living, ended), ([map(), map()], [map(), Vec::new()]));
    }

    #[test]
    fn a_map_that_is_older_than_its_process_is_of_another() {
        let pid = std::process::id();
        let started = proc::started(pid).expect("this process lives");
        let age = started.elapsed().expect("it began before now");
        assert!(age < Duration::from_secs(3600), "{age:?}");
        let folder = crate::scratch::ScratchFolder::private("old-map").expect("a folder");
        let path = folder.path().join("perf-1.map");
        std::fs::write(&path, "1000 10 f\n").expect("ours");
        let (user, started) = (0, Some(started));
        let place = MapPlace { folder: None, inner_pid: None, user, started, logs: None };
        let is_own = || place.is_own(path.to_str().expect("plain"));
        assert!(is_own());
        let old = SystemTime::now() - age - Duration::from_secs(60);
        File::options().write(true).open(&path).and_then(|file| file.set_modified(old)).expect("ours");
        assert!(!is_own());
    }

    #[test]
    fn a_process_without_a_map_has_none() {
        let mut keeper = JitMapKeeper::default();
        keeper.note(1);
        keeper.note(u32::MAX - 1);
        keeper.ended(u32::MAX - 1);
        assert!(keeper.take().0.iter().all(|map| map.pid == 1));
    }
}
