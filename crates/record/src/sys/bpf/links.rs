//! Links: a loaded program attached to events, functions, or many places at once.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::super::Counter;
use super::{Attach, bpf};

const BPF_LINK_CREATE: i32 = 28;

const BPF_RAW_TRACEPOINT_OPEN: i32 = 17;

const BPF_ITER_CREATE: i32 = 33;

pub(super) const BPF_TRACE_ITER: u32 = 28;

const BPF_PERF_EVENT: u32 = 41;

pub(super) const BPF_TRACE_KPROBE_MULTI: u32 = 42;

pub(super) const BPF_TRACE_UPROBE_MULTI: u32 = 48;

pub(super) const BPF_TRACE_UPROBE_SESSION: u32 = 57;

const BPF_F_MULTI_RETURN: u32 = 1;

/// Layout: `union bpf_attr`, the struct of BPF_LINK_CREATE; `what` is its union.
/// Source: include/uapi/linux/bpf.h.
#[repr(C)]
struct LinkCreate<T> {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
    what: T,
}

/// Layout: `uprobe_multi` of BPF_LINK_CREATE.
#[repr(C)]
struct UprobeMulti {
    path: u64,
    offsets: u64,
    ref_ctr_offsets: u64,
    cookies: u64,
    cnt: u32,
    flags: u32,
    pid: u32,
    pad: u32,
}

/// Layout: `kprobe_multi` of BPF_LINK_CREATE.
#[repr(C)]
struct KprobeMulti {
    flags: u32,
    cnt: u32,
    syms: u64,
    addrs: u64,
    cookies: u64,
}

/// Layout: `perf_event` of BPF_LINK_CREATE.
#[repr(C)]
struct PerfEvent {
    cookie: u64,
}

/// Layout: `tracing` of BPF_LINK_CREATE.
#[repr(C)]
struct Tracing {
    target_btf_id: u32,
    pad: u32,
    cookie: u64,
}

pub(super) fn link<T>(
    program: BorrowedFd<'_>,
    target_fd: u32,
    attach_type: u32,
    what: T,
) -> io::Result<OwnedFd> {
    let prog_fd = program.as_raw_fd() as u32;
    bpf(BPF_LINK_CREATE, &LinkCreate { prog_fd, target_fd, attach_type, flags: 0, what })
}

/// Layout: `raw_tracepoint` of `union bpf_attr`.
#[repr(C)]
struct RawTracepoint {
    name: u64,
    prog_fd: u32,
    pad: u32,
}

/// Attaches a program loaded for [`Attach::Tracepoint`]; closing the descriptor detaches it.
///
/// # Errors
/// The kernel's errno.
pub fn link_tracepoint(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let prog_fd = program.as_raw_fd() as u32;
    bpf(BPF_RAW_TRACEPOINT_OPEN, &RawTracepoint { name: 0, prog_fd, pad: 0 })
}

/// Layout: `iter_create` of `union bpf_attr`.
#[repr(C)]
struct IterCreate {
    link_fd: u32,
    flags: u32,
}

/// Reading the file runs a program loaded for [`Attach::Iterator`].
///
/// # Errors
/// The kernel's errno.
pub fn open_iterator(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // Layout: `iter_info` and its length of BPF_LINK_CREATE: none.
    let link = link(program, 0, BPF_TRACE_ITER, [0u64; 2])?;
    bpf(BPF_ITER_CREATE, &IterCreate { link_fd: link.as_raw_fd() as u32, flags: 0 })
}

/// Where one link puts its probes.
#[derive(Debug)]
pub struct Probes<'a> {
    /// The file, as tally sees it.
    pub path: &'a Path,
    /// File offsets of instructions, ascending or not.
    pub offsets: &'a [u64],
    /// A number for each, which the program reads.
    pub cookies: &'a [u64],
    /// Run the program when the function returns instead.
    pub side: ProbeSide,
    /// Only in this process; in every one that maps the file if 0.
    pub pid: u32,
}

/// Attaches a program to many places of one file; closing the descriptor detaches it.
///
/// # Errors
/// The kernel's errno (`EINVAL` before Linux 6.6).
pub fn link_uprobes(program: BorrowedFd<'_>, probes: &Probes<'_>) -> io::Result<OwnedFd> {
    link_places(program, BPF_TRACE_UPROBE_MULTI, probes)
}

/// The same for a program loaded for [`Attach::Sessions`]; `probes.side` has no meaning.
///
/// # Errors
/// The kernel's errno (`EINVAL` before Linux 6.13).
pub fn link_uprobe_sessions(program: BorrowedFd<'_>, probes: &Probes<'_>) -> io::Result<OwnedFd> {
    link_places(program, BPF_TRACE_UPROBE_SESSION, probes)
}

fn link_places(program: BorrowedFd<'_>, attach_type: u32, probes: &Probes<'_>) -> io::Result<OwnedFd> {
    let path = CString::new(OsStr::new(probes.path).as_bytes())?;
    if probes.offsets.len() != probes.cookies.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let what = UprobeMulti {
        path: path.as_ptr() as u64,
        offsets: probes.offsets.as_ptr() as u64,
        ref_ctr_offsets: 0,
        cookies: probes.cookies.as_ptr() as u64,
        cnt: probes.offsets.len() as u32,
        flags: if probes.side == ProbeSide::Return { BPF_F_MULTI_RETURN } else { 0 },
        pid: probes.pid,
        pad: 0,
    };
    link(program, 0, attach_type, what)
}

/// Whether the kernel links many uprobes at once.
#[must_use]
pub fn has_uprobe_links(program: BorrowedFd<'_>) -> bool {
    has_links(program, BPF_TRACE_UPROBE_MULTI)
}

/// Whether the kernel links many uprobe sessions at once.
#[must_use]
pub fn has_uprobe_sessions(program: BorrowedFd<'_>) -> bool {
    has_links(program, BPF_TRACE_UPROBE_SESSION)
}

/// A kernel that has such links answers `EBADF` to a request for one in a folder.
fn has_links(program: BorrowedFd<'_>, attach_type: u32) -> bool {
    let probes =
        Probes { path: Path::new("/"), offsets: &[0], cookies: &[0], side: ProbeSide::Entry, pid: 0 };
    let refused = link_places(program, attach_type, &probes).err();
    refused.and_then(|error| error.raw_os_error()) == Some(libc::EBADF)
}

/// Attaches a program to one event; closing the descriptor detaches it and ends the event.
///
/// # Errors
/// The kernel's errno (`EINVAL` before Linux 5.15).
pub fn link_event(program: BorrowedFd<'_>, event: &Counter, cookie: u64) -> io::Result<OwnedFd> {
    link(program, event.as_fd().as_raw_fd() as u32, BPF_PERF_EVENT, PerfEvent { cookie })
}

/// Which end of a function a probe reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeSide {
    /// First instruction; or any other instruction, where one is probed.
    Entry,
    /// The return to its caller.
    Return,
}

/// Attaches a program to these kernel functions, or to their returns; each one's place is its cookie.
///
/// # Errors
/// The kernel's errno (`EOPNOTSUPP` without fprobe, `ESRCH` if one can't be traced).
pub fn link_kernel_functions(
    program: BorrowedFd<'_>,
    addresses: &[u64],
    side: ProbeSide,
) -> io::Result<OwnedFd> {
    let cookies: Vec<u64> = (0..addresses.len() as u64).collect();
    let what = KprobeMulti {
        flags: if side == ProbeSide::Return { BPF_F_MULTI_RETURN } else { 0 },
        cnt: addresses.len() as u32,
        syms: 0,
        addrs: addresses.as_ptr() as u64,
        cookies: cookies.as_ptr() as u64,
    };
    link(program, 0, BPF_TRACE_KPROBE_MULTI, what)
}

/// Attaches a program loaded for [`Attach::Entry`] or [`Attach::Return`] there.
///
/// # Errors
/// The kernel's errno.
pub fn link_function(program: BorrowedFd<'_>, attach: Attach, cookie: u64) -> io::Result<OwnedFd> {
    let (_, attach_type, _) = attach.words();
    link(program, 0, attach_type, Tracing { target_btf_id: 0, pad: 0, cookie })
}
