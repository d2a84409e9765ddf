//! The Rust twin of `bpf/syscalls_shared.h`.
//!
//! A test reads the header itself and fails when a constant or a struct here differs.
//
// Source: crates/record/bpf/syscalls_shared.h (struct call_record, call_spec, call_sum).

use super::memory::{u16_at, u32_at, u64_at};

/// Numbers of system calls that have a spec of their own; the last is that of all others.
pub const SPECS: usize = 512;
/// Most arguments of a call.
const ARGS: usize = 6;
/// Most copies of memory of a call.
const COPIES: usize = 3;
/// Most bytes of one copy.
const COPY_BYTES: u16 = 512;
/// Bytes of a record before its arguments.
const HEAD_BYTES: usize = 48;
const COPY_FAULT: u16 = 0xffff;
const COPY_NONE: u16 = 0xfffe;
const SUM_COMPAT: u32 = 0x10000;

/// The event that a record reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// A system call that returned, or never will.
    Call,
    /// A thread is followed from here on. `args[0]`: its id in the initial pid namespace; copy 0: its name.
    New,
    /// A process was made. `args[0]`: the child's id in the initial pid namespace.
    Fork,
    /// A process runs another program. Copies: thread's name, file, arguments (each with a 0 after it).
    Exec,
    /// A thread has ended.
    Exit,
}

/// Memory of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied<'a> {
    /// The bytes; of a string without its 0.
    Bytes(&'a [u8]),
    /// It could not be read.
    Fault,
    /// The call failed, and wrote nothing there.
    Nothing,
}

/// One record of the ring. Times are CLOCK_MONOTONIC ns; ids are those of our pid namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallRecord<'a> {
    /// The event.
    pub kind: RecordKind,
    /// When the call began; 0 if that was not seen.
    pub start_ns: u64,
    /// When it returned, or the event happened.
    pub end_ns: u64,
    /// Return value: -4095 to -1 is an error.
    pub ret: i64,
    /// The thread.
    pub tid: u32,
    /// Process.
    pub tgid: u32,
    /// Number of the system call.
    pub nr: u16,
    /// The call had not returned when its thread ended, or never returns.
    pub is_open: bool,
    /// By the 32-bit entry: number and arguments are those of that ABI.
    pub is_compat: bool,
    /// Arguments; those that the spec does not count are 0.
    pub args: [u64; ARGS],
    /// Copies of memory, in the spec's order.
    pub copies: [Copied<'a>; COPIES],
}

impl<'a> CallRecord<'a> {
    /// Copy `at` if it was read.
    #[must_use]
    pub fn bytes(&self, at: usize) -> Option<&'a [u8]> {
        match self.copies.get(at)? {
            Copied::Bytes(bytes) => Some(bytes),
            Copied::Fault | Copied::Nothing => None,
        }
    }
}

/// Reads one record of the ring; `None` if it is cut or of an unknown kind.
//
// Layout: struct call_record: start_ns u64, end_ns u64, ret s64, tid u32, tgid u32, nr u16, kind u8, nargs u8, flags
// u16, lens u16[3], spare u32, args u64[6], data. Without data it ends after `nargs` arguments.
#[must_use]
pub fn parse_record(bytes: &[u8]) -> Option<CallRecord<'_>> {
    const OPEN: u16 = 1;
    const COMPAT: u16 = 2;
    let kind = match bytes.get(34)? {
        1 => RecordKind::Call,
        2 => RecordKind::New,
        3 => RecordKind::Fork,
        4 => RecordKind::Exec,
        5 => RecordKind::Exit,
        _ => return None,
    };
    let flags = u16_at(bytes, 36)?;
    let mut args = [0; ARGS];
    for (at, arg) in args.iter_mut().enumerate().take(usize::from(*bytes.get(35)?)) {
        *arg = u64_at(bytes, HEAD_BYTES + 8 * at).unwrap_or(0);
    }
    let mut at = HEAD_BYTES + 8 * ARGS;
    let mut copies = [Copied::Nothing; COPIES];
    for (index, copy) in copies.iter_mut().enumerate() {
        *copy = match u16_at(bytes, 38 + 2 * index)? {
            COPY_FAULT => Copied::Fault,
            COPY_NONE => Copied::Nothing,
            0 => Copied::Bytes(&[]),
            len => Copied::Bytes(bytes.get(at..at + usize::from(len))?),
        };
        if let Copied::Bytes(bytes) = copy {
            at += bytes.len();
        }
    }
    Some(CallRecord {
        kind,
        start_ns: u64_at(bytes, 0)?,
        end_ns: u64_at(bytes, 8)?,
        ret: u64_at(bytes, 16)?.cast_signed(),
        tid: u32_at(bytes, 24)?,
        tgid: u32_at(bytes, 28)?,
        nr: u16_at(bytes, 32)?,
        is_open: flags & OPEN != 0,
        is_compat: flags & COMPAT != 0,
        args,
        copies,
    })
}

/// How much of the memory at an argument is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyLength {
    /// Nothing.
    #[default]
    None,
    /// Up to a 0.
    String,
    /// [`CallCopy::most`] bytes.
    Fixed,
    /// As many units as this argument.
    Argument(u8),
    /// As many units as the call returned.
    Returned,
    /// As many bytes as the u32 that this argument points to.
    Pointed(u8),
}

/// Memory to be read when the call returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCopy {
    /// The argument that points to it.
    pub arg: u8,
    /// How much.
    pub length: CopyLength,
    /// Bytes of a unit.
    pub unit: u8,
    /// Most bytes, up to 512.
    pub most: u16,
    /// The call writes it: it is read only if the call did not fail.
    pub is_output: bool,
}

impl CallCopy {
    fn to_bytes(self) -> [u8; 6] {
        const ONLY_OK: u8 = 16;
        let (how, len) = match self.length {
            CopyLength::None => (0, 0),
            CopyLength::String => (1, 0),
            CopyLength::Fixed => (2, 0),
            CopyLength::Argument(len) => (3, len),
            CopyLength::Returned => (4, 0),
            CopyLength::Pointed(len) => (5, len),
        };
        let [low, high] = self.most.min(COPY_BYTES).to_le_bytes();
        [self.arg, how | if self.is_output { ONLY_OK } else { 0 }, len, self.unit, low, high]
    }
}

/// Kernel side's actions at one system call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a bit of the kernel side's flags")]
pub struct CallSpec {
    /// It is handed out, or counted in the sums.
    pub is_wanted: bool,
    /// It is handed out however short it is.
    pub is_tracked: bool,
    /// It never returns: it is handed out at its entry.
    pub no_return: bool,
    /// It returns in a child as well.
    pub is_fork: bool,
    /// Number of arguments.
    pub nargs: u8,
    /// Memory to read; the first that is [`CopyLength::None`] ends the list.
    pub copies: [CallCopy; COPIES],
}

/// Bytes of a [`CallSpec`] in the kernel's map.
pub const SPEC_BYTES: usize = 2 + 6 * COPIES;

impl CallSpec {
    /// As the kernel side reads it.
    //
    // Layout: struct call_spec: flags u8, nargs u8, copies[3] of arg u8, how u8, len u8, unit u8, most u16.
    #[must_use]
    pub fn to_bytes(self) -> [u8; SPEC_BYTES] {
        let flags = [(self.is_wanted, 1), (self.is_tracked, 2), (self.no_return, 4), (self.is_fork, 16)];
        let mut bytes = [0; SPEC_BYTES];
        bytes[0] = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum();
        bytes[1] = self.nargs.min(ARGS as u8);
        for (copy, place) in self.copies.iter().zip(bytes[2..].chunks_exact_mut(6)) {
            place.copy_from_slice(&copy.to_bytes());
        }
        bytes
    }
}

/// A system call of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SumKey {
    /// The thread.
    pub tid: u32,
    /// Process.
    pub tgid: u32,
    /// Number of the system call.
    pub nr: u16,
    /// By the 32-bit entry.
    pub is_compat: bool,
}

/// Sums of calls that returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallSum {
    /// Calls.
    pub count: u64,
    /// Failed calls among those.
    pub errors: u64,
    /// Time, ns.
    pub total_ns: u64,
    /// The shortest, ns.
    pub min_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
}

/// Words of a sum in the kernel's map.
pub const SUM_WORDS: usize = 6;

/// A sum of the kernel's map, of all CPUs.
//
// Layout: struct sum_key: tid u32, nr u32; struct call_sum: count, errors, total_ns, min_ns, max_ns u64, tgid u32, spare.
#[must_use]
pub fn sum_of(key: [u32; 2], words: [u64; SUM_WORDS]) -> (SumKey, CallSum) {
    let [count, errors, total_ns, min_ns, max_ns, tgid] = words;
    let key = SumKey {
        tid: key[0],
        tgid: (tgid & 0xffff_ffff) as u32,
        nr: (key[1] & 0xffff) as u16,
        is_compat: key[1] & SUM_COMPAT != 0,
    };
    (key, CallSum { count, errors, total_ns, min_ns, max_ns })
}

#[cfg(test)]
mod tests;
