//! Why a thread waited: read off the names of its kernel frames, else off its system call.
//!
//! One table of function-name prefixes, asked frame by frame from the leaf: the innermost frame that means
//! something decides, except that `fsync`, page faults and reclaim further out rename a disk wait.

mod kernel_functions;

use kernel_functions::{LOCK_TAKERS, of_function, of_outer_function};

/// Why a thread waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WaitReason {
    /// A futex: mutex, condition variable, join, park.
    Futex,
    /// Python's global interpreter lock.
    Gil,
    /// A garbage collector: until it is done, or has freed memory.
    Collector,
    /// epoll, poll, select, eventfd: waiting for events.
    Poll,
    /// A pipe or FIFO.
    Pipe,
    /// A socket.
    Socket,
    /// A timer or sleep.
    Timer,
    /// A disk.
    Disk,
    /// A page fault that had to read.
    PageFault,
    /// fsync and relatives.
    Fsync,
    /// wait4, waitid: a child process.
    Child,
    /// A lock inside the kernel (mutex, rwsem).
    KernelLock,
    /// A lock of a file: flock, fcntl, lockf.
    FileLock,
    /// A terminal.
    Tty,
    /// Asynchronous I/O: io_uring, aio.
    Aio,
    /// A signal.
    Signal,
    /// System V and POSIX queues and semaphores.
    Ipc,
    /// Memory: reclaim or dirty-page throttling.
    Memory,
    /// Stopped or traced.
    Stopped,
    /// A kernel thread waiting for work.
    KernelThread,
    /// None of these.
    Other,
    /// Short waits that were only counted and have no stack.
    NoStack,
    /// It began before the recording, and who waits is only asked when a wait begins.
    Earlier,
    /// The recording has no reason.
    Unknown,
}

impl WaitReason {
    /// All, in the order shown.
    pub const ALL: [Self; 24] = [
        Self::Futex,
        Self::Gil,
        Self::KernelLock,
        Self::FileLock,
        Self::Disk,
        Self::Fsync,
        Self::PageFault,
        Self::Memory,
        Self::Collector,
        Self::Socket,
        Self::Pipe,
        Self::Poll,
        Self::Timer,
        Self::Child,
        Self::Aio,
        Self::Tty,
        Self::Signal,
        Self::Ipc,
        Self::Stopped,
        Self::KernelThread,
        Self::Other,
        Self::NoStack,
        Self::Earlier,
        Self::Unknown,
    ];

    /// Name in columns and folded stacks.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Futex => "futex",
            Self::Gil => "GIL",
            Self::Collector => "GC",
            Self::Poll => "poll",
            Self::Pipe => "pipe",
            Self::Socket => "socket",
            Self::Timer => "timer",
            Self::Disk => "disk",
            Self::PageFault => "page fault",
            Self::Fsync => "fsync",
            Self::Child => "child",
            Self::KernelLock => "kernel lock",
            Self::FileLock => "file lock",
            Self::Tty => "tty",
            Self::Aio => "aio",
            Self::Signal => "signal",
            Self::Ipc => "ipc",
            Self::Memory => "memory",
            Self::Stopped => "stopped",
            Self::KernelThread => "kernel thread",
            Self::Other => "other",
            Self::NoStack => "short waits",
            Self::Earlier => "began earlier",
            Self::Unknown => "unknown",
        }
    }

    /// Reason from the kernel functions of the wait, **leaf first**; `None` if none of them shows it.
    pub fn of_kernel_frames<'n>(names: impl Iterator<Item = &'n str> + Clone) -> Option<Self> {
        let inner = names.clone().find_map(of_function)?;
        if !matches!(inner, Self::Disk | Self::KernelLock | Self::Memory) {
            return Some(inner);
        }
        let outer = names.clone().find_map(of_outer_function);
        match (inner, outer) {
            (Self::Disk | Self::KernelLock, Some(Self::Fsync)) => Some(Self::Fsync),
            (Self::KernelLock, Some(Self::Futex)) => Some(Self::Futex),
            (Self::Disk, Some(outer)) => Some(outer),
            _ => Some(inner),
        }
    }

    /// True if an uninterruptible wait in this kernel function, the innermost one recorded, is for a lock.
    ///
    /// The stack of a thread that doesn't run lacks the scheduler's functions, and those of sleeping locks
    /// (`rwsem_down_write_slowpath`, `__mutex_lock`) count as such. The innermost remaining function is the one that
    /// wanted the lock.
    // Source: linux v6.18 kernel/stacktrace.c, stack_trace_consume_entry_nosched(); __sched in kernel/locking/
    #[must_use]
    pub fn is_lock_taker(leaf: &str) -> bool {
        LOCK_TAKERS.iter().any(|(prefix, ..)| leaf.starts_with(prefix))
    }

    /// The lock and the taker of a wait of kind [`Self::KernelLock`], from its kernel functions; `None` if they don't
    /// show them.
    pub fn kernel_lock<'n>(mut names: impl Iterator<Item = &'n str>) -> Option<(&'static str, &'static str)> {
        names.find_map(|name| {
            let taker = LOCK_TAKERS.iter().find(|(prefix, ..)| name.starts_with(prefix));
            taker.map(|(_, lock, by)| (*lock, *by))
        })
    }

    /// True for the name of a lock that each process has: that of its address space.
    pub(crate) fn is_of_process(lock: &str) -> bool {
        lock == kernel_functions::ADDRESS_SPACE
    }

    /// Reason from the system call's number, for waits without kernel names.
    #[must_use]
    pub fn of_syscall(number: u32, numbering: SyscallNumbering) -> Option<Self> {
        let table = match numbering {
            SyscallNumbering::X86_64 => X86_64,
            SyscallNumbering::Generic => GENERIC,
            SyscallNumbering::Arm => ARM,
        };
        table.iter().find(|(_, numbers)| numbers.contains(&number)).map(|(reason, _)| *reason)
    }

    /// Reason from the name of the descriptor that was waited for, as the recorder writes it: `pipe to gzip`. `None` for
    /// kinds whose waits have several reasons.
    #[must_use]
    pub fn of_descriptor(name: &str) -> Option<Self> {
        match name.split(' ').next()? {
            "pipe" => Some(Self::Pipe),
            "socket" => Some(Self::Socket),
            _ => None,
        }
    }

    /// True for a call of `select` or `poll` with these first arguments that asks for no descriptor: it only sleeps
    /// (`time.sleep` up to Python 3.10).
    // Source: linux v6.18 fs/select.c: select(nfds, …), poll(fds, nfds, …)
    #[must_use]
    pub fn is_sleep_call(number: u32, args: &[u64; 3], numbering: SyscallNumbering) -> bool {
        let (selects, polls): (&[u32], &[u32]) = match numbering {
            SyscallNumbering::X86_64 => (&[23, 270], &[7, 271]),
            SyscallNumbering::Generic => (&[72], &[73]),
            SyscallNumbering::Arm => (&[142, 335, 413], &[168, 336, 414]),
        };
        selects.contains(&number) && args[0] == 0 || polls.contains(&number) && args[1] == 0
    }
}

/// Which numbers system calls have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyscallNumbering {
    /// Those of x86-64.
    X86_64,
    /// Those of all newer architectures, aarch64 among them.
    Generic,
    /// Those of 32-bit ARM.
    Arm,
}

impl SyscallNumbering {
    /// Those of this machine, as `uname -m` names it.
    #[must_use]
    pub fn of_arch(arch: &str) -> Self {
        match arch {
            "x86_64" | "amd64" => Self::X86_64,
            arch if arch.starts_with("arm") && arch != "arm64" => Self::Arm,
            _ => Self::Generic,
        }
    }
}

impl Default for SyscallNumbering {
    /// Those of the processor that tally is built for.
    fn default() -> Self {
        Self::of_arch(std::env::consts::ARCH)
    }
}

type Syscalls = &'static [(WaitReason, &'static [u32])];

// Source: linux v6.18 arch/x86/entry/syscalls/syscall_64.tbl
const X86_64: Syscalls = &[
    (WaitReason::Futex, &[202, 449, 454, 455, 456]),
    (WaitReason::Poll, &[7, 23, 232, 270, 271, 281, 441]),
    (WaitReason::Socket, &[42, 43, 44, 45, 46, 47, 288, 299, 307]),
    (WaitReason::Timer, &[35, 230]),
    (WaitReason::Child, &[61, 247]),
    (WaitReason::Fsync, &[74, 75, 162, 277, 306]),
    (WaitReason::Aio, &[208, 333, 426]),
    (WaitReason::Signal, &[34, 128, 130]),
    (WaitReason::Ipc, &[65, 69, 70, 220, 242, 243]),
    // fcntl waits for locks only.
    (WaitReason::FileLock, &[72, 73]),
];

// Source: linux v6.18 include/uapi/asm-generic/unistd.h
const GENERIC: Syscalls = &[
    (WaitReason::Futex, &[98, 449, 454, 455, 456]),
    (WaitReason::Poll, &[22, 72, 73, 441]),
    (WaitReason::Socket, &[202, 203, 206, 207, 211, 212, 242, 243, 269]),
    (WaitReason::Timer, &[101, 115]),
    (WaitReason::Child, &[95, 260]),
    (WaitReason::Fsync, &[81, 82, 83, 84, 267]),
    (WaitReason::Aio, &[4, 292, 426]),
    (WaitReason::Signal, &[133, 137]),
    (WaitReason::Ipc, &[182, 183, 188, 189, 192, 193]),
    (WaitReason::FileLock, &[25, 32]),
];

// Source: linux v6.18 arch/arm/tools/syscall.tbl
const ARM: Syscalls = &[
    (WaitReason::Futex, &[240, 422, 449, 454, 455, 456]),
    (WaitReason::Poll, &[142, 168, 252, 335, 336, 346, 413, 414, 441]),
    (WaitReason::Socket, &[283, 285, 289, 290, 291, 292, 296, 297, 365, 366, 374, 417]),
    (WaitReason::Timer, &[162, 265, 407]),
    (WaitReason::Child, &[114, 280]),
    (WaitReason::Fsync, &[36, 118, 144, 148, 341, 373]),
    (WaitReason::Aio, &[245, 399, 416, 426]),
    (WaitReason::Signal, &[29, 177, 179, 421]),
    (WaitReason::Ipc, &[276, 277, 298, 301, 302, 312, 418, 419, 420]),
    (WaitReason::FileLock, &[55, 143, 221]),
];

#[cfg(test)]
mod tests {
    use super::kernel_functions::ADDRESS_SPACE;
    use super::*;

    #[test]
    fn kernel_functions_tell_the_reason() {
        let of = |names: &str| WaitReason::of_kernel_frames(names.split(' '));
        assert_eq!(
            of("futex_do_wait __futex_wait futex_wait do_futex __x64_sys_futex"),
            Some(WaitReason::Futex)
        );
        assert_eq!(of("hrtimer_nanosleep common_nsleep __x64_sys_clock_nanosleep"), Some(WaitReason::Timer));
        assert_eq!(
            of("rwsem_down_write_slowpath down_write_killable vm_mmap_pgoff"),
            Some(WaitReason::KernelLock)
        );
        assert_eq!(of("folio_wait_bit_common filemap_fault handle_mm_fault"), Some(WaitReason::PageFault));
        assert_eq!(
            of("jbd2_log_wait_commit ext4_sync_file vfs_fsync_range do_fsync"),
            Some(WaitReason::Fsync)
        );
        assert_eq!(
            of("blk_mq_get_tag __blk_mq_alloc_requests iomap_dio_rw vfs_read"),
            Some(WaitReason::Disk)
        );
        assert_eq!(of("anon_pipe_read vfs_read ksys_read"), Some(WaitReason::Pipe));
        assert_eq!(of("sk_wait_data tcp_recvmsg_locked"), Some(WaitReason::Socket));
        assert_eq!(of("do_wait_intr_irq eventfd_read vfs_read"), Some(WaitReason::Poll));
        assert_eq!(of("do_wait_intr_irq timerfd_read_iter vfs_read"), Some(WaitReason::Timer));
        assert_eq!(of("do_wait kernel_wait4 __do_sys_wait4"), Some(WaitReason::Child));
        assert_eq!(of("kernel_clone __do_sys_vfork do_syscall_64"), Some(WaitReason::Child));
        assert_eq!(of("locks_lock_inode_wait __do_sys_flock do_syscall_64"), Some(WaitReason::FileLock));
        assert_eq!(of("fcntl_setlk do_fcntl __x64_sys_fcntl"), Some(WaitReason::FileLock));
        assert_eq!(of("do_syscall_64 entry_SYSCALL_64_after_hwframe"), None);
    }

    #[test]
    fn a_lock_is_told_by_who_takes_it() {
        assert!(WaitReason::is_lock_taker("vm_mmap_pgoff") && WaitReason::is_lock_taker("__vm_munmap"));
        let of = |names: &str| WaitReason::kernel_lock(names.split(' '));
        assert_eq!(
            of("rwsem_down_write_slowpath __vm_munmap do_syscall_64"),
            Some((ADDRESS_SPACE, "munmap"))
        );
        assert_eq!(of("pipe_write vfs_write"), None);
        assert!(
            !WaitReason::is_lock_taker("folio_wait_bit_common")
                && !WaitReason::is_lock_taker("filemap_fault")
        );
    }

    #[test]
    fn waiting_for_no_descriptor_is_sleeping() {
        let is = |number, args, numbering| WaitReason::is_sleep_call(number, args, numbering);
        assert!(
            is(270, &[0, 0, 0], SyscallNumbering::X86_64)
                && is(7, &[0x7f00, 0, 10], SyscallNumbering::X86_64)
        );
        assert!(!is(270, &[5, 0x7f00, 0], SyscallNumbering::X86_64));
        assert!(!is(7, &[0x7f00, 1, 10], SyscallNumbering::X86_64));
        assert!(
            is(72, &[0, 0, 0], SyscallNumbering::Generic) && !is(232, &[0, 0, 0], SyscallNumbering::X86_64)
        );
    }

    #[test]
    fn without_kernel_names_the_system_call_does() {
        assert_eq!(WaitReason::of_syscall(202, SyscallNumbering::X86_64), Some(WaitReason::Futex));
        assert_eq!(WaitReason::of_syscall(202, SyscallNumbering::Generic), Some(WaitReason::Socket));
        let of = |arch: &str, number| WaitReason::of_syscall(number, SyscallNumbering::of_arch(arch));
        let sleeps = [of("x86_64", 35), of("aarch64", 101), of("arm64", 115), of("armv7l", 407)];
        assert_eq!(sleeps, [Some(WaitReason::Timer); 4]);
        assert_eq!(
            (
                WaitReason::of_syscall(73, SyscallNumbering::X86_64),
                WaitReason::of_syscall(25, SyscallNumbering::Generic)
            ),
            (Some(WaitReason::FileLock), Some(WaitReason::FileLock))
        );
        assert_eq!(WaitReason::of_syscall(0, SyscallNumbering::X86_64), None);
        let by_name = ["pipe", "socket at port 80", "/pipe of mine"].map(WaitReason::of_descriptor);
        assert_eq!(by_name, [Some(WaitReason::Pipe), Some(WaitReason::Socket), None]);
    }
}
