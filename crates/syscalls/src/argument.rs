//! Kinds of arguments of system calls: their names in the table, and the memory they point to.

use super::flags::{self, FlagNames};
use crate::layout::CopyLength;

/// The kind of one argument, or of what a call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgKind {
    /// A signed number of 32 bits (of 64 where it does not fit).
    Number,
    /// A size or count.
    Unsigned,
    /// A number in hexadecimal.
    Hex,
    /// An address.
    Pointer,
    /// The mode of a file, in octal.
    Mode,
    /// A descriptor.
    Fd,
    /// A descriptor of a folder, or `AT_FDCWD`.
    DirFd,
    /// The name of a file.
    Path,
    /// Another string.
    Text,
    /// A string that the call writes.
    OutString,
    /// Bytes, as many as this argument.
    In(u8),
    /// Bytes that the call writes, as many as it returns.
    Out,
    /// `struct iovec`, as many as this argument.
    Iov(u8),
    /// A socket address of as many bytes as this argument.
    Address(u8),
    /// A socket address that the call writes; this argument points to its size.
    AddressOut(u8),
    /// `struct timespec`.
    Timespec,
    /// `struct timespec` that the call writes.
    TimespecOut,
    /// `struct timeval`.
    Timeval,
    /// `struct stat` that the call writes.
    Stat,
    /// `struct pollfd`, as many as the next argument.
    PollFds(u8),
    /// Two descriptors that the call writes.
    Fds,
    /// A set of signals.
    SigSet,
    /// `struct epoll_event`.
    EpollEvent,
    /// `struct msghdr`.
    Message,
    /// Arguments of a program.
    Argv,
    /// One of a set of names, or several.
    Named(&'static FlagNames),
}

/// Bytes of `struct stat`.
const STAT_BYTES: u16 = if cfg!(target_arch = "x86_64") { 144 } else { 128 };
/// Most bytes of a socket address that are read: `struct sockaddr_un` and some.
const ADDRESS_BYTES: u16 = 128;
/// Most descriptors, or vectors, that are shown.
const SEVERAL: u16 = 4;
/// Most bytes of a path.
const PATH_BYTES: u16 = 512;

impl ArgKind {
    /// Reads a word of the table; `None` if there is no such kind.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        if let Some(names) = flags::find(word) {
            return Some(Self::Named(names));
        }
        let (kind, digit) = match word.char_indices().last() {
            Some((at, digit)) if digit.is_ascii_digit() => (&word[..at], digit as u8 - b'0'),
            _ => (word, 0),
        };
        Some(match kind {
            "d" => Self::Number,
            "u" => Self::Unsigned,
            "x" => Self::Hex,
            "p" => Self::Pointer,
            "mode" => Self::Mode,
            "fd" => Self::Fd,
            "dirfd" => Self::DirFd,
            "path" => Self::Path,
            "str" => Self::Text,
            "outstr" => Self::OutString,
            "in" => Self::In(digit),
            "out" => Self::Out,
            "iov" => Self::Iov(digit),
            "addr" => Self::Address(digit),
            "addrout" => Self::AddressOut(digit),
            "timespec" => Self::Timespec,
            "timespecout" => Self::TimespecOut,
            "timeval" => Self::Timeval,
            "stat" => Self::Stat,
            "pollfds" => Self::PollFds(1),
            "fds" => Self::Fds,
            "sigset" => Self::SigSet,
            "epollevent" => Self::EpollEvent,
            "msg" => Self::Message,
            "argv" => Self::Argv,
            _ => return None,
        })
    }

    /// Memory read at the pointer: how much, of which unit, at most how many bytes. `None` if nothing is.
    #[must_use]
    pub fn memory(&self, buffer_bytes: u16) -> Option<(CopyLength, u8, u16)> {
        Some(match *self {
            Self::Path | Self::OutString | Self::Text => (CopyLength::String, 1, PATH_BYTES),
            Self::In(of) => (CopyLength::Argument(of), 1, buffer_bytes),
            Self::Out => (CopyLength::Returned, 1, buffer_bytes),
            Self::Iov(of) => (CopyLength::Argument(of), 16, 16 * SEVERAL),
            Self::PollFds(of) => (CopyLength::Argument(of), 8, 8 * SEVERAL),
            Self::Address(of) => (CopyLength::Argument(of), 1, ADDRESS_BYTES),
            Self::AddressOut(of) => (CopyLength::Pointed(of), 1, ADDRESS_BYTES),
            Self::Timespec | Self::TimespecOut | Self::Timeval => (CopyLength::Fixed, 1, 16),
            Self::Stat => (CopyLength::Fixed, 1, STAT_BYTES),
            Self::Fds | Self::SigSet => (CopyLength::Fixed, 1, 8),
            Self::EpollEvent => (CopyLength::Fixed, 1, 12),
            Self::Message => (CopyLength::Fixed, 1, 56),
            _ => return None,
        })
    }

    /// The call writes what it points to.
    #[must_use]
    pub fn is_output(&self) -> bool {
        matches!(
            self,
            Self::Out | Self::OutString | Self::AddressOut(_) | Self::TimespecOut | Self::Stat | Self::Fds
        )
    }

    /// It names a file.
    #[must_use]
    pub fn is_path(&self) -> bool {
        matches!(self, Self::Path)
    }

    /// It is a descriptor.
    #[must_use]
    pub fn is_fd(&self) -> bool {
        matches!(self, Self::Fd | Self::DirFd)
    }
}
