//! Why a thread waited: read off the names of its kernel frames, else off its system call.
//!
//! One table of function-name prefixes, asked frame by frame from the leaf: the innermost frame that means
//! something decides, except that `fsync`, page faults and reclaim further out rename a disk wait.

/// Why a thread waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WaitReason {
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

impl WaitReason {
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
const FUNCTIONS: &[(&str, WaitReason)] = &[
    ("futex_", WaitReason::Futex),
    ("__futex_", WaitReason::Futex),
    ("do_futex", WaitReason::Futex),
    ("ep_poll", WaitReason::Poll),
    ("do_epoll_", WaitReason::Poll),
    ("do_poll", WaitReason::Poll),
    ("do_sys_poll", WaitReason::Poll),
    ("poll_schedule", WaitReason::Poll),
    ("do_select", WaitReason::Poll),
    ("core_sys_select", WaitReason::Poll),
    ("eventfd_", WaitReason::Poll),
    ("signalfd_", WaitReason::Signal),
    ("timerfd_", WaitReason::Timer),
    ("inotify_", WaitReason::Poll),
    ("pipe_", WaitReason::Pipe),
    ("anon_pipe_", WaitReason::Pipe),
    ("fifo_", WaitReason::Pipe),
    ("wait_for_partner", WaitReason::Pipe),
    ("splice_from_pipe", WaitReason::Pipe),
    ("unix_", WaitReason::Socket),
    ("sk_wait", WaitReason::Socket),
    ("sk_stream_wait", WaitReason::Socket),
    ("inet_csk_", WaitReason::Socket),
    ("inet_", WaitReason::Socket),
    ("tcp_", WaitReason::Socket),
    ("udp_", WaitReason::Socket),
    ("__skb_", WaitReason::Socket),
    ("skb_wait", WaitReason::Socket),
    ("sock_", WaitReason::Socket),
    ("netlink_", WaitReason::Socket),
    ("vsock_", WaitReason::Socket),
    ("packet_recvmsg", WaitReason::Socket),
    ("do_nanosleep", WaitReason::Timer),
    ("hrtimer_nanosleep", WaitReason::Timer),
    ("common_nsleep", WaitReason::Timer),
    ("msleep", WaitReason::Timer),
    ("usleep_range", WaitReason::Timer),
    ("do_wait", WaitReason::Child),
    ("kernel_wait", WaitReason::Child),
    ("__do_sys_wait", WaitReason::Child),
    // A parent sleeps uninterruptibly until the child of its vfork() has its own memory.
    ("wait_for_vfork_done", WaitReason::Child),
    ("kernel_clone", WaitReason::Child),
    ("__do_sys_vfork", WaitReason::Child),
    ("locks_lock_inode", WaitReason::FileLock),
    ("flock_lock_inode", WaitReason::FileLock),
    ("posix_lock_inode", WaitReason::FileLock),
    ("do_lock_file_wait", WaitReason::FileLock),
    ("fcntl_setlk", WaitReason::FileLock),
    ("__do_sys_flock", WaitReason::FileLock),
    ("__break_lease", WaitReason::FileLock),
    ("nlmclnt_", WaitReason::FileLock),
    ("rwsem_down_", WaitReason::KernelLock),
    ("down_read", WaitReason::KernelLock),
    ("down_write", WaitReason::KernelLock),
    ("__mutex_lock", WaitReason::KernelLock),
    ("mutex_lock", WaitReason::KernelLock),
    ("rt_mutex_", WaitReason::KernelLock),
    ("__down", WaitReason::KernelLock),
    ("percpu_rwsem_", WaitReason::KernelLock),
    ("__percpu_down", WaitReason::KernelLock),
    ("synchronize_rcu", WaitReason::KernelLock),
    ("__wait_rcu_gp", WaitReason::KernelLock),
    ("throttle_direct_reclaim", WaitReason::Memory),
    ("balance_dirty_pages", WaitReason::Memory),
    ("mem_cgroup_", WaitReason::Memory),
    ("try_to_free_", WaitReason::Memory),
    ("shrink_", WaitReason::Memory),
    ("reclaim_throttle", WaitReason::Memory),
    ("io_schedule", WaitReason::Disk),
    ("folio_wait_", WaitReason::Disk),
    ("wait_on_page_", WaitReason::Disk),
    ("wait_on_folio", WaitReason::Disk),
    ("bit_wait_io", WaitReason::Disk),
    ("out_of_line_wait_on_bit", WaitReason::Disk),
    ("__wait_on_buffer", WaitReason::Disk),
    ("blk_", WaitReason::Disk),
    ("__blk", WaitReason::Disk),
    ("blkdev_", WaitReason::Disk),
    ("submit_bio_wait", WaitReason::Disk),
    ("iomap_dio", WaitReason::Disk),
    ("__iomap_dio", WaitReason::Disk),
    ("dio_", WaitReason::Disk),
    ("do_blockdev_direct", WaitReason::Disk),
    ("jbd2_", WaitReason::Disk),
    ("wbt_wait", WaitReason::Disk),
    ("rq_qos_", WaitReason::Disk),
    ("xlog_", WaitReason::Disk),
    ("xfs_log_", WaitReason::Disk),
    ("btrfs_wait_", WaitReason::Disk),
    ("nfs_wait_", WaitReason::Disk),
    ("rpc_wait_", WaitReason::Disk),
    ("request_wait_answer", WaitReason::Disk),
    ("fuse_", WaitReason::Disk),
    ("vfs_fsync", WaitReason::Fsync),
    ("n_tty_", WaitReason::Tty),
    ("tty_", WaitReason::Tty),
    ("wait_until_sent", WaitReason::Tty),
    ("io_cqring_", WaitReason::Aio),
    ("read_events", WaitReason::Aio),
    ("io_uring_", WaitReason::Aio),
    ("do_sigtimedwait", WaitReason::Signal),
    ("sigsuspend", WaitReason::Signal),
    ("__do_sys_pause", WaitReason::Signal),
    ("__x64_sys_pause", WaitReason::Signal),
    ("do_semtimedop", WaitReason::Ipc),
    ("__do_semtimedop", WaitReason::Ipc),
    ("do_msgrcv", WaitReason::Ipc),
    ("do_msgsnd", WaitReason::Ipc),
    ("wq_sleep", WaitReason::Ipc),
    ("do_mq_", WaitReason::Ipc),
    ("do_signal_stop", WaitReason::Stopped),
    ("ptrace_stop", WaitReason::Stopped),
    ("do_jobctl", WaitReason::Stopped),
    ("handle_userfault", WaitReason::PageFault),
    ("do_swap_page", WaitReason::PageFault),
    ("__lock_page_or_retry", WaitReason::PageFault),
    ("__folio_lock", WaitReason::Disk),
    ("migration_entry_wait", WaitReason::Memory),
    ("worker_thread", WaitReason::KernelThread),
    ("rescuer_thread", WaitReason::KernelThread),
    ("kthreadd", WaitReason::KernelThread),
    ("smpboot_thread_fn", WaitReason::KernelThread),
    ("rcu_", WaitReason::KernelThread),
    ("kswapd", WaitReason::KernelThread),
    ("kthread_worker_fn", WaitReason::KernelThread),
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
const OUTER_FUNCTIONS: &[(&str, WaitReason)] = &[
    // A futex with priority inheritance uses a lock inside the kernel, but for the waiter it is a lock of the program.
    ("futex_lock_pi", WaitReason::Futex),
    ("futex_wait_requeue_pi", WaitReason::Futex),
    ("vfs_fsync", WaitReason::Fsync),
    ("do_fsync", WaitReason::Fsync),
    ("__x64_sys_fsync", WaitReason::Fsync),
    ("__x64_sys_fdatasync", WaitReason::Fsync),
    ("__arm64_sys_fsync", WaitReason::Fsync),
    ("ksys_sync", WaitReason::Fsync),
    ("do_sync_file_range", WaitReason::Fsync),
    ("filemap_fault", WaitReason::PageFault),
    ("do_swap_page", WaitReason::PageFault),
    ("handle_mm_fault", WaitReason::PageFault),
    ("try_to_free_", WaitReason::Memory),
    ("mem_cgroup_charge", WaitReason::Memory),
];

fn of_function(name: &str) -> Option<WaitReason> {
    by_prefix(FUNCTIONS, name)
}

fn of_outer_function(name: &str) -> Option<WaitReason> {
    by_prefix(OUTER_FUNCTIONS, name)
}

fn by_prefix(table: &[(&str, WaitReason)], name: &str) -> Option<WaitReason> {
    table.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, reason)| *reason)
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

#[cfg(test)]
mod tests {
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
    fn without_kernel_names_the_system_call_does() {
        assert_eq!(WaitReason::of_syscall(202, true), Some(WaitReason::Futex));
        assert_eq!(WaitReason::of_syscall(202, false), Some(WaitReason::Socket));
        assert_eq!(
            (WaitReason::of_syscall(73, true), WaitReason::of_syscall(25, false)),
            (Some(WaitReason::FileLock), Some(WaitReason::FileLock))
        );
        assert_eq!(WaitReason::of_syscall(0, true), None);
    }
}
