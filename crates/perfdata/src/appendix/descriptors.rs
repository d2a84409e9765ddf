//! Descriptors that threads waited for: tally's appendix, after the functions of Python programs.
//!
//! A wait has the number of the descriptor only, and the process that knows more is gone when a recording is read.
//
// Layout: docs/formats/descriptors.md. In the byte order of the file.

mod members;

pub use members::{MemberList, SetMember, SetMembers};

use std::cmp::Ordering;
use std::ops::RangeInclusive;

use crate::appendix::python_functions::PythonFunctions;
use crate::appendix::section::{Section, read_section};
use crate::wire::{Endian, Put, Wire};

const MAGIC: [u8; 4] = *b"tDN1";
const SETS_MAGIC: [u8; 4] = *b"tDS1";

/// In place of a call's number: the set is an epoll, which has a descriptor.
pub const NAMED_ONE_BY_ONE: u32 = u32::MAX;
/// In place of a call's number: a page fault. The argument is the thread, the name that of the file; empty for memory
/// without a file.
pub const PAGE_FAULT: u32 = u32::MAX - 1;

/// A descriptor of a process, from a moment on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NamedDescriptor {
    /// The process, as the recording numbers it.
    pub pid: u32,
    /// The descriptor in that process.
    pub number: u32,
    /// When it was first seen to be this, ns of the recording's clock.
    pub since_ns: u64,
    /// Description: a path, or a sentence's part like `socket to 10.0.0.5:5432 (postgres 812)`.
    pub name: String,
}

/// The descriptors of one call of `poll` or `select`, from a moment on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NamedSet {
    /// The process, as the recording numbers it.
    pub pid: u32,
    /// Number of the system call.
    pub syscall: u32,
    /// First argument: an address, or for `select` a count.
    pub argument: u64,
    /// When they were first seen to be these, ns of the recording's clock.
    pub since_ns: u64,
    /// The descriptors: `poll of pipe from tar 10 (and 2 more)`.
    pub name: String,
}

/// The system call of a wait, as far as it shows what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallOfWait {
    /// The process, as the recording numbers it.
    pub pid: u32,
    /// Number of the system call.
    pub syscall: u32,
    /// First argument.
    pub argument: u64,
}

/// All descriptors that were named while recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedDescriptors {
    /// The system calls whose first argument is a descriptor, by their numbers on the recorded machine.
    pub calls: Vec<u32>,
    /// By process, number and time.
    pub all: Vec<NamedDescriptor>,
    /// The system calls that take a set of descriptors in memory.
    pub set_calls: Vec<u32>,
    /// By process, call, argument and time. Page faults are among them ([`PAGE_FAULT`]).
    pub sets: Vec<NamedSet>,
    /// Members of epolls and sets.
    pub members: SetMembers,
}

impl NamedDescriptors {
    /// Reads them from an appendix ([`crate::PerfData::appendix`]); `None` if it holds none, or damaged ones.
    #[must_use]
    pub fn read(appendix: &[u8], endian: Endian) -> Option<Self> {
        read_section(appendix, endian)
    }

    /// Recordings of older versions have none.
    fn read_sets(&mut self, w: &mut Wire<'_>) -> Option<()> {
        if !w.rest().starts_with(&SETS_MAGIC) {
            return Some(());
        }
        w.array::<4>()?;
        let (calls, sets) = (w.u32()?, w.u64()?);
        for _ in 0..calls {
            self.set_calls.push(w.u32()?);
        }
        if calls % 2 == 1 {
            w.u32()?;
        }
        for _ in 0..sets {
            let (pid, syscall, argument, since_ns) = (w.u32()?, w.u32()?, w.u64()?, w.u64()?);
            let name = name(w)?;
            self.sets.push(NamedSet { pid, syscall, argument, since_ns, name });
        }
        self.sets.sort_by_key(|set| (set.pid, set.syscall, set.argument, set.since_ns));
        Some(())
    }

    /// The bytes to write after the functions of Python programs; none without names.
    #[must_use]
    pub fn to_bytes(&self, endian: Endian) -> Vec<u8> {
        let mut p = Put::new(endian);
        if self.all.is_empty() && self.sets.is_empty() {
            return p.bytes;
        }
        p.raw(&MAGIC);
        p.u32(u32::try_from(self.calls.len()).unwrap_or(u32::MAX));
        p.u64(self.all.len() as u64);
        self.calls.iter().for_each(|&call| p.u32(call));
        p.pad(8);
        for named in &self.all {
            p.u32(named.pid);
            p.u32(named.number);
            p.u64(named.since_ns);
            put_name(&mut p, &named.name);
        }
        self.put_sets(&mut p);
        self.members.put(&mut p);
        p.bytes
    }

    fn put_sets(&self, p: &mut Put) {
        p.raw(&SETS_MAGIC);
        p.u32(u32::try_from(self.set_calls.len()).unwrap_or(u32::MAX));
        p.u64(self.sets.len() as u64);
        self.set_calls.iter().for_each(|&call| p.u32(call));
        p.pad(8);
        for set in &self.sets {
            p.u32(set.pid);
            p.u32(set.syscall);
            p.u64(set.argument);
            p.u64(set.since_ns);
            put_name(p, &set.name);
        }
    }

    /// Whether a system call waits for descriptors: its first argument is one, or it takes a set of them.
    #[must_use]
    pub fn takes_descriptor(&self, syscall: u32) -> bool {
        self.calls.contains(&syscall) || self.set_calls.contains(&syscall)
    }

    /// Members of the set that a system call waited for at this moment; empty if it waits for one descriptor, or they
    /// are not known.
    #[must_use]
    pub fn members_at(&self, call: CallOfWait, moment_ns: u64) -> Vec<&SetMember> {
        let is_set = self.set_calls.contains(&call.syscall);
        let syscall = if is_set { call.syscall } else { NAMED_ONE_BY_ONE };
        self.members.of(CallOfWait { syscall, ..call }, moment_ns)
    }

    /// Descriptor that a system call waited for at the end of a span of time, and whether that was
    /// something else earlier in the span; `None` if it waits for no descriptor, or for one that was never named. What
    /// was first seen later is taken to have been the same.
    #[must_use]
    pub fn name_in(&self, call: CallOfWait, span: RangeInclusive<u64>) -> Option<(&str, bool)> {
        let CallOfWait { pid, syscall, argument } = call;
        if syscall == PAGE_FAULT || self.set_calls.contains(&syscall) {
            let of = |set: &NamedSet| (set.pid, set.syscall, set.argument);
            let same = range_of(&self.sets, |set| of(set).cmp(&(pid, syscall, argument)));
            return last_in(same, |set| (set.since_ns, &set.name), &span);
        }
        let number = u32::try_from(argument).ok().filter(|_| self.takes_descriptor(syscall))?;
        let of = |named: &NamedDescriptor| (named.pid, named.number);
        let same = range_of(&self.all, |named| of(named).cmp(&(pid, number)));
        last_in(same, |named| (named.since_ns, &named.name), &span)
    }
}

impl Section for NamedDescriptors {
    const MAGIC: [u8; 4] = MAGIC;
    type Before = PythonFunctions;

    fn read_content(w: &mut Wire<'_>) -> Option<Self> {
        let (calls, names) = (w.u32()?, w.u64()?);
        let mut read = Self::default();
        for _ in 0..calls {
            read.calls.push(w.u32()?);
        }
        if calls % 2 == 1 {
            w.u32()?;
        }
        for _ in 0..names {
            let (pid, number, since_ns) = (w.u32()?, w.u32()?, w.u64()?);
            let name = name(w)?;
            read.all.push(NamedDescriptor { pid, number, since_ns, name });
        }
        read.all.sort_by_key(|named| (named.pid, named.number, named.since_ns));
        read.read_sets(w)?;
        read.members = SetMembers::read(w)?;
        Some(read)
    }
}

/// The part of sorted entries that `order` finds equal.
fn range_of<T>(all: &[T], order: impl Fn(&T) -> Ordering) -> &[T] {
    let first = all.partition_point(|entry| order(entry) == Ordering::Less);
    let after = all.partition_point(|entry| order(entry) != Ordering::Greater);
    all.get(first..after).unwrap_or(&[])
}

/// The name at the end of the span, and whether there was another in it.
fn last_in<'a, T>(
    same: &'a [T],
    of: impl Fn(&T) -> (u64, &String),
    span: &RangeInclusive<u64>,
) -> Option<(&'a str, bool)> {
    let at = |moment: u64| same.partition_point(|entry| of(entry).0 <= moment).saturating_sub(1);
    let (first, last) = (at(*span.start()), at(*span.end()));
    let (_, name) = of(same.get(last)?);
    let has_others = same.get(first..last)?.iter().any(|entry| of(entry).1 != name);
    Some((name.as_str(), has_others))
}

fn name(w: &mut Wire<'_>) -> Option<String> {
    let bytes = w.u64()?;
    let name = w.take(bytes.checked_next_multiple_of(8)?)?.get(..usize::try_from(bytes).ok()?)?;
    Some(String::from_utf8_lossy(name).into_owned())
}

fn put_name(p: &mut Put, name: &str) {
    p.u64(name.len() as u64);
    p.raw(name.as_bytes());
    p.pad(8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::appendix::python_functions::PythonFunction;

    fn names() -> NamedDescriptors {
        let named = |pid, number, since_ns, name: &str| NamedDescriptor {
            pid,
            number,
            since_ns,
            name: name.to_owned(),
        };
        let all = vec![
            named(7, 3, 100, "/a"),
            named(7, 3, 200, "socket to 10.0.0.5:5432 (postgres 812)"),
            named(7, 4, 100, "pipe from tar 9"),
            named(8, 3, 50, "/b"),
        ];
        let set = |argument, since_ns, name: &str| NamedSet {
            pid: 7,
            syscall: 7,
            argument,
            since_ns,
            name: name.to_owned(),
        };
        let sets = vec![set(0x7fff_0000, 100, "poll of /a"), set(0x7fff_0000, 300, "poll of /b")];
        NamedDescriptors {
            calls: vec![0, 1, 45],
            all,
            set_calls: vec![7],
            sets,
            members: SetMembers::default(),
        }
    }

    #[test]
    fn names_are_read_with_and_without_other_parts_before_them() {
        let function = PythonFunction { name: "main".to_owned(), ..PythonFunction::default() };
        let python = PythonFunctions { functions: vec![function], ..PythonFunctions::default() };
        for endian in [Endian::Little, Endian::Big] {
            let bytes = names().to_bytes(endian);
            assert_eq!(NamedDescriptors::read(&bytes, endian), Some(names()));
            let appendix = [python.to_bytes(endian), bytes].concat();
            assert_eq!(NamedDescriptors::read(&appendix, endian), Some(names()));
            assert_eq!(PythonFunctions::read(&appendix, endian).as_ref(), Some(&python));
        }
        assert!(NamedDescriptors::default().to_bytes(Endian::Little).is_empty());
    }

    /// Bytes of the part about sets, which older recordings don't have.
    fn without_sets() -> (NamedDescriptors, usize) {
        let only = NamedDescriptors { set_calls: Vec::new(), sets: Vec::new(), ..names() };
        let bytes = only.to_bytes(Endian::Little).len() - 16;
        (only, bytes)
    }

    #[test]
    fn every_truncation_is_refused() {
        let bytes = names().to_bytes(Endian::Little);
        let (_, old) = without_sets();
        for len in (0..bytes.len()).filter(|len| !(old..old + 4).contains(len)) {
            assert_eq!(NamedDescriptors::read(&bytes[..len], Endian::Little), None, "{len}");
        }
    }

    #[test]
    fn recordings_without_sets_are_read() {
        let bytes = names().to_bytes(Endian::Little);
        let (only, old) = without_sets();
        assert_eq!(NamedDescriptors::read(&bytes[..old], Endian::Little), Some(only));
    }

    #[test]
    fn a_descriptor_has_the_name_of_its_time() {
        let names = names();
        let at = |pid, syscall, argument, moment| {
            names.name_in(CallOfWait { pid, syscall, argument }, moment..=moment)
        };
        assert_eq!(at(7, 0, 3, 150), Some(("/a", false)));
        assert_eq!(at(7, 0, 3, 250), Some(("socket to 10.0.0.5:5432 (postgres 812)", false)));
        // Seen late, for instance because its first wait was long.
        assert_eq!(at(7, 0, 3, 20), Some(("/a", false)));
        assert_eq!(at(7, 45, 4, 150), Some(("pipe from tar 9", false)));
        // No descriptor in this call, no such process, no such number.
        assert_eq!(at(7, 202, 3, 150), None);
        assert_eq!(at(9, 0, 3, 150), None);
        assert_eq!(at(7, 0, u64::MAX, 150), None);
    }

    #[test]
    fn a_span_with_several_names_has_the_last_one() {
        let names = names();
        let of = |syscall, argument, span| names.name_in(CallOfWait { pid: 7, syscall, argument }, span);
        assert_eq!(of(0, 3, 150..=250), Some(("socket to 10.0.0.5:5432 (postgres 812)", true)));
        assert_eq!(of(7, 0x7fff_0000, 150..=350), Some(("poll of /b", true)));
        assert_eq!(of(7, 0x7fff_0000, 20..=150), Some(("poll of /a", false)));
        assert_eq!(of(7, 0x7fff_0008, 20..=150), None);
    }
}
