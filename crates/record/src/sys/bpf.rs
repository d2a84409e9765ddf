//! The bpf(2) calls that `aya` has no words for: programs for one link over many probes, and such links.

mod kernel_addresses;
mod links;
mod maps;

pub use kernel_addresses::KernelAddresses;
use links::{BPF_TRACE_ITER, BPF_TRACE_KPROBE_MULTI, BPF_TRACE_UPROBE_MULTI, BPF_TRACE_UPROBE_SESSION};
pub use links::{
    ProbeSide, Probes, has_uprobe_links, has_uprobe_sessions, link_event, link_function,
    link_kernel_functions, link_tracepoint, link_uprobe_sessions, link_uprobes, open_iterator,
};
pub use maps::{freeze_map, read_array, update_map};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::seccomp::GuardedCall;

// Source: include/uapi/linux/bpf.h (enum bpf_cmd, bpf_prog_type, bpf_attach_type).
const BPF_PROG_LOAD: i32 = 5;
const BPF_BTF_LOAD: i32 = 18;
const BPF_PROG_TYPE_KPROBE: u32 = 2;
const BPF_PROG_TYPE_PERF_EVENT: u32 = 7;
const BPF_PROG_TYPE_TRACING: u32 = 26;
const BPF_PROG_TYPE_SYSCALL: u32 = 31;
const BPF_TRACE_RAW_TP: u32 = 23;
const BPF_TRACE_FENTRY: u32 = 24;
const BPF_TRACE_FEXIT: u32 = 25;
const BPF_F_SLEEPABLE: u32 = 1 << 4;

/// Bytes of one instruction.
pub const INSTRUCTION_BYTES: usize = 8;

/// Target that a program is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    /// Many uprobes at once ([`link_uprobes`], Linux 6.6).
    Uprobes,
    /// Many at once, each of which sees the function's entry and its return ([`link_uprobe_sessions`], Linux 6.13).
    Sessions,
    /// One uprobe event ([`link_event`], Linux 5.15).
    Event,
    /// Many kernel functions at once ([`link_kernel_functions`], Linux 5.18).
    KernelFunctions,
    /// One kernel function's entry, by its number in the kernel's type information ([`link_function`]).
    Entry(u32),
    /// One kernel function's return.
    Return(u32),
    /// One tracepoint ([`link_tracepoint`]), by the number of its `btf_trace_NAME` in the kernel's type information.
    Tracepoint(u32),
    /// All of a kind of kernel objects, one after the other ([`open_iterator`]).
    Iterator {
        /// Type number of its function in the kernel's type information.
        number: u32,
        /// It may wait for pages (Linux 5.18).
        sleeps: bool,
    },
    /// Samples of a perf event ([`Counter::set_bpf`](crate::sys::Counter::set_bpf)).
    Sample,
    /// Nothing: it runs when it is called (Linux 5.14).
    Call,
}

impl Attach {
    /// `prog_type`, `expected_attach_type`, `attach_btf_id`.
    const fn words(self) -> (u32, u32, u32) {
        match self {
            Self::Uprobes => (BPF_PROG_TYPE_KPROBE, BPF_TRACE_UPROBE_MULTI, 0),
            Self::Sessions => (BPF_PROG_TYPE_KPROBE, BPF_TRACE_UPROBE_SESSION, 0),
            Self::Event => (BPF_PROG_TYPE_KPROBE, 0, 0),
            Self::KernelFunctions => (BPF_PROG_TYPE_KPROBE, BPF_TRACE_KPROBE_MULTI, 0),
            Self::Entry(id) => (BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, id),
            Self::Return(id) => (BPF_PROG_TYPE_TRACING, BPF_TRACE_FEXIT, id),
            Self::Tracepoint(id) => (BPF_PROG_TYPE_TRACING, BPF_TRACE_RAW_TP, id),
            Self::Iterator { number, .. } => (BPF_PROG_TYPE_TRACING, BPF_TRACE_ITER, number),
            Self::Sample => (BPF_PROG_TYPE_PERF_EVENT, 0, 0),
            Self::Call => (BPF_PROG_TYPE_SYSCALL, 0, 0),
        }
    }

    /// `prog_flags`.
    const fn flags(self) -> u32 {
        match self {
            Self::Iterator { sleeps: true, .. } | Self::Call => BPF_F_SLEEPABLE,
            _ => 0,
        }
    }
}

/// Layout: `union bpf_attr`, the struct of BPF_PROG_LOAD up to `attach_btf_id`.
/// Source: include/uapi/linux/bpf.h.
#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
    prog_btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_cnt: u32,
    line_info_rec_size: u32,
    line_info: u64,
    line_info_cnt: u32,
    attach_btf_id: u32,
}

fn bpf<T>(command: i32, attr: &T) -> io::Result<OwnedFd> {
    GuardedCall::Bpf.check()?;
    // SAFETY: `attr` is a live, initialized repr(C) value of the size we give; the kernel reads no more than that, and
    // the pointers in it stay valid for the call because the callers hold what they point to.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attr), size_of::<T>()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: these commands return a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// True if calls of `bpf` get to the kernel: it refuses arguments of more than a page for their size, a seccomp filter
/// does not look at it. Kernels before 5.19 ask for rights first; there it is false without them.
//
// Source: linux v6.18 kernel/bpf/syscall.c, __sys_bpf(), bpf_check_uarg_tail_zero(): E2BIG
#[must_use]
pub fn reaches_kernel() -> bool {
    const TOO_MANY_BYTES: u32 = 1 << 24;
    if GuardedCall::Bpf.is_deadly() {
        return false;
    }
    // SAFETY: arguments of this size are refused before the null pointer is looked at, which would not be followed.
    let answer =
        unsafe { libc::syscall(libc::SYS_bpf, libc::c_int::MAX, std::ptr::null::<u8>(), TOO_MANY_BYTES) };
    answer < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::E2BIG)
}

/// Layout: `union bpf_attr`, the struct of BPF_BTF_LOAD. Source: include/uapi/linux/bpf.h.
#[repr(C)]
struct BtfLoad {
    btf: u64,
    btf_log_buf: u64,
    btf_size: u32,
    btf_log_size: u32,
    btf_log_level: u32,
    btf_flags: u32,
}

/// Loads type information of programs (BTF, as an object file has it).
///
/// # Errors
/// The kernel's errno.
pub fn load_types(btf: &[u8]) -> io::Result<OwnedFd> {
    let (btf_log_buf, btf_log_size, btf_log_level, btf_flags) = (0, 0, 0, 0);
    let (btf, btf_size) = (btf.as_ptr() as u64, btf.len() as u32);
    bpf(BPF_BTF_LOAD, &BtfLoad { btf, btf_log_buf, btf_size, btf_log_size, btf_log_level, btf_flags })
}

/// A program to be loaded.
#[derive(Clone, Copy, Debug)]
pub struct BpfCode<'a> {
    /// Name, of which the kernel keeps 15 bytes.
    pub name: &'a str,
    /// [`INSTRUCTION_BYTES`] each.
    pub instructions: &'a [u8],
    /// Type information ([`load_types`]), and the `struct bpf_func_info` of each of its functions: needed where it has
    /// functions that the verifier looks at by themselves.
    pub types: Option<(BorrowedFd<'a>, &'a [u8])>,
}

/// Bytes of a `struct bpf_func_info`: instruction and type, u32 each.
const FUNC_INFO_BYTES: usize = 8;

/// Loads a program.
///
/// # Errors
/// The kernel's errno, with the end of the verifier's log in the message.
pub fn load_program(code: &BpfCode<'_>, attach: Attach) -> io::Result<OwnedFd> {
    let first = load_with_log(code, attach, &mut []);
    let Err(error) = first else { return first };
    let mut log = vec![0; 1 << 20];
    let again = load_with_log(code, attach, &mut log);
    let text = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = text.trim_end_matches('\0').lines().collect();
    let tail = lines[lines.len().saturating_sub(6)..].join(" | ");
    // Processes without the right to load programs get no log.
    let said = if tail.is_empty() { error.to_string() } else { format!("{error}: {tail}") };
    again.map_err(|_| io::Error::new(error.kind(), said))
}

fn load_with_log(code: &BpfCode<'_>, attach: Attach, log: &mut [u8]) -> io::Result<OwnedFd> {
    let license = c"GPL";
    let mut prog_name = [0; 16];
    code.name.bytes().take(15).zip(&mut prog_name).for_each(|(byte, place)| *place = byte);
    let (prog_type, expected_attach_type, attach_btf_id) = attach.words();
    let (types, functions) = code.types.map_or((0, &[][..]), |(fd, infos)| (fd.as_raw_fd() as u32, infos));
    bpf(
        BPF_PROG_LOAD,
        &ProgLoad {
            prog_type,
            insn_cnt: (code.instructions.len() / INSTRUCTION_BYTES) as u32,
            insns: code.instructions.as_ptr() as u64,
            license: license.as_ptr() as u64,
            log_level: u32::from(!log.is_empty()),
            log_size: log.len() as u32,
            log_buf: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
            kern_version: 0,
            prog_flags: attach.flags(),
            prog_name,
            prog_ifindex: 0,
            expected_attach_type,
            prog_btf_fd: types,
            func_info_rec_size: FUNC_INFO_BYTES as u32,
            func_info: if functions.is_empty() { 0 } else { functions.as_ptr() as u64 },
            func_info_cnt: (functions.len() / FUNC_INFO_BYTES) as u32,
            line_info_rec_size: 0,
            line_info: 0,
            line_info_cnt: 0,
            attach_btf_id,
        },
    )
}
