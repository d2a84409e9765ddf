//! Why a thread waited: read off the names of its kernel frames, else off its system call.
//!
//! One table of function-name prefixes, asked frame by frame from the leaf: the innermost frame that means
//! something decides, except that `fsync`, page faults and reclaim further out rename a disk wait.

/// Why a thread waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// A futex: mutex, condition variable, join, park.
    Futex,
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

impl Reason {
    /// All, in the order shown.
    pub const ALL: [Self; 22] = [
        Self::Futex,
        Self::KernelLock,
        Self::FileLock,
        Self::Disk,
        Self::Fsync,
        Self::PageFault,
        Self::Memory,
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

    /// Reason from the system call's number, for waits without kernel names.
    #[must_use]
    pub fn of_syscall(number: u32, x86: bool) -> Option<Self> {
        let table = if x86 { X86_64 } else { GENERIC };
        table.iter().find(|(_, numbers)| numbers.contains(&number)).map(|(reason, _)| *reason)
    }
}

/// Prefixes of kernel function names; the first match of a frame counts.
const FUNCTIONS: &[(&str, Reason)] = &[
    ("futex_", Reason::Futex),
    ("__futex_", Reason::Futex),
    ("do_futex", Reason::Futex),
    ("ep_poll", Reason::Poll),
    ("do_epoll_", Reason::Poll),
    ("do_poll", Reason::Poll),
    ("do_sys_poll", Reason::Poll),
    ("poll_schedule", Reason::Poll),
    ("do_select", Reason::Poll),
    ("core_sys_select", Reason::Poll),
    ("eventfd_", Reason::Poll),
    ("signalfd_", Reason::Signal),
    ("timerfd_", Reason::Timer),
    ("inotify_", Reason::Poll),
    ("pipe_", Reason::Pipe),
    ("anon_pipe_", Reason::Pipe),
    ("fifo_", Reason::Pipe),
    ("wait_for_partner", Reason::Pipe),
    ("splice_from_pipe", Reason::Pipe),
    ("unix_", Reason::Socket),
    ("sk_wait", Reason::Socket),
    ("sk_stream_wait", Reason::Socket),
    ("inet_csk_", Reason::Socket),
    ("inet_", Reason::Socket),
    ("tcp_", Reason::Socket),
    ("udp_", Reason::Socket),
    ("__skb_", Reason::Socket),
    ("skb_wait", Reason::Socket),
    ("sock_", Reason::Socket),
    ("netlink_", Reason::Socket),
    ("vsock_", Reason::Socket),
    ("packet_recvmsg", Reason::Socket),
    ("do_nanosleep", Reason::Timer),
    ("hrtimer_nanosleep", Reason::Timer),
    ("common_nsleep", Reason::Timer),
    ("msleep", Reason::Timer),
    ("usleep_range", Reason::Timer),
    ("do_wait", Reason::Child),
    ("kernel_wait", Reason::Child),
    ("__do_sys_wait", Reason::Child),
    // A parent sleeps uninterruptibly until the child of its vfork() has its own memory.
    ("wait_for_vfork_done", Reason::Child),
    ("kernel_clone", Reason::Child),
    ("__do_sys_vfork", Reason::Child),
    ("locks_lock_inode", Reason::FileLock),
    ("flock_lock_inode", Reason::FileLock),
    ("posix_lock_inode", Reason::FileLock),
    ("do_lock_file_wait", Reason::FileLock),
    ("fcntl_setlk", Reason::FileLock),
    ("__do_sys_flock", Reason::FileLock),
    ("__break_lease", Reason::FileLock),
    ("nlmclnt_", Reason::FileLock),
    ("rwsem_down_", Reason::KernelLock),
    ("down_read", Reason::KernelLock),
    ("down_write", Reason::KernelLock),
    ("__mutex_lock", Reason::KernelLock),
    ("mutex_lock", Reason::KernelLock),
    ("rt_mutex_", Reason::KernelLock),
    ("__down", Reason::KernelLock),
    ("percpu_rwsem_", Reason::KernelLock),
    ("__percpu_down", Reason::KernelLock),
    ("synchronize_rcu", Reason::KernelLock),
    ("__wait_rcu_gp", Reason::KernelLock),
    ("throttle_direct_reclaim", Reason::Memory),
    ("balance_dirty_pages", Reason::Memory),
    ("mem_cgroup_", Reason::Memory),
    ("try_to_free_", Reason::Memory),
    ("shrink_", Reason::Memory),
    ("reclaim_throttle", Reason::Memory),
    ("io_schedule", Reason::Disk),
    ("folio_wait_", Reason::Disk),
    ("wait_on_page_", Reason::Disk),
    ("wait_on_folio", Reason::Disk),
    ("bit_wait_io", Reason::Disk),
    ("out_of_line_wait_on_bit", Reason::Disk),
    ("__wait_on_buffer", Reason::Disk),
    ("blk_", Reason::Disk),
    ("__blk", Reason::Disk),
    ("blkdev_", Reason::Disk),
    ("submit_bio_wait", Reason::Disk),
    ("iomap_dio", Reason::Disk),
    ("__iomap_dio", Reason::Disk),
    ("dio_", Reason::Disk),
    ("do_blockdev_direct", Reason::Disk),
    ("jbd2_", Reason::Disk),
    ("wbt_wait", Reason::Disk),
    ("rq_qos_", Reason::Disk),
    ("xlog_", Reason::Disk),
    ("xfs_log_", Reason::Disk),
    ("btrfs_wait_", Reason::Disk),
    ("nfs_wait_", Reason::Disk),
    ("rpc_wait_", Reason::Disk),
    ("request_wait_answer", Reason::Disk),
    ("fuse_", Reason::Disk),
    ("vfs_fsync", Reason::Fsync),
    ("n_tty_", Reason::Tty),
    ("tty_", Reason::Tty),
    ("wait_until_sent", Reason::Tty),
    ("io_cqring_", Reason::Aio),
    ("read_events", Reason::Aio),
    ("io_uring_", Reason::Aio),
    ("do_sigtimedwait", Reason::Signal),
    ("sigsuspend", Reason::Signal),
    ("__do_sys_pause", Reason::Signal),
    ("__x64_sys_pause", Reason::Signal),
    ("do_semtimedop", Reason::Ipc),
    ("__do_semtimedop", Reason::Ipc),
    ("do_msgrcv", Reason::Ipc),
    ("do_msgsnd", Reason::Ipc),
    ("wq_sleep", Reason::Ipc),
    ("do_mq_", Reason::Ipc),
    ("do_signal_stop", Reason::Stopped),
    ("ptrace_stop", Reason::Stopped),
    ("do_jobctl", Reason::Stopped),
    ("handle_userfault", Reason::PageFault),
    ("do_swap_page", Reason::PageFault),
    ("__lock_page_or_retry", Reason::PageFault),
    ("__folio_lock", Reason::Disk),
    ("migration_entry_wait", Reason::Memory),
    ("worker_thread", Reason::KernelThread),
    ("rescuer_thread", Reason::KernelThread),
    ("kthreadd", Reason::KernelThread),
    ("smpboot_thread_fn", Reason::KernelThread),
    ("rcu_", Reason::KernelThread),
    ("kswapd", Reason::KernelThread),
    ("kthread_worker_fn", Reason::KernelThread),
];

/// Kernel functions that take a sleeping lock themselves: which lock, and what for.
const LOCK_TAKERS: &[(&str, &str, &str)] = &[
    ("vm_mmap_pgoff", ADDRESS_SPACE, "mmap"),
    ("__vm_munmap", ADDRESS_SPACE, "munmap"),
    ("vm_munmap", ADDRESS_SPACE, "munmap"),
    ("do_mprotect_pkey", ADDRESS_SPACE, "mprotect"),
    ("__do_sys_brk", ADDRESS_SPACE, "brk"),
    ("__x64_sys_brk", ADDRESS_SPACE, "brk"),
    ("__se_sys_brk", ADDRESS_SPACE, "brk"),
    ("vm_brk_flags", ADDRESS_SPACE, "brk"),
    ("do_madvise", ADDRESS_SPACE, "madvise"),
    ("madvise_", ADDRESS_SPACE, "madvise"),
    ("__do_sys_mremap", ADDRESS_SPACE, "mremap"),
    ("__se_sys_mremap", ADDRESS_SPACE, "mremap"),
    ("do_mremap", ADDRESS_SPACE, "mremap"),
    ("do_mlock", ADDRESS_SPACE, "mlock"),
    ("lock_mm_and_find_vma", ADDRESS_SPACE, "page fault"),
    ("do_user_addr_fault", ADDRESS_SPACE, "page fault"),
    ("mmap_read_lock", ADDRESS_SPACE, "reading"),
    ("mmap_write_lock", ADDRESS_SPACE, "changing"),
    ("dup_mmap", ADDRESS_SPACE, "fork"),
    ("exit_mmap", ADDRESS_SPACE, "exit"),
    ("exit_mm", ADDRESS_SPACE, "exit"),
    ("__access_remote_vm", ADDRESS_SPACE, "another process"),
    ("__get_user_pages_locked", ADDRESS_SPACE, "I/O on its memory"),
    ("gup_fast_fallback", ADDRESS_SPACE, "I/O on its memory"),
    ("ext4_buffered_write_iter", FILE, "write"),
    ("ext4_file_write_iter", FILE, "write"),
    ("ext4_dio_write_iter", FILE, "write"),
    ("ext4_dio_read_iter", FILE, "read"),
    ("generic_file_write_iter", FILE, "write"),
    ("xfs_ilock", FILE, "read or write"),
    ("xfs_file_buffered_write", FILE, "write"),
    ("btrfs_tree_lock", "a tree's lock", "btrfs"),
    ("btrfs_tree_read_lock", "a tree's lock", "btrfs"),
    ("btrfs_inode_lock", FILE, "read or write"),
    ("do_truncate", FILE, "truncate"),
    ("fdget_pos", "the position of an open file", "read or write"),
    ("__fdget_pos", "the position of an open file", "read or write"),
    ("lookup_slow", FOLDER, "lookup"),
    ("walk_component", FOLDER, "lookup"),
    ("open_last_lookups", FOLDER, "open"),
    ("path_openat", FOLDER, "open"),
    ("filename_create", FOLDER, "create"),
    ("do_unlinkat", FOLDER, "unlink"),
    ("do_rmdir", FOLDER, "rmdir"),
    ("do_renameat", FOLDER, "rename"),
    ("lock_rename", FOLDER, "rename"),
    ("iterate_dir", FOLDER, "readdir"),
    ("vfs_setxattr", FILE, "setxattr"),
    ("cgroup_", "the lock of cgroups", "cgroup"),
    ("rtnl_lock", "the lock of network settings", "rtnl"),
    ("tty_lock", "a terminal's lock", "tty"),
    ("perf_event_ctx_lock", "the lock of perf events", "perf"),
];

const ADDRESS_SPACE: &str = "the lock of the address space (mmap_lock)";
const FILE: &str = "a file's lock";
const FOLDER: &str = "a folder's lock";

/// Reasons of disk waits, from frames further out.
const OUTER_FUNCTIONS: &[(&str, Reason)] = &[
    // A futex with priority inheritance uses a lock inside the kernel, but for the waiter it is a lock of the program.
    ("futex_lock_pi", Reason::Futex),
    ("futex_wait_requeue_pi", Reason::Futex),
    ("vfs_fsync", Reason::Fsync),
    ("do_fsync", Reason::Fsync),
    ("__x64_sys_fsync", Reason::Fsync),
    ("__x64_sys_fdatasync", Reason::Fsync),
    ("__arm64_sys_fsync", Reason::Fsync),
    ("ksys_sync", Reason::Fsync),
    ("do_sync_file_range", Reason::Fsync),
    ("filemap_fault", Reason::PageFault),
    ("do_swap_page", Reason::PageFault),
    ("handle_mm_fault", Reason::PageFault),
    ("try_to_free_", Reason::Memory),
    ("mem_cgroup_charge", Reason::Memory),
];

fn of_function(name: &str) -> Option<Reason> {
    by_prefix(FUNCTIONS, name)
}

fn of_outer_function(name: &str) -> Option<Reason> {
    by_prefix(OUTER_FUNCTIONS, name)
}

fn by_prefix(table: &[(&str, Reason)], name: &str) -> Option<Reason> {
    table.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, reason)| *reason)
}

type Syscalls = &'static [(Reason, &'static [u32])];

// Source: linux v6.18 arch/x86/entry/syscalls/syscall_64.tbl
const X86_64: Syscalls = &[
    (Reason::Futex, &[202, 449, 454, 455, 456]),
    (Reason::Poll, &[7, 23, 232, 270, 271, 281, 441]),
    (Reason::Socket, &[42, 43, 44, 45, 46, 47, 288, 299, 307]),
    (Reason::Timer, &[35, 230]),
    (Reason::Child, &[61, 247]),
    (Reason::Fsync, &[74, 75, 162, 277, 306]),
    (Reason::Aio, &[208, 333, 426]),
    (Reason::Signal, &[34, 128, 130]),
    (Reason::Ipc, &[65, 69, 70, 220, 242, 243]),
    // fcntl waits for locks only.
    (Reason::FileLock, &[72, 73]),
];

// Source: linux v6.18 include/uapi/asm-generic/unistd.h
const GENERIC: Syscalls = &[
    (Reason::Futex, &[98, 449, 454, 455, 456]),
    (Reason::Poll, &[22, 72, 73, 441]),
    (Reason::Socket, &[202, 203, 206, 207, 211, 212, 242, 243, 269]),
    (Reason::Timer, &[101, 115]),
    (Reason::Child, &[95, 260]),
    (Reason::Fsync, &[81, 82, 83, 84, 267]),
    (Reason::Aio, &[4, 292, 426]),
    (Reason::Signal, &[133, 137]),
    (Reason::Ipc, &[182, 183, 188, 189, 192, 193]),
    (Reason::FileLock, &[25, 32]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_functions_tell_the_reason() {
        let of = |names: &str| Reason::of_kernel_frames(names.split(' '));
        assert_eq!(of("futex_do_wait __futex_wait futex_wait do_futex __x64_sys_futex"), Some(Reason::Futex));
        assert_eq!(of("hrtimer_nanosleep common_nsleep __x64_sys_clock_nanosleep"), Some(Reason::Timer));
        assert_eq!(
            of("rwsem_down_write_slowpath down_write_killable vm_mmap_pgoff"),
            Some(Reason::KernelLock)
        );
        assert_eq!(of("folio_wait_bit_common filemap_fault handle_mm_fault"), Some(Reason::PageFault));
        assert_eq!(of("jbd2_log_wait_commit ext4_sync_file vfs_fsync_range do_fsync"), Some(Reason::Fsync));
        assert_eq!(of("blk_mq_get_tag __blk_mq_alloc_requests iomap_dio_rw vfs_read"), Some(Reason::Disk));
        assert_eq!(of("anon_pipe_read vfs_read ksys_read"), Some(Reason::Pipe));
        assert_eq!(of("sk_wait_data tcp_recvmsg_locked"), Some(Reason::Socket));
        assert_eq!(of("kernel_clone __do_sys_vfork do_syscall_64"), Some(Reason::Child));
        assert_eq!(of("locks_lock_inode_wait __do_sys_flock do_syscall_64"), Some(Reason::FileLock));
        assert_eq!(of("fcntl_setlk do_fcntl __x64_sys_fcntl"), Some(Reason::FileLock));
        assert_eq!(of("do_syscall_64 entry_SYSCALL_64_after_hwframe"), None);
    }

    #[test]
    fn a_lock_is_told_by_who_takes_it() {
        assert!(Reason::is_lock_taker("vm_mmap_pgoff") && Reason::is_lock_taker("__vm_munmap"));
        let of = |names: &str| Reason::kernel_lock(names.split(' '));
        assert_eq!(
            of("rwsem_down_write_slowpath __vm_munmap do_syscall_64"),
            Some((ADDRESS_SPACE, "munmap"))
        );
        assert_eq!(of("pipe_write vfs_write"), None);
        assert!(!Reason::is_lock_taker("folio_wait_bit_common") && !Reason::is_lock_taker("filemap_fault"));
    }

    #[test]
    fn without_kernel_names_the_system_call_does() {
        assert_eq!(Reason::of_syscall(202, true), Some(Reason::Futex));
        assert_eq!(Reason::of_syscall(202, false), Some(Reason::Socket));
        assert_eq!(
            (Reason::of_syscall(73, true), Reason::of_syscall(25, false)),
            (Some(Reason::FileLock), Some(Reason::FileLock))
        );
        assert_eq!(Reason::of_syscall(0, true), None);
    }
}
