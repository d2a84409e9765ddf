//! Code by address and time: files mapped, code made at run time, code of the kernel that was changed in place.

use profile::view::ranking::RankRows as _;
use std::sync::Arc;

use rustc_hash::FxHashMap;

/// Process id of the kernel in mapping records.
pub(super) const KERNEL: i32 = -1;

/// A mapping of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeMapping {
    /// First address.
    pub start: u64,
    /// Bytes.
    pub bytes: u64,
    /// Offset in the file of `start`.
    pub offset: u64,
    /// The file, or a name in brackets.
    pub name: String,
    /// Build-id, if recorded.
    pub build_id: Option<Vec<u8>>,
    /// The program may write to it, so its content may differ from the file's.
    pub writable: bool,
}

impl CodeMapping {
    /// The file's offset of an address in it.
    #[must_use]
    pub fn offset_of(&self, address: u64) -> u64 {
        // The offset is the recording's, which may name any.
        address.wrapping_sub(self.start).wrapping_add(self.offset)
    }

    /// True for memory without a file.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        self.name == "//anon" || self.name.starts_with("/dev/zero") || self.name.starts_with("[anon:")
    }
}

/// Code that no file holds as it was run: made at run time, or put in place of other code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeCode {
    /// Begin of its existence, ns of the recording's clock.
    pub from_ns: u64,
    /// First address.
    pub start: u64,
    /// The function's name, as reported with the code.
    pub name: String,
    /// Bytes.
    pub code: Arc<[u8]>,
}

/// A piece of code with the end of its existence.
#[derive(Clone, Debug)]
struct Made {
    until_ns: u64,
    of: MadeCode,
}

/// A process's code over time.
#[derive(Clone, Debug, Default)]
struct Process {
    /// From this time on, this space with this list of mappings. A new space begins when code is replaced.
    spaces: Vec<(u64, u32, Arc<[CodeMapping]>)>,
    /// By first address.
    made: Vec<Made>,
    /// Bytes of the longest of these.
    longest: u64,
}

/// All processes' code.
#[derive(Clone, Debug, Default)]
pub(super) struct CodeSpaces {
    by_pid: FxHashMap<i32, Process>,
    /// Spaces are numbered from 1.
    spaces: u32,
}

impl CodeSpaces {
    fn fresh(&mut self) -> u32 {
        self.spaces += 1;
        self.spaces
    }

    /// A mapping came, over whatever was there.
    pub(super) fn mapped(&mut self, pid: i32, time_ns: u64, new: CodeMapping) {
        let last = self.by_pid.entry(pid).or_default().spaces.last().cloned();
        let (space, list) = last.map_or((None, Arc::from([])), |(_, space, list)| (Some(space), list));
        if list.contains(&new) {
            return;
        }
        let end = new.start.saturating_add(new.bytes);
        let apart = |old: &&CodeMapping| old.start >= end || old.start.saturating_add(old.bytes) <= new.start;
        let mut kept: Vec<CodeMapping> = list.iter().filter(apart).cloned().collect();
        // Added code leaves decoded code valid. Replaced code doesn't.
        let space = space.filter(|_| kept.len() == list.len());
        let space = space.unwrap_or_else(|| self.fresh());
        kept.push(new);
        self.by_pid.entry(pid).or_default().spaces.push((time_ns, space, kept.into()));
    }

    /// exec: all mappings are gone.
    pub(super) fn replaced(&mut self, pid: i32, time_ns: u64) {
        let space = self.fresh();
        self.by_pid.entry(pid).or_default().spaces.push((time_ns, space, Arc::from([])));
    }

    /// A child has its parent's code.
    pub(super) fn forked(&mut self, pid: i32, parent: i32) {
        if let Some(process) = self.by_pid.get(&parent).cloned() {
            self.by_pid.insert(pid, process);
        }
    }

    /// Adds code made at run time, in the order of time. Older code that it overlaps is gone from then on.
    pub(super) fn made(&mut self, pid: i32, all: Vec<MadeCode>) {
        let mut process = self.by_pid.remove(&pid).unwrap_or_default();
        let mut changes = Vec::new();
        for of in all {
            let (from_ns, end) = (of.from_ns, of.start.saturating_add(of.code.len() as u64));
            let near = process.near(of.start, end);
            let over = process.made[near].iter_mut().filter(|old| {
                old.until_ns > from_ns
                    && old.of.start < end
                    && of.start < old.of.start.saturating_add(old.of.code.len() as u64)
            });
            let count = over.map(|old| old.until_ns = from_ns).count();
            if count > 0 && changes.last() != Some(&from_ns) {
                changes.push(from_ns);
            }
            process.longest = process.longest.max(of.code.len() as u64);
            let at = process.made.partition_point(|made| made.of.start <= of.start);
            process.made.insert(at, Made { until_ns: u64::MAX, of });
        }
        for change in changes {
            let after = process.spaces.partition_point(|(from_ns, _, _)| *from_ns <= change);
            let list = after.checked_sub(1).map_or(Arc::from([]), |before| process.spaces[before].2.clone());
            // All that follows until mappings are replaced is a space of its own, too.
            let (before, space) = (after.checked_sub(1).map(|at| process.spaces[at].1), self.fresh());
            let same =
                process.spaces[after..].iter_mut().take_while(|(_, number, _)| Some(*number) == before);
            same.for_each(|(_, number, _)| *number = space);
            process.spaces.insert(after, (change, space, list));
        }
        self.by_pid.insert(pid, process);
    }

    /// The space number and code mappings of a process at a time; of its last state if times can't be compared.
    pub(super) fn at(&self, pid: i32, time_ns: Option<u64>) -> Option<(u32, &[CodeMapping])> {
        let spaces = &self.by_pid.get(&pid)?.spaces;
        let after = time_ns
            .map_or(spaces.len(), |time_ns| spaces.partition_point(|(from_ns, _, _)| *from_ns <= time_ns));
        let (_, space, list) = spaces.get(after.saturating_sub(1))?;
        Some((*space, list))
    }

    /// When the space changes next after a time, ns.
    pub(super) fn changes_after(&self, pid: i32, time_ns: u64) -> Option<u64> {
        let spaces = &self.by_pid.get(&pid)?.spaces;
        spaces
            .get(spaces.partition_point(|(from_ns, _, _)| *from_ns <= time_ns))
            .map(|(from_ns, _, _)| *from_ns)
    }

    /// The code made at run time that was at an address at a time. If there was none yet, the first that came there:
    /// code is reported when it is finished, and may run a little before the reported time.
    pub(super) fn made_at(&self, pid: i32, ip: u64, time_ns: Option<u64>) -> Option<&MadeCode> {
        let process = self.by_pid.get(&pid)?;
        let holds = |made: &&Made| ip.wrapping_sub(made.of.start) < made.of.code.len() as u64;
        let all = || process.made[process.near(ip, ip.saturating_add(1))].iter().filter(holds);
        let Some(time_ns) = time_ns else {
            return all().max_by_key(|made| made.of.from_ns).map(|made| &made.of);
        };
        let then = all().find(|made| (made.of.from_ns..made.until_ns).contains(&time_ns));
        then.or_else(|| all().filter(|made| made.of.from_ns > time_ns).min_by_key(|made| made.of.from_ns))
            .map(|made| &made.of)
    }

    /// Every mapping of code, of all processes and times.
    pub(super) fn all(&self) -> impl Iterator<Item = &CodeMapping> {
        let mut pids: Vec<_> = self.by_pid.iter().collect();
        pids.rank_by_key(|(pid, _)| **pid);
        pids.into_iter().flat_map(|(_, process)| process.spaces.iter().flat_map(|(_, _, list)| list.iter()))
    }

    /// Mappings of files that the recording has only by name, with their process.
    pub(super) fn mappings(&self) -> impl Iterator<Item = (i32, &CodeMapping)> {
        let each = self.by_pid.iter();
        each.flat_map(|(pid, process)| {
            process.spaces.iter().flat_map(|(_, _, list)| list.iter()).map(|one| (*pid, one))
        })
    }

    /// Gives the mappings without a build-id the one that is known of their file.
    pub(super) fn identify(&mut self, named: impl Fn(&str) -> Option<Vec<u8>>) {
        let mut known: FxHashMap<String, Option<Vec<u8>>> = FxHashMap::default();
        for (_, _, list) in self.by_pid.values_mut().flat_map(|process| &mut process.spaces) {
            let mut identified = list.to_vec();
            for mapping in identified.iter_mut().filter(|mapping| mapping.build_id.is_none()) {
                let id = known.entry(mapping.name.clone()).or_insert_with_key(|name| named(name));
                mapping.build_id.clone_from(id);
            }
            *list = identified.into();
        }
    }
}

impl Process {
    /// Positions of code that may cover addresses from `start` to `end`.
    fn near(&self, start: u64, end: u64) -> std::ops::Range<usize> {
        let first = self.made.partition_point(|made| made.of.start.saturating_add(self.longest) <= start);
        let last = self.made.partition_point(|made| made.of.start < end);
        first.min(last)..last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(from_ns: u64, start: u64, code: &[u8]) -> MadeCode {
        MadeCode { from_ns, start, name: format!("f{from_ns}"), code: code.into() }
    }

    fn file(start: u64) -> CodeMapping {
        let name = "/lib/x.so".to_owned();
        CodeMapping { start, bytes: 0x1000, offset: 0, name, build_id: None, writable: false }
    }

    #[test]
    fn code_made_over_other_code_is_there_from_its_time_on_and_begins_a_space() {
        let mut all = CodeSpaces::default();
        all.mapped(7, 0, file(0x1000));
        all.made(7, vec![made(10, 0x5000, &[1; 16]), made(20, 0x6000, &[2; 16]), made(30, 0x5008, &[3; 16])]);
        let at = |ip, time_ns| all.made_at(7, ip, Some(time_ns)).map(|made| made.from_ns);
        assert_eq!(
            [at(0x5000, 15), at(0x5009, 29), at(0x5009, 30), at(0x5017, 40)],
            [Some(10), Some(10), Some(30), Some(30)]
        );
        assert_eq!(
            [at(0x5000, 40), at(0x6001, 5), at(0x6010, 50), at(0x4fff, 50)],
            [None, Some(20), None, None]
        );
        let space = |time_ns| all.at(7, Some(time_ns)).map(|(number, list)| (number, list.len()));
        assert_eq!((space(29), space(30)), (Some((1, 1)), Some((2, 1))));
        assert_eq!((all.changes_after(7, 5), all.changes_after(7, 30)), (Some(30), None));
        assert_eq!(all.made_at(7, 0x5009, None).map(|made| made.from_ns), Some(30));
    }

    #[test]
    fn mappings_that_come_later_belong_to_the_space_that_code_made_before_began() {
        let mut all = CodeSpaces::default();
        all.mapped(7, 0, file(0x1000));
        all.mapped(7, 40, file(0x3000));
        all.made(7, vec![made(10, 0x5000, &[1; 16]), made(30, 0x5000, &[3; 16])]);
        let space = |time_ns| all.at(7, Some(time_ns)).map(|(number, list)| (number, list.len()));
        assert_eq!((space(0), space(30), space(40)), (Some((1, 1)), Some((2, 1)), Some((2, 2))));
    }
}
