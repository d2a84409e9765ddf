//! What the descriptors are that threads waited for: tally's appendix, after the functions of Python programs.
//!
//! A wait has the number of the descriptor only, and the process that knows more is gone when a recording is read.
//
// Layout: docs/formats/descriptors.md. In the byte order of the file.

use crate::appendix::python_functions::PythonFunctions;
use crate::wire::{Endian, Put, Wire};

const MAGIC: [u8; 4] = *b"tDN1";

/// A descriptor of a process, from a moment on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NamedDescriptor {
    /// The process, as the recording numbers it.
    pub pid: u32,
    /// The descriptor in that process.
    pub number: u32,
    /// When it was first seen to be this, ns of the recording's clock.
    pub since_ns: u64,
    /// What it is: a path, or a sentence's part like `socket to 10.0.0.5:5432 (postgres 812)`.
    pub name: String,
}

/// All descriptors that were named while recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedDescriptors {
    /// The system calls whose first argument is a descriptor, by their numbers on the recorded machine.
    pub calls: Vec<u32>,
    /// By process, number and time.
    pub all: Vec<NamedDescriptor>,
}

impl NamedDescriptors {
    /// Reads them from an appendix ([`crate::PerfData::appendix`]); `None` if it holds none, or damaged ones.
    #[must_use]
    pub fn read(appendix: &[u8], endian: Endian) -> Option<Self> {
        let before = PythonFunctions::bytes_of(appendix, endian);
        let mut w = Wire::new(appendix.get(before..)?, endian);
        if w.array::<4>()? != MAGIC {
            return None;
        }
        let (calls, names) = (w.u32()?, w.u64()?);
        let mut read = Self::default();
        for _ in 0..calls {
            read.calls.push(w.u32()?);
        }
        if calls % 2 == 1 {
            w.u32()?;
        }
        for _ in 0..names {
            let (pid, number, since_ns, bytes) = (w.u32()?, w.u32()?, w.u64()?, w.u64()?);
            let name = w.take(bytes.checked_next_multiple_of(8)?)?.get(..usize::try_from(bytes).ok()?)?;
            let name = String::from_utf8_lossy(name).into_owned();
            read.all.push(NamedDescriptor { pid, number, since_ns, name });
        }
        read.all.sort_by_key(|named| (named.pid, named.number, named.since_ns));
        Some(read)
    }

    /// The bytes to write after the functions of Python programs; none without names.
    #[must_use]
    pub fn to_bytes(&self, endian: Endian) -> Vec<u8> {
        let mut p = Put::new(endian);
        if self.all.is_empty() {
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
            p.u64(named.name.len() as u64);
            p.raw(named.name.as_bytes());
            p.pad(8);
        }
        p.bytes
    }

    /// Whether the first argument of a system call is a descriptor.
    #[must_use]
    pub fn takes_descriptor(&self, syscall: u32) -> bool {
        self.calls.contains(&syscall)
    }

    /// What the first argument of a system call was at a moment (ns of the recording's clock), and whether the number
    /// was something else at another; `None` if the call has no descriptor there, or it was never named. One that was
    /// first seen later is taken to have been the same.
    #[must_use]
    pub fn name_at(&self, pid: u32, syscall: u32, argument: u64, time_ns: u64) -> Option<(&str, bool)> {
        let number = u32::try_from(argument).ok().filter(|_| self.takes_descriptor(syscall))?;
        let of = |named: &NamedDescriptor| (named.pid, named.number);
        let first = self.all.partition_point(|named| of(named) < (pid, number));
        let after = self.all.partition_point(|named| of(named) <= (pid, number));
        let same = self.all.get(first..after)?;
        let until = same.partition_point(|named| named.since_ns <= time_ns);
        let named = same.get(until.saturating_sub(1))?;
        Some((named.name.as_str(), same.len() > 1))
    }
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
        NamedDescriptors { calls: vec![0, 1, 45], all }
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

    #[test]
    fn every_truncation_is_refused() {
        let bytes = names().to_bytes(Endian::Little);
        for len in 0..bytes.len() {
            assert_eq!(NamedDescriptors::read(&bytes[..len], Endian::Little), None, "{len}");
        }
    }

    #[test]
    fn a_descriptor_has_the_name_of_its_time() {
        let names = names();
        assert_eq!(names.name_at(7, 0, 3, 150), Some(("/a", true)));
        assert_eq!(names.name_at(7, 0, 3, 250), Some(("socket to 10.0.0.5:5432 (postgres 812)", true)));
        // Seen late, for instance because its first wait was long.
        assert_eq!(names.name_at(7, 0, 3, 20), Some(("/a", true)));
        assert_eq!(names.name_at(7, 45, 4, 150), Some(("pipe from tar 9", false)));
        // No descriptor in this call, no such process, no such number.
        assert_eq!(names.name_at(7, 202, 3, 150), None);
        assert_eq!(names.name_at(9, 0, 3, 150), None);
        assert_eq!(names.name_at(7, 0, u64::MAX, 150), None);
    }
}
