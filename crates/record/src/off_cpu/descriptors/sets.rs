//! The descriptors of a call of `poll` or `select`: read from the copy of the waiting thread's stack, or else from the
//! memory of its process soon after.

use std::os::unix::fs::FileExt as _;

use syscalls::table::CallTable;

use super::open_file::{MOST_MEMBERS, OpenFile, members};
use super::seen_sockets::SeenSockets;

/// Bytes of `struct pollfd`: an `int` and two `short`.
const POLLFD_BYTES: usize = 8;
/// Programs that wait for more aren't looked at.
const MOST_POLLED: u64 = 4096;

/// A copy of a thread's stack; empty where none was kept.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct UserStack<'a> {
    /// Address of the first byte.
    pub sp: u64,
    pub bytes: &'a [u8],
}

/// The system call that a thread waited in.
#[derive(Debug)]
pub(super) struct WaitingCall<'a> {
    pub pid: u32,
    pub syscall: Option<u32>,
    /// First ones; of a sum only the first one is known.
    pub args: [u64; 3],
    pub since_ns: u64,
    pub stack: UserStack<'a>,
}

/// How a call is given its descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SetForm {
    /// An array of `struct pollfd`, and its length.
    Poll,
    /// A count, and up to three bit sets.
    Select,
}

/// Numbers of the system calls that wait for a set of descriptors in memory.
#[derive(Debug)]
pub(super) struct SetCalls(Vec<(u32, SetForm)>);

impl SetCalls {
    pub(super) fn of(table: &CallTable) -> Self {
        let form = |name: &str| match name {
            "poll" | "ppoll" => Some(SetForm::Poll),
            "select" | "pselect6" => Some(SetForm::Select),
            _ => None,
        };
        Self(table.names().filter_map(|(nr, name)| Some((u32::from(nr), form(name)?))).collect())
    }

    pub(super) fn contains(&self, syscall: u32) -> bool {
        self.0.iter().any(|(nr, _)| *nr == syscall)
    }

    pub(super) fn numbers(&self) -> Vec<u32> {
        self.0.iter().map(|(nr, _)| *nr).collect()
    }

    /// Descriptors that a call waits for; `None` if its memory can't be read, or doesn't look like a set.
    pub(super) fn set_of(
        &self,
        syscall: u32,
        call: &WaitingCall<'_>,
        sockets: &mut SeenSockets,
    ) -> Option<OpenFile> {
        let (_, form) = self.0.iter().find(|(nr, _)| *nr == syscall)?;
        let (numbers, kind) = match form {
            SetForm::Poll => (polled(call)?, "poll"),
            SetForm::Select => (selected(call)?, "select"),
        };
        let members = members(call.pid, &numbers, sockets);
        (!members.links.is_empty()).then(|| OpenFile { link: kind.to_owned(), members: Some(members) })
    }
}

fn polled(call: &WaitingCall<'_>) -> Option<Vec<u32>> {
    let [address, count, _] = call.args;
    if count == 0 || count > MOST_POLLED {
        return None;
    }
    pollfds(&memory(call, address, count as usize * POLLFD_BYTES)?)
}

/// The descriptors of an array of `struct pollfd`; `None` where it holds something else by now.
// Layout: struct pollfd { int fd; short events; short revents; }
// Source: linux v6.18 include/uapi/asm-generic/poll.h
fn pollfds(bytes: &[u8]) -> Option<Vec<u32>> {
    const KNOWN_EVENTS: u16 = 0x7fff;
    let mut numbers = Vec::new();
    for entry in bytes.chunks_exact(POLLFD_BYTES) {
        let fd = i32::from_ne_bytes(entry[..4].try_into().ok()?);
        let events = u16::from_ne_bytes(entry[4..6].try_into().ok()?);
        if events & !KNOWN_EVENTS != 0 || fd >= 1 << 20 {
            return None;
        }
        // Negative ones are left out by the kernel, too.
        numbers.extend(u32::try_from(fd).ok());
    }
    Some(numbers)
}

/// Members of the read and the write set; a wait for exceptions alone isn't known.
fn selected(call: &WaitingCall<'_>) -> Option<Vec<u32>> {
    let [count, reads, writes] = call.args;
    if count == 0 || count > 1024 {
        return None;
    }
    let bytes = (count as usize).div_ceil(64) * 8;
    let sets = [reads, writes].into_iter().filter(|&set| set != 0);
    let mut numbers: Vec<u32> = Vec::new();
    for set in sets {
        numbers.extend(bits(&memory(call, set, bytes)?).filter(|&number| u64::from(number) < count));
    }
    numbers.sort_unstable();
    numbers.dedup();
    (!numbers.is_empty()).then_some(numbers)
}

fn bits(set: &[u8]) -> impl Iterator<Item = u32> + '_ {
    (0..set.len() as u32 * 8).filter(|&bit| set[bit as usize / 8] >> (bit % 8) & 1 == 1)
}

/// Memory of the waiting process: as it was while it waited where the copy of its stack has it, else as it is now.
fn memory(call: &WaitingCall<'_>, address: u64, bytes: usize) -> Option<Vec<u8>> {
    let bytes = bytes.min(MOST_MEMBERS * POLLFD_BYTES);
    let UserStack { sp, bytes: stack } = call.stack;
    let at = address.checked_sub(sp).and_then(|at| usize::try_from(at).ok());
    let kept = at.and_then(|at| stack.get(at..at.checked_add(bytes)?));
    if let Some(kept) = kept {
        return Some(kept.to_vec());
    }
    let memory = dso::system_file::open(format!("/proc/{}/mem", call.pid)).ok()?;
    let mut read = vec![0; bytes];
    memory.read_exact_at(&mut read, address).ok()?;
    Some(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(args: [u64; 3], stack: UserStack<'_>) -> WaitingCall<'_> {
        WaitingCall { pid: std::process::id(), syscall: None, args, since_ns: 0, stack }
    }

    fn entry(fd: i32, events: u16) -> Vec<u8> {
        [&fd.to_ne_bytes()[..], &events.to_ne_bytes(), &[0, 0]].concat()
    }

    #[test]
    fn the_array_of_a_poll_is_read_from_the_kept_stack() {
        let stack = [vec![0; 16], entry(7, 1), entry(-1, 1), entry(3, 5)].concat();
        let stack = UserStack { sp: 0x1000, bytes: &stack };
        assert_eq!(polled(&call([0x1010, 3, 0], stack)), Some(vec![7, 3]));
        // No memory of ours: nothing is mapped there.
        assert_eq!(polled(&call([0x1010, 4, 0], stack)), None);
        assert_eq!(polled(&call([0x1010, 0, 0], stack)), None);
    }

    #[test]
    fn the_array_of_a_poll_is_read_from_the_process_otherwise() {
        let array = [entry(5, 1), entry(6, 4)].concat();
        let asked = call([array.as_ptr() as u64, 2, 0], UserStack::default());
        assert_eq!(polled(&asked), Some(vec![5, 6]));
    }

    #[test]
    fn memory_that_is_no_array_of_a_poll_is_refused() {
        assert_eq!(pollfds(&entry(3, 0xffff)), None);
        assert_eq!(pollfds(&entry(1 << 24, 1)), None);
    }

    #[test]
    fn sets_of_a_select_are_joined() {
        let (reads, writes) = (0b1001_u64.to_ne_bytes(), 0b1000_u64.to_ne_bytes());
        let stack = [reads, writes].concat();
        let stack = UserStack { sp: 0x1000, bytes: &stack };
        assert_eq!(selected(&call([4, 0x1000, 0x1008], stack)), Some(vec![0, 3]));
        assert_eq!(selected(&call([3, 0x1000, 0], stack)), Some(vec![0]));
        assert_eq!(selected(&call([3, 0, 0], stack)), None);
    }
}
