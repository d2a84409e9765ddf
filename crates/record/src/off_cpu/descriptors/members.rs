//! Members of sets with the processes at their other ends, each once.

use perfdata::appendix::descriptors::{CallOfWait, MemberList, SetMember, SetMembers};
use rustc_hash::FxHashMap;

use super::open_file::OpenFile;
use super::other_ends::Found;

/// The table while it is filled.
pub(super) struct MemberTable<'f> {
    ends: &'f Found,
    members: SetMembers,
    index: FxHashMap<SetMember, u32>,
    /// By process and link.
    known: FxHashMap<(u32, String), u32>,
}

impl<'f> MemberTable<'f> {
    /// Empty.
    pub(super) fn new(ends: &'f Found) -> Self {
        let (members, index, known) = (SetMembers::default(), FxHashMap::default(), FxHashMap::default());
        Self { ends, members, index, known }
    }

    /// Adds a set as it was from `since_ns` on; nothing for a single descriptor.
    pub(super) fn add(&mut self, call: CallOfWait, since_ns: u64, file: &OpenFile) {
        let Some(of) = &file.members else { return };
        let members = of.links.iter().map(|link| self.member(call.pid, link)).collect();
        let CallOfWait { pid, syscall, argument } = call;
        self.members.lists.push(MemberList { pid, syscall, argument, since_ns, members });
    }

    /// All of them.
    pub(super) fn finish(mut self) -> SetMembers {
        self.members.sort();
        self.members
    }

    fn member(&mut self, pid: u32, link: &str) -> u32 {
        if let Some(&at) = self.known.get(&(pid, link.to_owned())) {
            return at;
        }
        let member = SetMember { name: self.ends.name(pid, link), pids: self.ends.other_pids(link) };
        let all = &mut self.members.all;
        let at = *self.index.entry(member).or_insert_with_key(|member| {
            all.push(member.clone());
            u32::try_from(all.len() - 1).unwrap_or(u32::MAX)
        });
        self.known.insert((pid, link.to_owned()), at);
        at
    }
}
