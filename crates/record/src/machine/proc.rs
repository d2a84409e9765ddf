//! /proc and /sys as values: what runs here, and what it has mapped.
//!
//! Everything here races with the machine: a process may end between two reads. `None` means "not there (any more)
//! or not ours to see"; callers go on without it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt as _, MetadataExt};
use std::time::{Duration, SystemTime};

use crate::open::target::parse_cpu_list;
use dso::system_file;
pub use dso::{MapLine, innermost_pid, parse_map_line, user_of_process as uid};

/// A process as `/proc/PID/status` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskStatus {
    /// Name (≤ 15 bytes).
    pub comm: Vec<u8>,
    /// The process it belongs to.
    pub tgid: u32,
    /// The parent process.
    pub parent: u32,
    /// Real user id.
    pub uid: u32,
}

/// True if the process or thread exists and isn't a zombie.
#[must_use]
pub fn is_alive(id: u32) -> bool {
    state(id).is_some_and(|letter| !matches!(letter, b'Z' | b'X' | b'x'))
}

/// True if a signal or a tracer has stopped the process or thread.
#[must_use]
pub fn is_stopped(id: u32) -> bool {
    state(id).is_some_and(|letter| matches!(letter, b'T' | b't'))
}

/// Letter of its state; `None` if there is no such process or thread.
fn state(id: u32) -> Option<u8> {
    state_letter(&system_file::read(format!("/proc/{id}/stat")).ok()?)
}

/// The state in `/proc/TID/stat`: the letter after the last parenthesis, because a name may contain some.
#[must_use]
pub fn state_letter(stat: &[u8]) -> Option<u8> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    stat.get(end + 2).copied()
}

/// Where the main thread's stack began at the last exec; `None` if that is not ours to see.
#[must_use]
pub fn stack_start(pid: u32) -> Option<u64> {
    // Source: linux v6.18 fs/proc/array.c, do_task_stat(): `mm->start_stack` is the 28th.
    stat_number(pid, 28).filter(|&start| start > 0)
}

/// When the process was forked; `None` if it is gone.
#[must_use]
pub fn started(pid: u32) -> Option<SystemTime> {
    /// Units of `/proc/PID/stat` in a second, on every architecture (USER_HZ).
    const PER_SECOND: f64 = 100.0;
    let uptime = system_file::read_text("/proc/uptime").ok()?;
    let uptime_s: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    // Source: the same function: `start_boottime` is the 22nd.
    let age_s = uptime_s - stat_number(pid, 22)? as f64 / PER_SECOND;
    SystemTime::now().checked_sub(Duration::try_from_secs_f64(age_s.max(0.0)).ok()?)
}

/// The n-th number of `/proc/PID/stat`, from the 4th on; `None` if there is none.
fn stat_number(pid: u32, nth: usize) -> Option<u64> {
    /// Those up to the name and the state after it.
    const BEFORE: usize = 3;
    let stat = system_file::read(format!("/proc/{pid}/stat")).ok()?;
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let word = stat.get(end + 2..)?.split(|byte| *byte == b' ').nth(nth - BEFORE)?;
    std::str::from_utf8(word).ok()?.parse().ok()
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

/// True if a process's memory is ours to read.
#[must_use]
pub fn is_memory_readable(pid: u32) -> bool {
    system_file::open(format!("/proc/{pid}/mem")).is_ok()
}

/// The mappings of a process, by start; `None` if it is gone or not ours to read.
#[must_use]
pub fn maps(pid: u32) -> Option<Vec<MapLine>> {
    let text = system_file::read(format!("/proc/{pid}/maps")).ok()?;
    Some(parse_maps(&text))
}

/// Size of a process's address space in pages: another number than before means that mappings have changed.
#[must_use]
pub fn address_space_pages(pid: u32) -> Option<u64> {
    // Source: linux v6.18 fs/proc/array.c, proc_pid_statm(): the first number is total_vm.
    let text = system_file::read_text(format!("/proc/{pid}/statm")).ok()?;
    text.split(' ').next()?.parse().ok()
}

/// The mappings in the text of `/proc/PID/maps`; lines that are none are left out.
#[must_use]
pub(crate) fn parse_maps(text: &[u8]) -> Vec<MapLine> {
    text.split(|&b| b == b'\n').filter_map(parse_map_line).collect()
}

/// Name, process, parent and user of a task.
#[must_use]
pub fn status(tid: u32) -> Option<TaskStatus> {
    parse_status(&system_file::read(format!("/proc/{tid}/status")).ok()?)
}

/// The process that traces a thread, such as a debugger; `None` without one, or if it isn't ours to see.
#[must_use]
pub fn tracer_of(tid: u32) -> Option<u32> {
    let status = system_file::read_text(format!("/proc/{tid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
    line.trim().parse().ok().filter(|&pid| pid != 0)
}

/// True if a thread blocks a signal.
#[must_use]
pub fn blocks_signal(tid: u32, signal: u32) -> bool {
    let status = system_file::read_text(format!("/proc/{tid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
    let mask = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
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

/// Target of a process's descriptor, as `/proc` names it: a path, `socket:[7]`.
///
/// # Errors
/// It is closed, or the process may not be looked at.
pub fn descriptor_link(pid: u32, number: u32) -> io::Result<String> {
    let link = fs::read_link(format!("/proc/{pid}/fd/{number}"))?;
    Ok(link.to_string_lossy().into_owned())
}

/// True for a descriptor of a pipe, with a name in a folder or without.
pub fn is_pipe(pid: u32, number: u32) -> bool {
    fs::metadata(format!("/proc/{pid}/fd/{number}")).is_ok_and(|file| file.file_type().is_fifo())
}

/// The CPUs that are online, ascending.
#[must_use]
pub fn online_cpus() -> Vec<u32> {
    OnlineCpus::open().read()
}

/// The list of online CPUs, kept open to be read often.
#[derive(Debug)]
pub struct OnlineCpus(Option<File>);

impl OnlineCpus {
    /// Opens the list.
    #[must_use]
    pub fn open() -> Self {
        Self(system_file::open("/sys/devices/system/cpu/online").ok())
    }

    fn read_into<'t>(&self, text: &'t mut [u8]) -> Option<&'t str> {
        let len = self.0.as_ref()?.read_at(text, 0).ok()?;
        std::str::from_utf8(text.get(..len)?).ok()
    }

    /// CPUs online now, ascending; where the list can't be read, as many as this process may use, from 0 on.
    #[must_use]
    pub fn read(&self) -> Vec<u32> {
        let mut text = [0; 256];
        let short = self.read_into(&mut text).filter(|text| text.ends_with('\n'));
        // Ranges of at most 8192 CPUs, every second of them offline, are 20,000 bytes.
        let mut long = Vec::new();
        let text = short.or_else(|| {
            long.resize(24 << 10, 0);
            self.read_into(&mut long)
        });
        text.and_then(parse_cpu_list).unwrap_or_else(|| {
            (0..std::thread::available_parallelism().map_or(1, |n| n.get() as u32)).collect()
        })
    }
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

    #[test]
    fn the_list_of_online_cpus_can_be_read_again() {
        let (cpus, file) = (OnlineCpus::open(), "/sys/devices/system/cpu/online");
        let listed = system_file::read_text(file).ok().and_then(|text| parse_cpu_list(&text));
        assert_eq!([Some(cpus.read()), Some(cpus.read())], [listed.clone(), listed]);
    }
}
