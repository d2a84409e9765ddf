//! System calls made directly, so that neither `errno` nor an interposed libc function is touched.

pub mod space;
#[cfg(tally_timers)]
pub mod timer;

use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering};

/// One system call; the kernel's answer, negative errno on failure.
///
/// # Safety
/// The caller answers for what the call does with its arguments.
#[cfg(target_arch = "x86_64")]
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
#[cfg(target_arch = "aarch64")]
unsafe fn call(number: usize, args: [usize; 6]) -> isize {
    let answer: isize;
    // SAFETY: the kernel's calling convention; only x0 is changed.
    unsafe {
        asm!("svc #0", in("x8") number, inlateout("x0") args[0] => answer, in("x1") args[1], in("x2") args[2],
             in("x3") args[3], in("x4") args[4], in("x5") args[5], options(nostack));
    }
    answer
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
/// `O_NOFOLLOW`: a link in the place of a file of ours was put there by somebody else.
// Source: linux arch/arm64/include/uapi/asm/fcntl.h, include/uapi/asm-generic/fcntl.h.
const NO_LINK: usize = if cfg!(target_arch = "aarch64") { 0o100_000 } else { 0o400_000 };
/// `O_RDONLY | O_CLOEXEC | O_NOFOLLOW`.
pub const READ_ONLY: usize = 0o2_000_000 | NO_LINK;
/// `O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC`; no link is followed to a new file.
pub const NEW_FILE: usize = 0o2_000_302;
/// `O_RDWR | O_CLOEXEC | O_NOFOLLOW`.
pub const OLD_FILE: usize = 0o2_000_002 | NO_LINK;
/// `O_PATH | O_CLOEXEC`: a folder, to open files in.
pub const FOLDER: usize = 0o12_000_000;
/// `O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW`: a pipe that nobody reads can't be opened so.
pub const WRITE_ONLY_AT_ONCE: usize = 0o2_004_001 | NO_LINK;
/// `PROT_READ`, `PROT_WRITE`, `PROT_EXEC`.
pub const PROT: (usize, usize, usize) = (1, 2, 4);

/// Mode of what is made: recorded data is its owner's.
const OWNER_ONLY: usize = 0o600;

/// `AT_FDCWD`.
const HERE: usize = -100isize as usize;

/// Opens the file of a NUL-terminated path.
pub fn open(path: &[u8], flags: usize) -> Option<i32> {
    try_open(path, flags).ok()
}

/// Closes a descriptor of ours.
pub fn close(fd: i32) {
    // SAFETY: only ever called with descriptors that this crate opened.
    unsafe { call(number::CLOSE, [fd as usize, 0, 0, 0, 0, 0]) };
}

/// Which file a descriptor is of: device and inode; `None` if it is closed.
// Layout: struct stat begins with `unsigned long st_dev, st_ino` on both. Source: linux arch/x86/include/uapi/asm/stat.h,
// include/uapi/asm-generic/stat.h.
pub fn identity(fd: i32) -> Option<[u64; 2]> {
    const STAT_WORDS: usize = 18;
    let mut stat = [0u64; STAT_WORDS];
    // SAFETY: the kernel writes at most 144 bytes there.
    let answer = unsafe { call(number::FSTAT, [fd as usize, stat.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    (answer == 0).then_some([stat[0], stat[1]])
}

/// Opens a file in the folder of a descriptor; the path ends in NUL. The errno if it can't be opened.
pub fn try_open_in(folder: i32, path: &[u8], flags: usize) -> Result<i32, i32> {
    if path.last() != Some(&0) {
        return Err(space::EBADF);
    }
    // SAFETY: the path ends in NUL, as was just checked.
    let fd =
        unsafe { call(number::OPENAT, [folder as usize, path.as_ptr() as usize, flags, OWNER_ONLY, 0, 0]) };
    space::result(fd).map(|fd| fd as i32)
}

/// Opens a file whose NUL-terminated path begins in the current folder; the errno if that fails.
pub fn try_open(path: &[u8], flags: usize) -> Result<i32, i32> {
    try_open_in(HERE as i32, path, flags)
}

/// Removes a file of ours; the path ends in NUL.
pub fn unlink(path: &[u8]) {
    if path.last() == Some(&0) {
        // SAFETY: the path ends in NUL, and names a file that this process made.
        unsafe { call(number::UNLINKAT, [HERE, path.as_ptr() as usize, 0, 0, 0, 0]) };
    }
}

/// Reads into `to`; the number of bytes, 0 at the end or on an error.
pub fn read(fd: i32, to: &mut [u8]) -> usize {
    // SAFETY: the kernel writes at most `to.len()` bytes there.
    let n = unsafe { call(number::READ, [fd as usize, to.as_mut_ptr() as usize, to.len(), 0, 0, 0]) };
    n.max(0) as usize
}

/// Writes `from`; the number of bytes taken, 0 on an error.
pub fn write(fd: i32, from: &[u8]) -> usize {
    // SAFETY: the kernel reads `from.len()` bytes there.
    let n = unsafe { call(number::WRITE, [fd as usize, from.as_ptr() as usize, from.len(), 0, 0, 0]) };
    n.max(0) as usize
}

/// Cuts the file off at `bytes`. (Growing it takes [`space::allocate`].)
pub fn truncate(fd: i32, bytes: u64) -> bool {
    // SAFETY: changes only a file of ours.
    unsafe { call(number::FTRUNCATE, [fd as usize, bytes as usize, 0, 0, 0, 0]) == 0 }
}

/// Gives the space of a file's bytes from `from` up to `to` back; they read as 0.
pub fn punch(fd: i32, from: u64, to: u64) {
    const KEEP_SIZE_PUNCH_HOLE: usize = 3;
    let bytes = to.saturating_sub(from) as usize;
    // SAFETY: changes only a file of ours; all that the thread still maps is after `to`.
    unsafe { call(number::FALLOCATE, [fd as usize, KEEP_SIZE_PUNCH_HOLE, from as usize, bytes, 0, 0]) };
}

/// Maps `bytes` of a file of ours, shared and writable, from `offset`. They must be allocated ([`space::allocate`]): a
/// store into a page without space would end the program.
pub fn map_file(fd: i32, bytes: usize, offset: u64) -> Result<*mut u8, i32> {
    const SHARED: usize = 1;
    const POPULATE_WRITE: usize = 23;
    let protection = PROT.0 | PROT.1;
    // SAFETY: a new mapping at an address of the kernel's choosing.
    let at = space::result(unsafe {
        call(number::MMAP, [0, bytes, protection, SHARED, fd as usize, offset as usize])
    })?;
    // All pages made writable at once, instead of by a fault each; kernels before 5.14 do it by faults.
    // SAFETY: only the mapping just made.
    let populated = unsafe { call(number::MADVISE, [at, bytes, POPULATE_WRITE, 0, 0, 0]) };
    if space::is_no_space(populated) {
        unmap(at as *mut u8, bytes);
        return Err(-populated as i32);
    }
    Ok(at as *mut u8)
}

/// The same, page by page as they are used; whoever made the file has allocated it.
#[cfg(tally_timers)]
pub fn map_file_lazily(fd: i32, bytes: usize) -> Option<*mut u8> {
    const SHARED: usize = 1;
    // SAFETY: a new mapping at an address of the kernel's choosing.
    map(unsafe { call(number::MMAP, [0, bytes, PROT.0 | PROT.1, SHARED, fd as usize, 0]) })
}

/// Maps `bytes` of fresh memory, reserved but not backed, near `hint` when it is not 0.
pub fn map_memory(hint: usize, bytes: usize) -> Option<*mut u8> {
    const PRIVATE_ANONYMOUS_NORESERVE: usize = 0x4022;
    // SAFETY: as above; a hint moves nothing that exists.
    map(unsafe {
        call(number::MMAP, [hint, bytes, PROT.0 | PROT.1, PRIVATE_ANONYMOUS_NORESERVE, usize::MAX, 0])
    })
}

fn map(answer: isize) -> Option<*mut u8> {
    (answer > 0).then_some(answer as *mut u8)
}

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

/// Removes a mapping of ours.
pub fn unmap(at: *mut u8, bytes: usize) {
    // SAFETY: only called with mappings that this crate made and no longer uses.
    unsafe { call(number::MUNMAP, [at as usize, bytes, 0, 0, 0, 0]) };
}

/// Changes the protection of whole pages.
pub fn protect(at: usize, bytes: usize, protection: usize) -> bool {
    // SAFETY: the callers only add rights to code they are about to patch and take them back.
    unsafe { call(number::MPROTECT, [at, bytes, protection, 0, 0, 0]) == 0 }
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

/// Reads this process's memory, which need not be there; the number of bytes read.
pub fn read_memory(at: u64, to: &mut [u8]) -> usize {
    if is_restricted() {
        return 0;
    }
    // Pages are asked for one by one: of a part that can't be read whole, nothing comes.
    let first = to.len().min(4096 - (at & 4095) as usize);
    let local = [to.as_mut_ptr() as usize, to.len()];
    let remote = [at as usize, first, (at as usize).wrapping_add(first), to.len() - first];
    // SAFETY: the kernel checks the memory it reads, and writes at most `to.len()` bytes.
    let n = unsafe {
        let pid = pid() as usize;
        call(number::PROCESS_VM_READV, [pid, local.as_ptr() as usize, 1, remote.as_ptr() as usize, 2, 0])
    };
    if is_refused(n) { read_memory_file(at, to) } else { n.max(0) as usize }
}

/// Whether the kernel (or its replacement) has no such call, or does not allow it.
const fn is_refused(answer: isize) -> bool {
    const EPERM: isize = 1;
    const ENOSYS: isize = 38;
    answer == -EPERM || answer == -ENOSYS
}

/// The same by the file that shows this process's memory.
fn read_memory_file(at: u64, to: &mut [u8]) -> usize {
    let Some(file) = open(b"/proc/self/mem\0", READ_ONLY) else { return 0 };
    // SAFETY: the kernel writes at most `to.len()` bytes there.
    let n = unsafe {
        call(number::PREAD64, [file as usize, to.as_mut_ptr() as usize, to.len(), at as usize, 0, 0])
    };
    close(file);
    n.max(0) as usize
}

/// Writes this process's memory, which need not be writable; whether it was. `None` where that can't be tried.
pub fn write_memory(at: u64, from: &[u8]) -> Option<bool> {
    let local = [from.as_ptr() as usize, from.len()];
    let remote = [at as usize, from.len()];
    // SAFETY: the kernel checks the memory it writes; the caller means it to be changed.
    let n = unsafe {
        let pid = pid() as usize;
        call(number::PROCESS_VM_WRITEV, [pid, local.as_ptr() as usize, 1, remote.as_ptr() as usize, 1, 0])
    };
    (!is_refused(n)).then_some(n == from.len() as isize)
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

/// The text of a symbolic link; the number of bytes.
pub fn read_link(path: &[u8], to: &mut [u8]) -> usize {
    if path.last() != Some(&0) {
        return 0;
    }
    // SAFETY: the path ends in NUL and the kernel writes at most `to.len()` bytes.
    let n = unsafe {
        call(number::READLINKAT, [HERE, path.as_ptr() as usize, to.as_mut_ptr() as usize, to.len(), 0, 0])
    };
    n.max(0) as usize
}

/// Ends the process at once.
pub fn exit_group(status: i32) -> ! {
    loop {
        // SAFETY: never returns.
        unsafe { call(number::EXIT_GROUP, [status as usize, 0, 0, 0, 0, 0]) };
    }
}

/// The time stamp counter.
#[cfg(target_arch = "x86_64")]
pub fn ticks() -> u64 {
    // SAFETY: readable from user space on every Linux that sets no PR_TSC_SIGSEGV.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The counter of the generic timer.
#[cfg(target_arch = "aarch64")]
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
