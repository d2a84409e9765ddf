//! The bpf(2) calls that `aya` has no words for: programs for one link over many uprobes, and that link.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

// Source: include/uapi/linux/bpf.h (enum bpf_cmd, bpf_prog_type, bpf_attach_type).
const BPF_PROG_LOAD: i32 = 5;
const BPF_LINK_CREATE: i32 = 28;
const BPF_PROG_TYPE_KPROBE: u32 = 2;
const BPF_TRACE_UPROBE_MULTI: u32 = 48;
const BPF_F_UPROBE_MULTI_RETURN: u32 = 1;

/// Bytes of one instruction.
pub const INSTRUCTION_BYTES: usize = 8;

/// Layout: `union bpf_attr`, the struct of BPF_PROG_LOAD up to `expected_attach_type`.
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
}

/// Layout: `union bpf_attr`, the struct of BPF_LINK_CREATE with `uprobe_multi`.
/// Source: include/uapi/linux/bpf.h.
#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
    path: u64,
    offsets: u64,
    ref_ctr_offsets: u64,
    cookies: u64,
    cnt: u32,
    multi_flags: u32,
    pid: u32,
    pad: u32,
}

fn bpf<T>(command: i32, attr: &T) -> io::Result<OwnedFd> {
    // SAFETY: `attr` is a live, initialized repr(C) value of the size we give; the kernel reads no more than that, and
    // the pointers in it stay valid for the call because the callers hold what they point to.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attr), size_of::<T>()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both commands return a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Loads a program to be attached by [`link_uprobes`]. `instructions`: [`INSTRUCTION_BYTES`] each.
///
/// # Errors
/// The kernel's errno, with the end of the verifier's log in the message.
pub fn load_uprobe_program(name: &str, instructions: &[u8]) -> io::Result<OwnedFd> {
    let first = load_with_log(name, instructions, &mut []);
    let Err(error) = first else { return first };
    let mut log = vec![0; 1 << 20];
    let again = load_with_log(name, instructions, &mut log);
    let text = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = text.trim_end_matches('\0').lines().collect();
    let tail = lines[lines.len().saturating_sub(6)..].join(" | ");
    again.map_err(|_| io::Error::new(error.kind(), format!("{error}: {tail}")))
}

fn load_with_log(name: &str, instructions: &[u8], log: &mut [u8]) -> io::Result<OwnedFd> {
    let license = c"GPL";
    let mut prog_name = [0; 16];
    name.bytes().take(15).zip(&mut prog_name).for_each(|(byte, place)| *place = byte);
    bpf(
        BPF_PROG_LOAD,
        &ProgLoad {
            prog_type: BPF_PROG_TYPE_KPROBE,
            insn_cnt: (instructions.len() / INSTRUCTION_BYTES) as u32,
            insns: instructions.as_ptr() as u64,
            license: license.as_ptr() as u64,
            log_level: u32::from(!log.is_empty()),
            log_size: log.len() as u32,
            log_buf: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
            kern_version: 0,
            prog_flags: 0,
            prog_name,
            prog_ifindex: 0,
            expected_attach_type: BPF_TRACE_UPROBE_MULTI,
        },
    )
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
    pub on_return: bool,
    /// Only in this process; in every one that maps the file if 0.
    pub pid: u32,
}

/// Attaches a program to many places of one file; closing the descriptor detaches it.
///
/// # Errors
/// The kernel's errno (`EINVAL` before Linux 6.6).
pub fn link_uprobes(program: BorrowedFd<'_>, probes: &Probes<'_>) -> io::Result<OwnedFd> {
    let path = CString::new(OsStr::new(probes.path).as_bytes())?;
    if probes.offsets.len() != probes.cookies.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    bpf(
        BPF_LINK_CREATE,
        &LinkCreate {
            prog_fd: program.as_raw_fd() as u32,
            target_fd: 0,
            attach_type: BPF_TRACE_UPROBE_MULTI,
            flags: 0,
            path: path.as_ptr() as u64,
            offsets: probes.offsets.as_ptr() as u64,
            ref_ctr_offsets: 0,
            cookies: probes.cookies.as_ptr() as u64,
            cnt: probes.offsets.len() as u32,
            multi_flags: if probes.on_return { BPF_F_UPROBE_MULTI_RETURN } else { 0 },
            pid: probes.pid,
            pad: 0,
        },
    )
}
