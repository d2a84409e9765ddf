//! Mappings of each process, as far as the recording has them.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::machine::cgroups;
use crate::machine::proc::{self, MapLine};
use crate::sys::time::Clock;

/// A process's mappings are read again after this time at the latest: the size of its address space may be the same by
/// chance.
const AGAIN_NS: u64 = 500_000_000;
/// Pause after a reading, in times of what it took: two percent of a CPU, however often mappings change.
const REST_TIMES: u64 = 50;

/// A stack begins at most so far from its end: arguments and environment are between.
const MOST_ARGUMENTS: u64 = 8 << 20;

/// Mappings written so far, by process.
#[derive(Debug, Default)]
pub(super) struct KnownProcesses {
    by_pid: FxHashMap<u32, Known>,
}

#[derive(Debug, Default, Clone)]
struct Known {
    /// Start and end of code.
    code: Vec<(u64, u64)>,
    written: FxHashSet<(u64, u64, u64, Vec<u8>)>,
    read: Reading,
    /// End of the main thread's stack: each exec puts it elsewhere.
    stack_end: Option<u64>,
    /// Where the stack began when it was not that one any more.
    other_stack: Option<u64>,
    /// Number of its cgroup, 0 if that can't be found; `None` before anyone asked.
    cgroup: Option<u64>,
}

/// A reading of a process's mappings.
#[derive(Debug, Default, Clone, Copy)]
struct Reading {
    /// When it ended, `CLOCK_MONOTONIC`.
    at_ns: u64,
    took_ns: u64,
    /// Size of the address space then; `None` for a list that the process gave.
    pages: Option<u64>,
}

impl Reading {
    /// True if the list holds for a sample of this time. A library may have been loaded since.
    fn holds(self, time_ns: u64, pages: impl FnOnce() -> Option<u64>) -> bool {
        let age_ns = time_ns.saturating_sub(self.at_ns);
        age_ns <= self.took_ns * REST_TIMES
            || age_ns < AGAIN_NS && self.pages.is_some() && self.pages == pages()
    }
}

impl KnownProcesses {
    pub(super) fn is_known(&self, pid: u32) -> bool {
        self.by_pid.contains_key(&pid)
    }

    /// A child has its parent's mappings.
    pub(super) fn fork(&mut self, pid: u32, parent: u32) {
        let known = self.by_pid.get(&parent).cloned().unwrap_or_default();
        self.by_pid.insert(pid, known);
    }

    /// A new program: nothing is mapped yet.
    pub(super) fn exec(&mut self, pid: u32) {
        let cgroup = self.by_pid.get(&pid).and_then(|known| known.cgroup);
        self.by_pid.insert(pid, Known { cgroup, ..Known::default() });
    }

    /// Number of the process's cgroup; 0 if it can't be found. A child has its parent's until its mappings are read.
    pub(super) fn cgroup(&mut self, pid: u32) -> u64 {
        let known = self.by_pid.entry(pid).or_default();
        *known.cgroup.get_or_insert_with(|| cgroups::id_of(pid).unwrap_or(0))
    }

    /// True if the process runs another program than the one that is known, as at the call before: a program without
    /// timers doesn't report its start. One with them does so soon after, hence twice.
    pub(super) fn has_other_program(&mut self, pid: u32) -> bool {
        let Some(known) = self.by_pid.get_mut(&pid) else { return false };
        let (Some(end), Some(start)) = (known.stack_end, proc::stack_start(pid)) else { return false };
        let is_same = start <= end && end - start <= MOST_ARGUMENTS;
        let before = std::mem::replace(&mut known.other_stack, (!is_same).then_some(start));
        !is_same && before == Some(start)
    }

    /// True if code is known at `pc`, and callers of it may be looked for in the list: it holds for this time.
    pub(super) fn has_code_at(&self, pid: u32, pc: u64, time_ns: u64) -> bool {
        self.by_pid.get(&pid).is_some_and(|known| {
            known.code.iter().any(|(start, end)| (*start..*end).contains(&pc))
                && known.read.holds(time_ns, || proc::address_space_pages(pid))
        })
    }

    /// The lines of the text of `/proc/PID/maps` that are code and new.
    pub(super) fn mapped(&mut self, pid: u32, text: &[u8], time_ns: u64) -> Vec<MapLine> {
        self.add(pid, proc::parse_maps(text), Reading { at_ns: time_ns, ..Reading::default() })
    }

    /// The same from `/proc` now.
    pub(super) fn read_again(&mut self, pid: u32) -> Vec<MapLine> {
        let begin_ns = Clock::Monotonic.now_ns();
        // Before the list: what is mapped between the two changes the size.
        let pages = proc::address_space_pages(pid);
        let lines = proc::maps(pid).unwrap_or_default();
        let at_ns = Clock::Monotonic.now_ns();
        self.add(pid, lines, Reading { at_ns, took_ns: at_ns.saturating_sub(begin_ns), pages })
    }

    fn add(&mut self, pid: u32, lines: Vec<MapLine>, read: Reading) -> Vec<MapLine> {
        let known = self.by_pid.entry(pid).or_default();
        known.read = read;
        // A process that lives may have been moved.
        known.cgroup = known.cgroup.filter(|_| read.pages.is_none());
        let stack = lines.iter().find(|line| line.name == b"[stack]");
        known.stack_end = stack.map(|line| line.end).or(known.stack_end);
        let is_code = |line: &MapLine| line.prot & libc::PROT_EXEC as u32 != 0;
        let code = lines.into_iter().filter(is_code);
        code.filter(|line| {
            let is_new = known.written.insert((line.start, line.end, line.pgoff, line.name.clone()));
            if is_new {
                known.code.push((line.start, line.end));
            }
            is_new
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &[u8] = b"1000-2000 r-xp 00000000 08:01 7 /bin/a\n3000-4000 rw-p 00000000 08:01 7 /bin/a\n";

    #[test]
    fn only_new_code_is_told_and_an_exec_begins_anew() {
        let mut known = KnownProcesses::default();
        assert_eq!(known.mapped(1, MAPS, 5).len(), 1);
        assert!(known.mapped(1, MAPS, 6).is_empty());
        known.fork(2, 1);
        assert!(known.has_code_at(2, 0x1800, 6) && !known.has_code_at(2, 0x3800, 6));
        assert!(!known.has_code_at(2, 0x1800, 7), "a list from the process holds until then");
        known.exec(2);
        assert!(known.is_known(2) && !known.has_code_at(2, 0x1800, 6));
        assert_eq!(known.mapped(2, MAPS, 8).len(), 1);
    }

    #[test]
    fn a_stack_elsewhere_at_two_looks_is_another_program() {
        let pid = std::process::id();
        let mut known = KnownProcesses::default();
        known.read_again(pid);
        assert!(!known.has_other_program(pid) && !known.has_other_program(pid));
        known.mapped(pid, b"7000-8000 rw-p 00000000 00:00 0 [stack]\n", 5);
        assert!(!known.has_other_program(pid), "it may still report itself");
        assert!(known.has_other_program(pid));
        known.exec(pid);
        known.read_again(pid);
        assert!(!known.has_other_program(pid) && !known.has_other_program(pid));
    }

    #[test]
    fn a_list_holds_until_the_address_space_has_another_size() {
        let read = Reading { at_ns: 1000, took_ns: 2, pages: Some(7) };
        let holds = |time_ns, pages| read.holds(time_ns, || pages);
        assert!(holds(900, Some(8)), "the sample is older than the list");
        assert!(holds(1100, Some(8)), "the rest after a reading");
        assert!(holds(1101, Some(7)) && !holds(1101, Some(8)) && !holds(1101, None));
        assert!(!holds(1000 + AGAIN_NS, Some(7)), "the size may be the same by chance");
    }
}
