//! A system call as text: `openat(AT_FDCWD, "/etc/passwd", O_RDONLY|O_CLOEXEC) = 3</etc/passwd>`.

use super::argument::ArgKind;
use super::errno;
use super::files::OpenFiles;
use super::flags;
use super::table::CallSignature;
use crate::layout::{CallRecord, Copied};
use crate::memory::{self, FileStat, PolledFd, TimeSpan};
use std::fmt::Write as _;

/// Context to show a call with, besides its record.
#[derive(Debug)]
pub struct CallContext<'a> {
    /// Names of descriptors.
    pub files: &'a mut OpenFiles,
    /// File and arguments of the program, for an exec that succeeded.
    pub program: Option<&'a ExecProgram>,
}

/// Program that an exec runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecProgram {
    /// The file, as the caller named it.
    pub file: Vec<u8>,
    /// The first bytes of its arguments, each with a 0 after it.
    pub arguments: Vec<u8>,
}

/// Appends name and arguments: `close(3</etc/passwd>)`.
pub fn write_call(
    signature: &CallSignature,
    record: &CallRecord<'_>,
    context: &mut CallContext<'_>,
    to: &mut String,
) {
    to.push_str(signature.name);
    to.push('(');
    let mut copy = 0;
    let mut more = false;
    for (at, argument) in signature.arguments.iter().enumerate() {
        let copied = argument.memory(1).is_some().then(|| {
            copy += 1;
            record.copies.get(copy - 1).copied().unwrap_or(Copied::Fault)
        });
        if is_left_out(signature, record, at) {
            continue;
        }
        if more {
            to.push_str(", ");
        }
        more = true;
        let bytes = match copied {
            Some(Copied::Bytes(bytes)) => Some(bytes),
            _ => None,
        };
        let value = record.args.get(at).copied().unwrap_or(0);
        write_argument(&ShownArgument { kind: *argument, record, value, bytes }, context, to);
    }
    to.push(')');
}

/// An argument that the call does not read: a mode where no file is made, a timeout that no operation has.
fn is_left_out(signature: &CallSignature, record: &CallRecord<'_>, at: usize) -> bool {
    const O_CREAT: u64 = 0o100;
    const O_TMPFILE: u64 = 0o20_000_000;
    match (signature.name, at) {
        ("open", 2) => record.args[1] & (O_CREAT | O_TMPFILE) == 0,
        ("openat", 3) => record.args[2] & (O_CREAT | O_TMPFILE) == 0,
        ("fcntl", 2) => matches!(record.args[1], 1 | 3 | 9 | 11 | 1032 | 1034),
        ("futex", 3..) => at >= futex_arguments(record.args[1]),
        _ => false,
    }
}

/// Number of arguments of this operation on a futex.
fn futex_arguments(operation: u64) -> usize {
    match operation & 0x7f {
        7 | 8 => 2,
        1 => 3,
        0 | 6 | 13 => 4,
        _ => 6,
    }
}

/// One argument of a call.
struct ShownArgument<'a> {
    kind: ArgKind,
    record: &'a CallRecord<'a>,
    value: u64,
    /// The memory it points to, if that was read.
    bytes: Option<&'a [u8]>,
}

fn write_argument(shown: &ShownArgument<'_>, context: &mut CallContext<'_>, to: &mut String) {
    let ShownArgument { kind, record, value, bytes } = *shown;
    match (kind, bytes) {
        (ArgKind::Path | ArgKind::Argv, _) if context.program.is_some() => write_program(kind, context, to),
        (ArgKind::Path | ArgKind::Text | ArgKind::OutString, Some(bytes)) => {
            write_string(bytes, bytes.len() >= 511, to);
        }
        (ArgKind::In(of), Some(bytes)) => {
            write_string(bytes, record.args[usize::from(of)] > bytes.len() as u64, to);
        }
        (ArgKind::Out, Some(bytes)) => write_string(bytes, record.ret > bytes.len() as i64, to),
        (_, Some(bytes)) if value != 0 && write_memory(shown, bytes, context, to).is_some() => {}
        _ => write_plain(shown, context, to),
    }
}

/// An argument by its value alone.
fn write_plain(shown: &ShownArgument<'_>, context: &mut CallContext<'_>, to: &mut String) {
    const AT_FDCWD: i32 = -100;
    let value = shown.value;
    let _ = match shown.kind {
        ArgKind::Number => write!(to, "{}", number(value)),
        ArgKind::Unsigned => write!(to, "{value}"),
        ArgKind::Hex => write!(to, "{value:#x}"),
        ArgKind::Mode => write!(to, "0{:o}", value & 0xffff),
        ArgKind::DirFd if value as u32 as i32 == AT_FDCWD => write!(to, "AT_FDCWD"),
        ArgKind::Fd | ArgKind::DirFd => {
            write_fd(shown.record.tgid, value as u32 as i32, context, to);
            Ok(())
        }
        ArgKind::Named(names) => {
            names.write(value, to);
            Ok(())
        }
        _ if value == 0 => write!(to, "NULL"),
        _ => write!(to, "{value:#x}"),
    };
}

/// Arguments of type int fill half of a register.
fn number(value: u64) -> i64 {
    let low = i64::from(value as u32 as i32);
    if value >> 32 == 0 || value == low.cast_unsigned() { low } else { value.cast_signed() }
}

fn write_fd(pid: u32, fd: i32, context: &mut CallContext<'_>, to: &mut String) {
    let _ = write!(to, "{fd}");
    if let Some(name) = context.files.name(pid, fd) {
        to.push('<');
        push_escaped(name.as_bytes(), to);
        to.push('>');
    }
}

fn write_program(kind: ArgKind, context: &CallContext<'_>, to: &mut String) {
    let Some(program) = context.program else { return };
    if kind == ArgKind::Path {
        return write_string(&program.file, false, to);
    }
    to.push('[');
    let is_cut = !program.arguments.ends_with(&[0]);
    let words = program.arguments.split(|byte| *byte == 0);
    let count = words.clone().count();
    for (at, word) in words.enumerate() {
        if at + 1 == count && word.is_empty() {
            break;
        }
        if at > 0 {
            to.push_str(", ");
        }
        write_string(word, is_cut && at + 1 == count, to);
    }
    to.push(']');
}

/// Value the argument points to; `None` if the bytes are not enough.
fn write_memory(
    shown: &ShownArgument<'_>,
    bytes: &[u8],
    context: &mut CallContext<'_>,
    to: &mut String,
) -> Option<()> {
    let record = shown.record;
    match shown.kind {
        ArgKind::Address(_) | ArgKind::AddressOut(_) => {
            push_escaped(memory::parse_socket_address(bytes)?.as_bytes(), to);
        }
        ArgKind::Timespec | ArgKind::TimespecOut => write_seconds(memory::parse_time_span(bytes)?, 9, to),
        ArgKind::Timeval => write_seconds(memory::parse_time_span(bytes)?, 6, to),
        ArgKind::Stat => {
            let FileStat { mode, size } = memory::parse_file_stat(bytes)?;
            let _ = write!(to, "{{{}0{:o}, size {size}}}", file_type(mode), mode & 0o7777);
        }
        ArgKind::Fds => {
            let fds = memory::parse_fds(bytes);
            let _ = write!(to, "{fds:?}");
        }
        ArgKind::SigSet => write_signals(memory::parse_signal_set(bytes)?, to),
        ArgKind::EpollEvent => {
            let events = memory::parse_epoll_events(bytes)?;
            to.push('{');
            flags::write_poll_events(u64::from(events), to);
            to.push('}');
        }
        ArgKind::PollFds(count) => {
            let fds = memory::parse_polled_fds(bytes);
            write_poll_fds(record, &fds, context, to);
            close_list(fds.len(), record.args[usize::from(count)], to);
        }
        ArgKind::Iov(count) => {
            let sizes = memory::parse_vector_sizes(bytes);
            let shown: Vec<String> = sizes.iter().map(|size| format!("{size}B")).collect();
            let _ = write!(to, "[{}", shown.join(", "));
            close_list(sizes.len(), record.args[usize::from(count)], to);
        }
        ArgKind::Message => {
            let head = memory::parse_message_head(bytes)?;
            let _ = write!(to, "{{{} iov, {} control bytes}}", head.vectors, head.control_bytes);
        }
        _ => return None,
    }
    Some(())
}

/// `1.5s`, `0s`.
fn write_seconds(span: TimeSpan, digits: usize, to: &mut String) {
    let fraction = format!("{:0digits$}", span.part);
    let fraction = fraction.trim_end_matches('0');
    let dot = if fraction.is_empty() { "" } else { "." };
    let _ = write!(to, "{}{dot}{fraction}s", span.seconds);
}

fn file_type(mode: u32) -> &'static str {
    match mode & 0o170_000 {
        0o100_000 => "file ",
        0o040_000 => "folder ",
        0o120_000 => "link ",
        0o020_000 => "char device ",
        0o060_000 => "block device ",
        0o010_000 => "fifo ",
        0o140_000 => "socket ",
        _ => "",
    }
}

fn write_signals(set: u64, to: &mut String) {
    // All but a few: those that are missing are named.
    let (mark, shown) = if set.count_ones() > 32 { ("~", !set) } else { ("", set) };
    to.push_str(mark);
    to.push('[');
    for (at, signal) in (1..=64u64).filter(|signal| shown >> (signal - 1) & 1 != 0).enumerate() {
        if at > 0 {
            to.push(' ');
        }
        flags::write_signal(signal, to);
    }
    to.push(']');
}

fn write_poll_fds(record: &CallRecord<'_>, fds: &[PolledFd], context: &mut CallContext<'_>, to: &mut String) {
    to.push('[');
    for (at, item) in fds.iter().enumerate() {
        if at > 0 {
            to.push_str(", ");
        }
        write_fd(record.tgid, item.fd, context, to);
        to.push_str(": ");
        flags::write_poll_events(u64::from(item.events), to);
        if record.ret > 0 && item.returned != 0 {
            to.push_str(" -> ");
            flags::write_poll_events(u64::from(item.returned), to);
        }
    }
}

fn close_list(shown: usize, count: u64, to: &mut String) {
    if count > shown as u64 {
        to.push_str(", ...");
    }
    to.push(']');
}

/// Appends a string in quotes; three dots after it if it is cut.
fn write_string(bytes: &[u8], is_cut: bool, to: &mut String) {
    to.push('"');
    push_escaped(bytes, to);
    to.push('"');
    if is_cut {
        to.push_str("...");
    }
}

/// Appends bytes, those that are no printable ASCII as in C.
fn push_escaped(bytes: &[u8], to: &mut String) {
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'"' => to.push_str("\\\""),
            b'\\' => to.push_str("\\\\"),
            b'\n' => to.push_str("\\n"),
            b'\t' => to.push_str("\\t"),
            b'\r' => to.push_str("\\r"),
            b' '..=b'~' => to.push(char::from(byte)),
            _ => {
                let is_digit_next = bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
                let _ = if is_digit_next { write!(to, "\\{byte:03o}") } else { write!(to, "\\{byte:o}") };
            }
        }
    }
}

/// Appends what the call returned: `3</etc/passwd>`, `-1 ENOENT (No such file or directory)`.
pub fn write_return(
    signature: &CallSignature,
    record: &CallRecord<'_>,
    context: &mut CallContext<'_>,
    to: &mut String,
) {
    if record.is_open {
        to.push('?');
        return;
    }
    if let Some(errno) = errno::of(record.ret) {
        let name = errno::name(errno).map_or_else(|| errno.to_string(), str::to_owned);
        let _ = write!(to, "-1 {name} ({})", errno::meaning(errno));
        return;
    }
    let value = record.ret.cast_unsigned();
    match signature.returns {
        ArgKind::Number => drop(write!(to, "{}", record.ret)),
        kind => write_plain(&ShownArgument { kind, record, value, bytes: None }, context, to),
    }
}

#[cfg(test)]
mod tests;
