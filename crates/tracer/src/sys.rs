//! System calls made directly, so that neither `errno` nor an interposed libc function is touched.

mod files;
mod memory;
pub mod space;
#[cfg(test)]
pub mod test_clock;
#[cfg(tally_timers)]
pub mod timer;

use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering};
pub use files::*;
pub use memory::*;
#[cfg(test)]
pub use test_clock::ticks;

/// One system call; the kernel's answer, negative errno on failure.
///
/// # Safety
/// The caller answers for what the call does with its arguments.
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn call(number: usize, args: [usize; 6]) -> isize {
    let answer: isize;
    // SAFETY: the kernel's calling convention; rcx and r11 are the only registers it changes other than rax.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => answer,
             in("rdi") args[0], in("rsi") args[1], in("rdx") args[2], in("r10") args[3], in("r8") args[4],
             in("r9") args[5], lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    answer
}

/// The same; x8 has the number.
///
/// # Safety
/// As above.
#[cfg(all(target_arch = "aarch64", not(miri)))]
unsafe fn call(number: usize, args: [usize; 6]) -> isize {
    let answer: isize;
    // SAFETY: the kernel's calling convention; only x0 is changed.
    unsafe {
        asm!("svc #0", in("x8") number, inlateout("x0") args[0] => answer, in("x1") args[1], in("x2") args[2],
             in("x3") args[3], in("x4") args[4], in("x5") args[5], options(nostack));
    }
    answer
}

/// The same under Miri, which runs no assembly: fresh memory is the allocator's, all else is refused.
///
/// # Safety
/// None is needed.
#[cfg(miri)]
unsafe fn call(number: usize, args: [usize; 6]) -> isize {
    const ENOSYS: isize = 38;
    let [_, bytes, _, _, fd, _] = args;
    if number != number::MMAP || fd != usize::MAX {
        return -ENOSYS;
    }
    let layout = std::alloc::Layout::from_size_align(bytes, 4096).expect("a size of ours");
    // SAFETY: no caller asks for no bytes.
    unsafe { std::alloc::alloc_zeroed(layout) as isize }
}

// Source: linux include/uapi/asm-generic/unistd.h.
#[cfg(target_arch = "aarch64")]
mod number {
    pub const READ: usize = 63;
    pub const WRITE: usize = 64;
    pub const CLOSE: usize = 57;
    pub const MMAP: usize = 222;
    pub const MPROTECT: usize = 226;
    pub const MUNMAP: usize = 215;
    pub const RT_SIGPROCMASK: usize = 135;
    pub const PREAD64: usize = 67;
    pub const PWRITE64: usize = 68;
    pub const FALLOCATE: usize = 47;
    pub const MADVISE: usize = 233;
    pub const NANOSLEEP: usize = 101;
    pub const PROCESS_VM_READV: usize = 270;
    pub const PROCESS_VM_WRITEV: usize = 271;
    pub const FSTAT: usize = 80;
    pub const GETPID: usize = 172;
    pub const FTRUNCATE: usize = 46;
    pub const READLINKAT: usize = 78;
    pub const GETTID: usize = 178;
    pub const CLOCK_GETTIME: usize = 113;
    pub const EXIT_GROUP: usize = 94;
    pub const OPENAT: usize = 56;
    pub const UNLINKAT: usize = 35;
    pub const PRLIMIT64: usize = 261;
}

#[cfg(target_arch = "x86_64")]
mod number {
    pub const READ: usize = 0;
    pub const WRITE: usize = 1;
    pub const CLOSE: usize = 3;
    pub const MMAP: usize = 9;
    pub const MPROTECT: usize = 10;
    pub const MUNMAP: usize = 11;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const PREAD64: usize = 17;
    pub const PWRITE64: usize = 18;
    pub const FALLOCATE: usize = 285;
    pub const MADVISE: usize = 28;
    pub const NANOSLEEP: usize = 35;
    pub const PROCESS_VM_READV: usize = 310;
    pub const PROCESS_VM_WRITEV: usize = 311;
    pub const FSTAT: usize = 5;
    pub const GETPID: usize = 39;
    pub const FTRUNCATE: usize = 77;
    pub const READLINKAT: usize = 267;
    pub const GETTID: usize = 186;
    pub const CLOCK_GETTIME: usize = 228;
    pub const EXIT_GROUP: usize = 231;
    pub const OPENAT: usize = 257;
    pub const UNLINKAT: usize = 263;
    pub const PRLIMIT64: usize = 302;
}

/// The number of `prctl`.
pub const PRCTL: usize = if cfg!(target_arch = "aarch64") { 167 } else { 157 };
/// The number of `seccomp`.
pub const SECCOMP: usize = if cfg!(target_arch = "aarch64") { 277 } else { 317 };

/// `SIG_SETMASK`.
const SET_MASK: usize = 2;

/// Blocks all signals of this thread; those blocked before.
pub fn block_signals() -> u64 {
    let (all, mut before) = (u64::MAX, 0u64);
    // SAFETY: the kernel reads one word and writes the other.
    unsafe {
        call(number::RT_SIGPROCMASK, [SET_MASK, &raw const all as usize, &raw mut before as usize, 8, 0, 0])
    };
    before
}

/// Blocks just these again.
pub fn restore_signals(before: u64) {
    // SAFETY: the kernel reads one word.
    unsafe { call(number::RT_SIGPROCMASK, [SET_MASK, &raw const before as usize, 0, 8, 0, 0]) };
}

/// The program has asked the kernel to restrict its system calls: ours might end it.
static RESTRICTED: AtomicBool = AtomicBool::new(false);

/// Whether no more system calls are to be made.
pub fn is_restricted() -> bool {
    RESTRICTED.load(Ordering::Relaxed)
}

/// From now on no system calls are made.
pub fn restrict() {
    RESTRICTED.store(true, Ordering::Relaxed);
}

/// Sleeps.
pub fn pause(ns: u64) {
    let time = [ns / 1_000_000_000, ns % 1_000_000_000];
    // SAFETY: the kernel reads two words.
    unsafe { call(number::NANOSLEEP, [time.as_ptr() as usize, 0, 0, 0, 0, 0]) };
}

/// The process id in its own namespace.
pub fn pid() -> u32 {
    // SAFETY: has no arguments.
    unsafe { call(number::GETPID, [0; 6]) as u32 }
}

/// The thread id in its own namespace.
pub fn tid() -> u32 {
    // SAFETY: has no arguments.
    unsafe { call(number::GETTID, [0; 6]) as u32 }
}

/// `CLOCK_MONOTONIC` in ns.
pub fn monotonic_ns() -> u64 {
    clock_ns(1)
}

/// CPU time of this thread, ns.
#[cfg(tally_timers)]
pub fn cpu_ns() -> u64 {
    clock_ns(3)
}

/// CPU time of this thread, ns.
#[cfg(target_arch = "x86_64")]
pub fn thread_cpu_ns() -> u64 {
    clock_ns(3)
}

fn clock_ns(clock: usize) -> u64 {
    let mut time = [0u64; 2];
    // SAFETY: the kernel writes two words.
    unsafe { call(number::CLOCK_GETTIME, [clock, time.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    time[0] * 1_000_000_000 + time[1]
}

/// The counter and `CLOCK_MONOTONIC` in ns at one moment: of a few readings the quickest, which nothing interrupted.
pub fn moment() -> (u64, u64) {
    const TRIES: u32 = 5;
    let (mut best, mut width) = ((0, 0), u64::MAX);
    for _ in 0..TRIES {
        let (before, ns, after) = (ticks(), monotonic_ns(), ticks());
        if after.wrapping_sub(before) < width {
            width = after.wrapping_sub(before);
            best = (before.wrapping_add(width / 2), ns);
        }
    }
    best
}

/// Ends the process at once.
pub fn exit_group(status: i32) -> ! {
    loop {
        // SAFETY: never returns.
        unsafe { call(number::EXIT_GROUP, [status as usize, 0, 0, 0, 0, 0]) };
    }
}

/// The time stamp counter.
#[cfg(all(target_arch = "x86_64", not(test)))]
pub fn ticks() -> u64 {
    // SAFETY: readable from user space on every Linux that sets no PR_TSC_SIGSEGV.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The counter of the generic timer.
#[cfg(all(target_arch = "aarch64", not(test)))]
pub fn ticks() -> u64 {
    let ticks: u64;
    // SAFETY: readable from user space on Linux.
    unsafe { asm!("mrs {0}, cntvct_el0", out(reg) ticks, options(nostack, nomem)) };
    ticks
}

/// Whether the processor keeps return addresses on a stack of its own (GCS), which no other address may differ from.
#[cfg(target_arch = "aarch64")]
pub fn has_shadow_stack() -> bool {
    let asked: u64;
    // SAFETY: `chkfeat x16` clears the bit of a feature that is on; elsewhere it does nothing.
    unsafe { asm!("mov x16, #1", "hint #40", out("x16") asked, options(nostack, nomem)) };
    asked == 0
}

/// Whether the processor keeps return addresses on a stack of its own (CET), which no other address may differ from.
#[cfg(target_arch = "x86_64")]
pub fn has_shadow_stack() -> bool {
    let pointer: u64;
    // SAFETY: `rdsspq` leaves the register as it is where there is no such stack.
    unsafe { asm!("xor {0:e}, {0:e}", "rdsspq {0}", out(reg) pointer, options(nostack, nomem)) };
    pointer != 0
}

/// Bytes put together without allocation: paths and small texts.
pub struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Text<N> {
    /// Empty.
    pub const fn new() -> Self {
        Self { bytes: [0; N], len: 0 }
    }

    /// Adds bytes; what does not fit is left out (the file then can't be made, which is counted).
    pub fn push(&mut self, more: &[u8]) -> &mut Self {
        for byte in more {
            if self.len < N {
                self.bytes[self.len] = *byte;
                self.len += 1;
            }
        }
        self
    }

    /// Adds a number in decimal digits.
    pub fn number(&mut self, mut value: u64) -> &mut Self {
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 {
                break;
            }
        }
        self.push(&digits[at..])
    }

    /// The bytes written so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_where_its_room_ends() {
        let mut text = Text::<8>::new();
        text.push(b"ab").number(0).push(b"-").number(12_345_678);
        assert_eq!(text.bytes(), b"ab0-1234");
    }
}
