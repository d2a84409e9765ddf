//! Names of the bits and values of arguments.
//!
//! Source: include/uapi of Linux 6.18 (asm-generic/fcntl.h, mman-common.h, linux/sched.h, socket.h, futex.h …).

mod files;
mod memory;
mod processes;
mod sockets;

use std::fmt::Write as _;

/// Names of an argument's values: one value under `mask`, and any number of bits.
#[derive(Debug, PartialEq, Eq)]
pub struct FlagNames {
    word: &'static str,
    /// The part of the argument that is one of `values`.
    mask: u64,
    values: &'static [(u64, &'static str)],
    bits: &'static [(u64, &'static str)],
}

const ALL: u64 = 0xffff_ffff;

/// The words by subject.
static GROUPS: [&[FlagNames]; 4] = [files::NAMES, memory::NAMES, processes::NAMES, sockets::NAMES];

/// The names of this word of the table.
#[must_use]
pub fn find(word: &str) -> Option<&'static FlagNames> {
    GROUPS.iter().copied().flatten().find(|names| names.word == word)
}

impl FlagNames {
    /// Appends the names of `value`, joined by `|`; bits without a name in hexadecimal.
    pub fn write(&self, value: u64, to: &mut String) {
        let value = value & ALL;
        let start = to.len();
        let mut rest = value;
        if let Some((part, name)) = self.values.iter().find(|(part, _)| *part == value & self.mask) {
            rest &= !(self.mask & *part);
            to.push_str(name);
            if self.mask == ALL {
                return;
            }
            // Where nothing but the default is set there is nothing to join.
            if *name == "0" && rest != 0 {
                to.truncate(start);
            }
        }
        for (bits, name) in self.bits.iter().filter(|(bits, _)| *bits != 0) {
            if rest & bits == *bits {
                rest &= !bits;
                join(to, start);
                to.push_str(name);
            }
        }
        if rest != 0 {
            join(to, start);
            let _ = write!(to, "{rest:#x}");
        } else if to.len() == start {
            to.push('0');
        }
    }
}

fn join(to: &mut String, start: usize) {
    if to.len() > start {
        to.push('|');
    }
}

/// Appends events of `poll`.
pub fn write_poll_events(value: u64, to: &mut String) {
    if let Some(names) = find("epollbits") {
        names.write(value, to);
    }
}

/// Appends the name of a signal.
pub fn write_signal(number: u64, to: &mut String) {
    if number >= 32 {
        let _ = write!(to, "SIGRT_{}", number - 32);
    } else if let Some(names) = find("sig") {
        names.write(number, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(word: &str, value: u64) -> String {
        let mut text = String::new();
        find(word).expect("known").write(value, &mut text);
        text
    }

    #[test]
    fn bits_are_joined_and_unknown_ones_are_in_hexadecimal() {
        assert_eq!(written("O", 0o2_000_000), "O_RDONLY|O_CLOEXEC");
        assert_eq!(written("O", 0o1101), "O_WRONLY|O_CREAT|O_TRUNC");
        assert_eq!(written("prot", 0), "0");
        assert_eq!(written("prot", 5), "PROT_READ|PROT_EXEC");
        assert_eq!(written("mapflags", 0x22), "MAP_PRIVATE|MAP_ANONYMOUS");
        assert_eq!(written("mapflags", 0x1000_0002), "MAP_PRIVATE|0x10000000");
        assert_eq!(written("access", 0), "F_OK");
        assert_eq!(written("access", 4), "R_OK");
        assert_eq!(written("futex", 0x80), "FUTEX_WAIT|FUTEX_PRIVATE_FLAG");
        assert_eq!(written("seek", 77), "0x4d");
        assert_eq!(written("clone", 0x120_0011), "SIGCHLD|CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID");
        assert_eq!(written("sig", 9), "SIGKILL");
        assert_eq!(written("ioctl", 0x5413), "TIOCGWINSZ");
        assert_eq!(written("ioctl", 0x1_2345), "0x12345");
        assert_eq!(written("rlimit", 7), "RLIMIT_NOFILE");
        assert_eq!(written("random", 3), "GRND_NONBLOCK|GRND_RANDOM");
    }
}
