//! Numbers of the kernel's interface of perf events, for every processor: flags, ioctls, places in a ring's control page,
//! numbers of registers.
//
// Source: linux v6.18 include/uapi/linux/perf_event.h, include/uapi/asm-generic/ioctl.h

use std::ffi::c_ulong;

/// Bytes of the first published `perf_event_attr`.
pub const ATTR_BYTES_AT_LEAST: usize = 64;
/// `PERF_FLAG_PID_CGROUP`.
pub const FLAG_CGROUP: c_ulong = 1 << 2;
/// `PERF_FLAG_FD_CLOEXEC`.
pub const FLAG_CLOSE_ON_EXEC: c_ulong = 1 << 3;

/// Numbers of the ioctls of an event's descriptor.
pub mod ioctl {
    /// Bits of a number: direction from 30, size of the argument from 16, kind from 8, number.
    const fn number(direction: u32, bytes: usize, number: u32) -> u32 {
        const KIND: u32 = b'$' as u32;
        direction << 30 | (bytes as u32) << 16 | KIND << 8 | number
    }
    const NO_ARGUMENT: u32 = 0;
    const TO_KERNEL: u32 = 1;
    const FROM_KERNEL: u32 = 2;

    /// Counts from now on.
    pub const ENABLE: u32 = number(NO_ARGUMENT, 0, 0);
    /// Counts no longer.
    pub const DISABLE: u32 = number(NO_ARGUMENT, 0, 1);
    /// Sets the count to zero.
    pub const RESET: u32 = number(NO_ARGUMENT, 0, 3);
    /// Takes a pointer to the new period.
    pub const PERIOD: u32 = number(TO_KERNEL, size_of::<u64>(), 4);
    /// Takes the descriptor with the ring to write into.
    pub const SET_OUTPUT: u32 = number(NO_ARGUMENT, 0, 5);
    /// Takes a string.
    pub const SET_FILTER: u32 = number(TO_KERNEL, size_of::<usize>(), 6);
    /// Fills in the event's number; its size is the pointer's.
    pub const ID: u32 = number(FROM_KERNEL, size_of::<usize>(), 7);
    /// Takes a BPF program's descriptor.
    pub const SET_BPF: u32 = number(TO_KERNEL, size_of::<u32>(), 8);
    /// Takes 1 to pause, 0 to go on.
    pub const PAUSE_OUTPUT: u32 = number(TO_KERNEL, size_of::<u32>(), 9);
}

/// Places of the fields of `struct perf_event_mmap_page`, in bytes.
pub mod control_page {
    /// u32: odd while the kernel changes the fields about time.
    pub const LOCK: usize = 8;
    /// u64 of bits: what user space may read.
    pub const CAPABILITIES: usize = 40;
    /// u16.
    pub const TIME_SHIFT: usize = 50;
    /// u32.
    pub const TIME_MULT: usize = 52;
    /// u64.
    pub const TIME_ZERO: usize = 64;
    /// u64, as all that follow: up to here the kernel has written.
    pub const DATA_HEAD: usize = 1024;
    /// Up to where we have read.
    pub const DATA_TAIL: usize = 1032;
    /// The same of the AUX area.
    pub const AUX_HEAD: usize = 1056;
    /// The same of the AUX area.
    pub const AUX_TAIL: usize = 1064;
    /// Its place in the mapping.
    pub const AUX_OFFSET: usize = 1072;
    /// Bytes of it.
    pub const AUX_SIZE: usize = 1080;
}

/// Numbers of registers, in samples and masks.
//
// Source: arch/{x86,arm64,arm}/include/uapi/asm/perf_regs.h
pub mod register {
    use perfdata::abi::{PERF_SAMPLE_REGS_ABI_32, PERF_SAMPLE_REGS_ABI_64};

    /// Stack pointer.
    pub const SP: u32 = if cfg!(target_arch = "x86_64") {
        7
    } else if cfg!(target_arch = "arm") {
        13
    } else {
        31
    };
    /// The form of the registers of this machine's own programs.
    pub const FORM: u64 =
        if cfg!(target_arch = "arm") { PERF_SAMPLE_REGS_ABI_32 } else { PERF_SAMPLE_REGS_ABI_64 };
    /// Instruction pointer.
    pub const PC: u32 = if cfg!(target_arch = "x86_64") {
        8
    } else if cfg!(target_arch = "arm") {
        15
    } else {
        32
    };

    /// Names by number of the architecture's `perf_regs.h`; empty: not there.
    #[cfg(target_arch = "x86_64")]
    pub const NAMES: &[&str] = &[
        "ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "ip", "flags", "cs", "ss", "", "", "", "", "r8",
        "r9", "r10", "r11", "r12", "r13", "r14", "r15",
    ];
    /// Names by number of the architecture's `perf_regs.h`; empty: not there.
    #[cfg(target_arch = "aarch64")]
    pub const NAMES: &[&str] = &[
        "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",
        "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29",
        "lr", "sp", "pc",
    ];
    /// Names by number of the architecture's `perf_regs.h`; empty: not there.
    #[cfg(target_arch = "arm")]
    pub const NAMES: &[&str] =
        &["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "fp", "ip", "sp", "lr", "pc"];
    /// Names by number of the architecture's `perf_regs.h`; empty: not there.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm")))]
    pub const NAMES: &[&str] = &[];
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As include/uapi/linux/perf_event.h has them after the preprocessor, on a 64-bit machine.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn numbers_of_ioctls_are_those_of_the_header() {
        assert_eq!(
            [ioctl::ENABLE, ioctl::DISABLE, ioctl::RESET, ioctl::SET_OUTPUT],
            [0x2400, 0x2401, 0x2403, 0x2405]
        );
        assert_eq!([ioctl::PERIOD, ioctl::SET_FILTER, ioctl::ID], [0x4008_2404, 0x4008_2406, 0x8008_2407]);
        assert_eq!([ioctl::SET_BPF, ioctl::PAUSE_OUTPUT], [0x4004_2408, 0x4004_2409]);
    }
}
