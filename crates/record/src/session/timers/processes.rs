//! Mappings of each process, as far as the recording has them.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::machine::proc::{self, MapLine};

/// A process's mappings are read again no sooner, unless a sample is outside of all.
const AGAIN_NS: u64 = 500_000_000;

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
    read_ns: u64,
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
        self.by_pid.insert(pid, Known::default());
    }

    /// True if code is known at `pc` and the list isn't old.
    pub(super) fn has_code_at(&self, pid: u32, pc: u64, now_ns: u64) -> bool {
        self.by_pid.get(&pid).is_some_and(|known| {
            let is_fresh = now_ns.saturating_sub(known.read_ns) < AGAIN_NS;
            is_fresh && known.code.iter().any(|(start, end)| (*start..*end).contains(&pc))
        })
    }

    /// The lines of the text of `/proc/PID/maps` that are code and new.
    pub(super) fn mapped(&mut self, pid: u32, text: &[u8], now_ns: u64) -> Vec<MapLine> {
        self.add(pid, proc::parse_maps(text), now_ns)
    }

    /// The same from `/proc` now.
    pub(super) fn read_again(&mut self, pid: u32, now_ns: u64) -> Vec<MapLine> {
        let lines = proc::maps(pid).unwrap_or_default();
        self.add(pid, lines, now_ns)
    }

    fn add(&mut self, pid: u32, lines: Vec<MapLine>, now_ns: u64) -> Vec<MapLine> {
        let known = self.by_pid.entry(pid).or_default();
        known.read_ns = now_ns;
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
        assert!(known.has_code_at(2, 0x1800, 7) && !known.has_code_at(2, 0x3800, 7));
        assert!(!known.has_code_at(2, 0x1800, 6 + AGAIN_NS), "the list is old");
        known.exec(2);
        assert!(known.is_known(2) && !known.has_code_at(2, 0x1800, 7));
        assert_eq!(known.mapped(2, MAPS, 8).len(), 1);
    }
}
