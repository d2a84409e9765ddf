//! /proc and /sys as values: what runs here, and what it has mapped.
//!
//! Everything here races with the machine: a process may end between two reads. `None` means "not there (any more)
//! or not ours to see"; callers go on without it.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::target::parse_cpu_list;
use dso::system_file;

/// One line of `/proc/PID/maps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapLine {
    /// First address (Avma).
    pub start: u64,
    /// One past the last address (Avma).
    pub end: u64,
    /// `PROT_*` bits.
    pub prot: u32,
    /// True for `MAP_SHARED`.
    pub shared: bool,
    /// Offset in the file, in bytes.
    pub pgoff: u64,
    /// Device, major and minor.
    pub device: (u32, u32),
    /// Inode; 0 if no file.
    pub inode: u64,
    /// Path or pseudo name; empty for anonymous memory.
    pub name: Vec<u8>,
}

impl MapLine {
    /// The file's offset of an address in the mapping.
    #[must_use]
    pub fn offset_of(&self, address: u64) -> u64 {
        // A recording's maps may name any offset.
        address.wrapping_sub(self.start).wrapping_add(self.pgoff)
    }
}

/// A process as `/proc/PID/status` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskStatus {
    /// Its name (≤ 15 bytes).
    pub comm: Vec<u8>,
    /// The process it belongs to.
    pub tgid: u32,
    /// The parent process.
    pub parent: u32,
    /// Real user id.
    pub uid: u32,
}

/// Reads a line of `/proc/PID/maps`; `None` if it is not one.
#[must_use]
pub fn parse_map_line(line: &[u8]) -> Option<MapLine> {
    let mut rest = line;
    let mut field = || {
        let end = rest.iter().position(|&b| b == b' ').unwrap_or(rest.len());
        let (word, tail) = rest.split_at(end);
        rest = tail.strip_prefix(b" ").unwrap_or(tail);
        std::str::from_utf8(word).ok()
    };
    let (start, end) = field()?.split_once('-')?;
    let perms = field()?.as_bytes();
    let pgoff = hex(field()?)?;
    let (major, minor) = field()?.split_once(':')?;
    let inode = field()?.parse().ok()?;
    let name = rest.iter().position(|&b| b != b' ').map_or(&[][..], |i| &rest[i..]);
    let bit = |i: usize, letter: u8, value: u32| if perms.get(i) == Some(&letter) { value } else { 0 };
    Some(MapLine {
        start: hex(start)?,
        end: hex(end)?,
        prot: bit(0, b'r', libc::PROT_READ as u32)
            | bit(1, b'w', libc::PROT_WRITE as u32)
            | bit(2, b'x', libc::PROT_EXEC as u32),
        shared: perms.get(3) == Some(&b's'),
        pgoff,
        device: (u32::try_from(hex(major)?).ok()?, u32::try_from(hex(minor)?).ok()?),
        inode,
        name: name.to_vec(),
    })
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// True if the process or thread exists and isn't a zombie.
#[must_use]
pub fn is_alive(id: u32) -> bool {
    let stat = system_file::read(format!("/proc/{id}/stat")).unwrap_or_default();
    state_letter(&stat).is_some_and(|letter| !matches!(letter, b'Z' | b'X' | b'x'))
}

/// The state in `/proc/TID/stat`: the letter after the last parenthesis, because a name may contain some.
#[must_use]
pub fn state_letter(stat: &[u8]) -> Option<u8> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    stat.get(end + 2).copied()
}

/// Reads `/proc/PID/status`.
#[must_use]
pub fn parse_status(text: &[u8]) -> Option<TaskStatus> {
    let value = |key: &[u8]| {
        let line = text.split(|&b| b == b'\n').find(|l| l.starts_with(key))?;
        Some(line[key.len()..].trim_ascii())
    };
    let number = |key: &[u8]| {
        let word = value(key)?.split(|b| b.is_ascii_whitespace()).next()?;
        std::str::from_utf8(word).ok()?.parse().ok()
    };
    Some(TaskStatus {
        comm: unescape(value(b"Name:")?),
        tgid: number(b"Tgid:")?,
        parent: number(b"PPid:")?,
        uid: number(b"Uid:")?,
    })
}

/// Undoes the escapes of the kernel's `seq_put_escape`: `\n`, `\\` and octal `\ooo`.
fn unescape(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first != b'\\' {
            out.push(first);
            continue;
        }
        let octal = tail.get(..3).and_then(|d| std::str::from_utf8(d).ok()).map(|d| u8::from_str_radix(d, 8));
        if let Some(Ok(byte)) = octal {
            out.push(byte);
            rest = &tail[3..];
        } else if let Some((&code, after)) = tail.split_first() {
            out.push(if code == b'n' { b'\n' } else { code });
            rest = after;
        }
    }
    out
}

/// The mappings of a process, by start; `None` if it is gone or not ours to read.
#[must_use]
pub fn maps(pid: u32) -> Option<Vec<MapLine>> {
    let text = system_file::read(format!("/proc/{pid}/maps")).ok()?;
    Some(text.split(|&b| b == b'\n').filter_map(parse_map_line).collect())
}

/// Name, process, parent and user of a task.
#[must_use]
pub fn status(tid: u32) -> Option<TaskStatus> {
    parse_status(&system_file::read(format!("/proc/{tid}/status")).ok()?)
}

/// The number that a process in a pid namespace of its own has there; `None` if it is in ours, or gone.
#[must_use]
pub fn innermost_pid(pid: u32) -> Option<u32> {
    parse_innermost_pid(&system_file::read(format!("/proc/{pid}/status")).ok()?)
}

fn parse_innermost_pid(status: &[u8]) -> Option<u32> {
    let line = status.split(|&b| b == b'\n').find_map(|line| line.strip_prefix(b"NSpid:"))?;
    let pids: Vec<&str> = std::str::from_utf8(line).ok()?.split_ascii_whitespace().collect();
    pids.last().filter(|_| pids.len() > 1)?.parse().ok()
}

/// The real user of a process.
#[must_use]
pub fn uid(pid: u32) -> Option<u32> {
    fs::metadata(format!("/proc/{pid}")).ok().map(|m| m.uid())
}

/// All process ids now, ascending.
#[must_use]
pub fn pids() -> Vec<u32> {
    numbers_in("/proc").unwrap_or_default()
}

/// The threads of a process, ascending; `None` if it is gone.
#[must_use]
pub fn threads(pid: u32) -> Option<Vec<u32>> {
    numbers_in(&format!("/proc/{pid}/task")).filter(|t| !t.is_empty())
}

/// The processes that a thread has started and that still live; empty if the kernel does not report them
/// (`CONFIG_PROC_CHILDREN`).
#[must_use]
pub fn children(pid: u32, tid: u32) -> Vec<u32> {
    let text = system_file::read_text(format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

fn numbers_in(dir: &str) -> Option<Vec<u32>> {
    let entries = fs::read_dir(dir).ok()?;
    let mut found: Vec<u32> = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok()).collect();
    found.sort_unstable();
    Some(found)
}

/// The CPUs that are online, ascending.
#[must_use]
pub fn online_cpus() -> Vec<u32> {
    system_file::read_text("/sys/devices/system/cpu/online")
        .ok()
        .and_then(|t| parse_cpu_list(&t))
        .unwrap_or_else(|| (0..std::thread::available_parallelism().map_or(1, |n| n.get() as u32)).collect())
}

/// A number below `/proc/sys`, as `kernel/perf_event_paranoid`.
#[must_use]
pub fn sysctl(name: &str) -> Option<i64> {
    system_file::read_text(format!("/proc/sys/{name}")).ok()?.trim().parse().ok()
}

/// The inode numbers of a task's namespaces in the order of `PERF_RECORD_NAMESPACES`: (device, inode).
#[must_use]
pub fn namespaces(pid: u32) -> Vec<(u64, u64)> {
    // Source: linux v6.18 include/uapi/linux/perf_event.h, NET_NS_INDEX …
    ["net", "uts", "ipc", "pid", "user", "mnt", "cgroup"]
        .iter()
        .map(|ns| fs::metadata(format!("/proc/{pid}/ns/{ns}")).map_or((0, 0), |m| (m.dev(), m.ino())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pid_in_the_innermost_namespace_is_the_last() {
        let inner = |line: &str| {
            parse_innermost_pid(format!("Name:\tnode\nNSpid:\t{line}\nVmPeak:\t1 kB\n").as_bytes())
        };
        assert_eq!((inner("27872\t12\t1"), inner("27872"), inner("")), (Some(1), None, None));
    }

    #[test]
    fn a_line_of_maps_keeps_spaces_in_names() {
        let line =
            b"7f00deadb000-7f00deadc000 r-xp 00001000 fd:01 1234                       /tmp/a b (deleted)";
        let map = parse_map_line(line).expect("well formed");
        assert_eq!((map.start, map.end, map.pgoff), (0x7f00_dead_b000, 0x7f00_dead_c000, 0x1000));
        assert_eq!(map.prot, 5);
        assert!(!map.shared);
        assert_eq!((map.device, map.inode), ((0xfd, 1), 1234));
        assert_eq!(map.name, b"/tmp/a b (deleted)");
        assert_eq!(parse_map_line(b"00400000-00401000 rwxs 00000000 00:00 0 ").expect("anonymous").name, b"");
        assert_eq!(parse_map_line(b"nonsense"), None);
    }

    #[test]
    fn a_name_with_a_newline_is_put_back() {
        let status = b"Name:\ta\\nb\\134\nUmask:\t0022\nTgid:\t7\nPid:\t9\nPPid:\t1\nUid:\t33\t33\t33\t33\n";
        let task = parse_status(status).expect("well formed");
        assert_eq!(task, TaskStatus { comm: b"a\nb\\".to_vec(), tgid: 7, parent: 1, uid: 33 });
    }

    #[test]
    fn our_own_maps_contain_our_code() {
        let here = our_own_maps_contain_our_code as fn() as usize as u64;
        let maps = maps(std::process::id()).expect("ours to read");
        assert!(
            maps.iter().any(|m| (m.start..m.end).contains(&here) && m.prot & libc::PROT_EXEC as u32 != 0)
        );
    }
}
