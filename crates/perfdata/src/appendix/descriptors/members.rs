//! Members of the sets that threads waited for: from the thread that ended a wait one finds the member that was ready.

use super::{CallOfWait, name, put_name, range_of};
use crate::wire::{Put, Wire};

const MAGIC: [u8; 4] = *b"tDM1";

/// A descriptor of an epoll, or of a call of `poll` or `select`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SetMember {
    /// As [`super::NamedDescriptor::name`].
    pub name: String,
    /// Processes that have its other end, ascending; empty if none is known or there is none.
    pub pids: Vec<u32>,
}

/// The members of one set, from a moment on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberList {
    /// The process, as the recording numbers it.
    pub pid: u32,
    /// Number of the system call; [`super::NAMED_ONE_BY_ONE`] for an epoll.
    pub syscall: u32,
    /// First argument of the call; for an epoll its descriptor.
    pub argument: u64,
    /// When they were first seen to be these, ns of the recording's clock.
    pub since_ns: u64,
    /// Indices of the members.
    pub members: Vec<u32>,
}

/// All members, and the sets that they are in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetMembers {
    /// Each of them once.
    pub all: Vec<SetMember>,
    /// By process, call, argument and time.
    pub lists: Vec<MemberList>,
}

impl SetMembers {
    /// Sorts the lists for look-ups.
    pub fn sort(&mut self) {
        self.lists.sort_by_key(|list| (list.pid, list.syscall, list.argument, list.since_ns));
    }

    /// The members of a set at this moment; what was first seen later is taken to have been the same. Empty if no members
    /// are known. For an epoll, the call is [`super::NAMED_ONE_BY_ONE`].
    #[must_use]
    pub fn of(&self, call: CallOfWait, moment_ns: u64) -> Vec<&SetMember> {
        let wanted = (call.pid, call.syscall, call.argument);
        let same = range_of(&self.lists, |list| (list.pid, list.syscall, list.argument).cmp(&wanted));
        let at = same.partition_point(|list| list.since_ns <= moment_ns).saturating_sub(1);
        let members = same.get(at).map_or(&[][..], |list| &list.members);
        members.iter().filter_map(|&member| self.all.get(member as usize)).collect()
    }

    /// Recordings of older versions have none.
    pub(super) fn read(w: &mut Wire<'_>) -> Option<Self> {
        let mut read = Self::default();
        if !w.rest().starts_with(&MAGIC) {
            return Some(read);
        }
        w.array::<4>()?;
        let (members, lists) = (w.u32()?, w.u64()?);
        for _ in 0..members {
            let name = name(w)?;
            read.all.push(SetMember { name, pids: numbers(w)? });
        }
        for _ in 0..lists {
            let (pid, syscall, argument, since_ns) = (w.u32()?, w.u32()?, w.u64()?, w.u64()?);
            let members = numbers(w)?;
            read.lists.push(MemberList { pid, syscall, argument, since_ns, members });
        }
        read.sort();
        Some(read)
    }

    /// Nothing without members.
    pub(super) fn put(&self, p: &mut Put) {
        if self.lists.is_empty() {
            return;
        }
        p.raw(&MAGIC);
        p.u32(u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        p.u64(self.lists.len() as u64);
        for member in &self.all {
            put_name(p, &member.name);
            put_numbers(p, &member.pids);
        }
        for list in &self.lists {
            p.u32(list.pid);
            p.u32(list.syscall);
            p.u64(list.argument);
            p.u64(list.since_ns);
            put_numbers(p, &list.members);
        }
    }
}

fn numbers(w: &mut Wire<'_>) -> Option<Vec<u32>> {
    let count = w.u32()?;
    let mut numbers = Vec::new();
    for _ in 0..count {
        numbers.push(w.u32()?);
    }
    if count.is_multiple_of(2) {
        w.u32()?;
    }
    Some(numbers)
}

fn put_numbers(p: &mut Put, numbers: &[u32]) {
    p.u32(u32::try_from(numbers.len()).unwrap_or(u32::MAX));
    numbers.iter().for_each(|&number| p.u32(number));
    p.pad(8);
}

#[cfg(test)]
mod tests {
    use super::super::{NAMED_ONE_BY_ONE, NamedDescriptors};
    use super::*;
    use crate::wire::Endian;

    fn members() -> SetMembers {
        let member = |name: &str, pids: &[u32]| SetMember { name: name.to_owned(), pids: pids.to_vec() };
        let all =
            vec![member("socket to a 5", &[5]), member("signalfd", &[]), member("pipe from b 6", &[6, 8])];
        let list = |syscall, argument, since_ns, members: &[u32]| MemberList {
            pid: 7,
            syscall,
            argument,
            since_ns,
            members: members.to_vec(),
        };
        let lists = vec![
            list(7, 0x7fff_0000, 100, &[0, 2]),
            list(NAMED_ONE_BY_ONE, 9, 100, &[0, 1]),
            list(NAMED_ONE_BY_ONE, 9, 300, &[1, 2]),
        ];
        SetMembers { all, lists }
    }

    #[test]
    fn members_are_written_and_read_after_the_sets() {
        let named = super::super::NamedSet {
            pid: 7,
            syscall: 7,
            argument: 1,
            since_ns: 0,
            name: "poll of a".to_owned(),
        };
        let names = NamedDescriptors { sets: vec![named], members: members(), ..NamedDescriptors::default() };
        for endian in [Endian::Little, Endian::Big] {
            let bytes = names.to_bytes(endian);
            assert_eq!(NamedDescriptors::read(&bytes, endian), Some(names.clone()));
            assert_eq!(NamedDescriptors::read(&bytes[..bytes.len() - 8], endian), None);
        }
    }

    #[test]
    fn a_set_has_the_members_of_its_time() {
        let members = members();
        let of = |syscall, argument, moment| {
            let call = CallOfWait { pid: 7, syscall, argument };
            members.of(call, moment).iter().map(|member| member.name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(of(NAMED_ONE_BY_ONE, 9, 299), ["socket to a 5", "signalfd"]);
        assert_eq!(of(NAMED_ONE_BY_ONE, 9, 300), ["signalfd", "pipe from b 6"]);
        assert_eq!(of(7, 0x7fff_0000, 50), ["socket to a 5", "pipe from b 6"]);
        assert!(of(7, 9, 500).is_empty());
    }
}
