//! Facts about a process that decide which files name its code: its mappings, its user, its number in a container.
//!
//! `None` means that the process is gone, or that its folder in /proc isn't ours to read.

use crate::files::system_file;
use std::os::unix::fs::MetadataExt;

/// Bit of [`MapLine::prot`]: readable.
pub const PROT_READ: u32 = 1;
/// Bit of [`MapLine::prot`]: writable.
pub const PROT_WRITE: u32 = 2;
/// Bit of [`MapLine::prot`]: executable.
pub const PROT_EXEC: u32 = 4;

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

/// Prefixes of the names that managers give to the cgroup of a container. Monitors (`libpod-conmon-ID`) are no match, as
/// what follows is no id.
const PREFIXES: &[&str] = &[
    "docker-",
    "libpod-",
    "cri-containerd-",
    "crio-",
    "nerdctl-",
    "lxc.payload.",
    "machine-",
    "docker/",
    "",
];

/// The id (or name) of the container that a cgroup belongs to: of its innermost component that is a container's.
#[must_use]
pub fn container_of_cgroup(path: &str) -> Option<&str> {
    path.rsplit('/').find_map(container_id)
}

/// The container's id or name in one component of a cgroup's path.
#[must_use]
pub fn container_id(component: &str) -> Option<&str> {
    let name = component.strip_suffix(".scope").unwrap_or(component);
    let by_name = ["lxc.payload.", "machine-"].iter().find_map(|prefix| name.strip_prefix(prefix));
    let is_id = |id: &&str| id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    by_name.or_else(|| PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix).filter(is_id)))
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
        prot: bit(0, b'r', PROT_READ) | bit(1, b'w', PROT_WRITE) | bit(2, b'x', PROT_EXEC),
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
pub fn user_of_process(pid: u32) -> Option<u32> {
    std::fs::metadata(format!("/proc/{pid}")).ok().map(|m| m.uid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_inside_a_container_belongs_to_it() {
        let id = "0123456789abcdef".repeat(4);
        let found = |path: &str| container_of_cgroup(path).map(str::to_owned);
        assert_eq!(found(&format!("/system.slice/docker-{id}.scope/init")), Some(id.clone()));
        assert_eq!(found(&format!("/docker/{id}")), Some(id));
        assert_eq!(found("/lxc.payload.web/init.scope"), Some("web".to_owned()));
        assert_eq!(found("/user.slice/user-0.slice/session-1.scope"), None);
    }

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
}
