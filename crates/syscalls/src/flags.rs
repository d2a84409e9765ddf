//! Names of the bits and values of arguments.
//!
//! Source: include/uapi of Linux 6.18 (asm-generic/fcntl.h, mman-common.h, linux/sched.h, socket.h, futex.h …).

use std::fmt::Write as _;

/// Names of an argument's values: one value under `mask`, and any number of bits.
#[derive(Debug, PartialEq, Eq)]
pub struct FlagNames {
    word: &'static str,
    /// The part of the argument that is one of `values`.
    mask: u64,
    values: &'static [(u64, &'static str)],
    bits: &'static [(u64, &'static str)],
}

const ALL: u64 = 0xffff_ffff;
const X86: bool = cfg!(target_arch = "x86_64");
/// Bits that arm64 has at other places.
const O_DIRECTORY: u64 = if X86 { 0o200_000 } else { 0o40_000 };
const O_NOFOLLOW: u64 = if X86 { 0o400_000 } else { 0o100_000 };
const O_DIRECT: u64 = if X86 { 0o40_000 } else { 0o200_000 };
const O_LARGEFILE: u64 = if X86 { 0o100_000 } else { 0o400_000 };

static NAMES: &[FlagNames] = &[
    FlagNames {
        word: "O",
        mask: 3,
        values: &[(0, "O_RDONLY"), (1, "O_WRONLY"), (2, "O_RDWR")],
        bits: &[
            (0o20_000_000 | O_DIRECTORY, "O_TMPFILE"),
            (0o4_010_000, "O_SYNC"),
            (0o100, "O_CREAT"),
            (0o200, "O_EXCL"),
            (0o400, "O_NOCTTY"),
            (0o1000, "O_TRUNC"),
            (0o2000, "O_APPEND"),
            (0o4000, "O_NONBLOCK"),
            (0o10_000, "O_DSYNC"),
            (0o20_000, "O_ASYNC"),
            (O_DIRECT, "O_DIRECT"),
            (O_LARGEFILE, "O_LARGEFILE"),
            (O_DIRECTORY, "O_DIRECTORY"),
            (O_NOFOLLOW, "O_NOFOLLOW"),
            (0o1_000_000, "O_NOATIME"),
            (0o2_000_000, "O_CLOEXEC"),
            (0o10_000_000, "O_PATH"),
        ],
    },
    FlagNames {
        word: "fdflags",
        mask: 0,
        values: &[],
        bits: &[(1, "SEMAPHORE"), (0o4000, "O_NONBLOCK"), (O_DIRECT, "O_DIRECT"), (0o2_000_000, "O_CLOEXEC")],
    },
    FlagNames {
        word: "prot",
        mask: 0,
        values: &[],
        bits: &[
            (1, "PROT_READ"),
            (2, "PROT_WRITE"),
            (4, "PROT_EXEC"),
            (0x0100_0000, "PROT_GROWSDOWN"),
            (0x0200_0000, "PROT_GROWSUP"),
        ],
    },
    FlagNames {
        word: "mapflags",
        mask: 0xf,
        values: &[(0, "0"), (1, "MAP_SHARED"), (2, "MAP_PRIVATE"), (3, "MAP_SHARED_VALIDATE")],
        bits: &[
            (0x10, "MAP_FIXED"),
            (0x20, "MAP_ANONYMOUS"),
            (0x40, "MAP_32BIT"),
            (0x100, "MAP_GROWSDOWN"),
            (0x800, "MAP_DENYWRITE"),
            (0x1000, "MAP_EXECUTABLE"),
            (0x2000, "MAP_LOCKED"),
            (0x4000, "MAP_NORESERVE"),
            (0x8000, "MAP_POPULATE"),
            (0x10000, "MAP_NONBLOCK"),
            (0x20000, "MAP_STACK"),
            (0x40000, "MAP_HUGETLB"),
            (0x100_000, "MAP_FIXED_NOREPLACE"),
        ],
    },
    FlagNames {
        word: "atflags",
        mask: 0,
        values: &[],
        bits: &[
            (0x100, "AT_SYMLINK_NOFOLLOW"),
            (0x200, "AT_REMOVEDIR"),
            (0x400, "AT_SYMLINK_FOLLOW"),
            (0x800, "AT_NO_AUTOMOUNT"),
            (0x1000, "AT_EMPTY_PATH"),
            (0x2000, "AT_STATX_FORCE_SYNC"),
            (0x4000, "AT_STATX_DONT_SYNC"),
        ],
    },
    FlagNames {
        word: "access",
        mask: ALL,
        values: &[(0, "F_OK")],
        bits: &[(4, "R_OK"), (2, "W_OK"), (1, "X_OK")],
    },
    FlagNames {
        word: "clone",
        mask: 0xff,
        values: &[(0, ""), (17, "SIGCHLD")],
        bits: &[
            (0x80, "CLONE_NEWTIME"),
            (0x100, "CLONE_VM"),
            (0x200, "CLONE_FS"),
            (0x400, "CLONE_FILES"),
            (0x800, "CLONE_SIGHAND"),
            (0x1000, "CLONE_PIDFD"),
            (0x2000, "CLONE_PTRACE"),
            (0x4000, "CLONE_VFORK"),
            (0x8000, "CLONE_PARENT"),
            (0x10000, "CLONE_THREAD"),
            (0x20000, "CLONE_NEWNS"),
            (0x40000, "CLONE_SYSVSEM"),
            (0x80000, "CLONE_SETTLS"),
            (0x100_000, "CLONE_PARENT_SETTID"),
            (0x200_000, "CLONE_CHILD_CLEARTID"),
            (0x400_000, "CLONE_DETACHED"),
            (0x800_000, "CLONE_UNTRACED"),
            (0x100_0000, "CLONE_CHILD_SETTID"),
            (0x200_0000, "CLONE_NEWCGROUP"),
            (0x400_0000, "CLONE_NEWUTS"),
            (0x800_0000, "CLONE_NEWIPC"),
            (0x1000_0000, "CLONE_NEWUSER"),
            (0x2000_0000, "CLONE_NEWPID"),
            (0x4000_0000, "CLONE_NEWNET"),
            (0x8000_0000, "CLONE_IO"),
        ],
    },
    FlagNames {
        word: "wait",
        mask: 0,
        values: &[],
        bits: &[
            (1, "WNOHANG"),
            (2, "WUNTRACED"),
            (4, "WEXITED"),
            (8, "WCONTINUED"),
            (0x0100_0000, "WNOWAIT"),
            (0x2000_0000, "__WNOTHREAD"),
            (0x4000_0000, "__WALL"),
            (0x8000_0000, "__WCLONE"),
        ],
    },
    FlagNames {
        word: "seek",
        mask: ALL,
        values: &[(0, "SEEK_SET"), (1, "SEEK_CUR"), (2, "SEEK_END"), (3, "SEEK_DATA"), (4, "SEEK_HOLE")],
        bits: &[],
    },
    FlagNames {
        word: "fcntl",
        mask: ALL,
        values: &[
            (0, "F_DUPFD"),
            (1, "F_GETFD"),
            (2, "F_SETFD"),
            (3, "F_GETFL"),
            (4, "F_SETFL"),
            (5, "F_GETLK"),
            (6, "F_SETLK"),
            (7, "F_SETLKW"),
            (8, "F_SETOWN"),
            (9, "F_GETOWN"),
            (10, "F_SETSIG"),
            (11, "F_GETSIG"),
            (36, "F_OFD_GETLK"),
            (37, "F_OFD_SETLK"),
            (38, "F_OFD_SETLKW"),
            (1024, "F_SETLEASE"),
            (1025, "F_GETLEASE"),
            (1026, "F_NOTIFY"),
            (1030, "F_DUPFD_CLOEXEC"),
            (1031, "F_SETPIPE_SZ"),
            (1032, "F_GETPIPE_SZ"),
            (1033, "F_ADD_SEALS"),
            (1034, "F_GET_SEALS"),
        ],
        bits: &[],
    },
    FlagNames {
        word: "futex",
        mask: 0x7f,
        values: &[
            (0, "FUTEX_WAIT"),
            (1, "FUTEX_WAKE"),
            (2, "FUTEX_FD"),
            (3, "FUTEX_REQUEUE"),
            (4, "FUTEX_CMP_REQUEUE"),
            (5, "FUTEX_WAKE_OP"),
            (6, "FUTEX_LOCK_PI"),
            (7, "FUTEX_UNLOCK_PI"),
            (8, "FUTEX_TRYLOCK_PI"),
            (9, "FUTEX_WAIT_BITSET"),
            (10, "FUTEX_WAKE_BITSET"),
            (11, "FUTEX_WAIT_REQUEUE_PI"),
            (12, "FUTEX_CMP_REQUEUE_PI"),
            (13, "FUTEX_LOCK_PI2"),
        ],
        bits: &[(0x80, "FUTEX_PRIVATE_FLAG"), (0x100, "FUTEX_CLOCK_REALTIME")],
    },
    FlagNames {
        word: "ioctl",
        mask: ALL,
        values: &[
            (0x5401, "TCGETS"),
            (0x5402, "TCSETS"),
            (0x5403, "TCSETSW"),
            (0x5404, "TCSETSF"),
            (0x540e, "TIOCSCTTY"),
            (0x540f, "TIOCGPGRP"),
            (0x5410, "TIOCSPGRP"),
            (0x5413, "TIOCGWINSZ"),
            (0x5414, "TIOCSWINSZ"),
            (0x541b, "FIONREAD"),
            (0x5421, "FIONBIO"),
            (0x5450, "FIONCLEX"),
            (0x5451, "FIOCLEX"),
            (0x5452, "FIOASYNC"),
            (0x8004_5430, "TIOCGPTN"),
            (0x4004_5431, "TIOCSPTLCK"),
            (0x4004_9409, "FICLONE"),
            (0xc020_660b, "FS_IOC_FIEMAP"),
            (0x8008_6601, "FS_IOC_GETFLAGS"),
            (0x8008_1272, "BLKGETSIZE64"),
            (0x2400, "PERF_EVENT_IOC_ENABLE"),
            (0x2401, "PERF_EVENT_IOC_DISABLE"),
            (0x2403, "PERF_EVENT_IOC_RESET"),
            (0xae80, "KVM_RUN"),
        ],
        bits: &[],
    },
    FlagNames {
        word: "sol",
        mask: ALL,
        values: &[
            (0, "SOL_IP"),
            (1, "SOL_SOCKET"),
            (6, "SOL_TCP"),
            (17, "SOL_UDP"),
            (41, "SOL_IPV6"),
            (263, "SOL_PACKET"),
            (270, "SOL_NETLINK"),
            (282, "SOL_TLS"),
        ],
        bits: &[],
    },
    FlagNames {
        word: "rlimit",
        mask: ALL,
        values: &[
            (0, "RLIMIT_CPU"),
            (1, "RLIMIT_FSIZE"),
            (2, "RLIMIT_DATA"),
            (3, "RLIMIT_STACK"),
            (4, "RLIMIT_CORE"),
            (5, "RLIMIT_RSS"),
            (6, "RLIMIT_NPROC"),
            (7, "RLIMIT_NOFILE"),
            (8, "RLIMIT_MEMLOCK"),
            (9, "RLIMIT_AS"),
            (10, "RLIMIT_LOCKS"),
            (11, "RLIMIT_SIGPENDING"),
            (12, "RLIMIT_MSGQUEUE"),
            (13, "RLIMIT_NICE"),
            (14, "RLIMIT_RTPRIO"),
            (15, "RLIMIT_RTTIME"),
        ],
        bits: &[],
    },
    FlagNames {
        word: "archprctl",
        mask: ALL,
        values: &[
            (0x1001, "ARCH_SET_GS"),
            (0x1002, "ARCH_SET_FS"),
            (0x1003, "ARCH_GET_FS"),
            (0x1004, "ARCH_GET_GS"),
            (0x1011, "ARCH_GET_CPUID"),
            (0x1012, "ARCH_SET_CPUID"),
            (0x5001, "ARCH_SHSTK_ENABLE"),
            (0x5002, "ARCH_SHSTK_DISABLE"),
        ],
        bits: &[],
    },
    FlagNames {
        word: "advice",
        mask: ALL,
        values: &[
            (0, "POSIX_FADV_NORMAL"),
            (1, "POSIX_FADV_RANDOM"),
            (2, "POSIX_FADV_SEQUENTIAL"),
            (3, "POSIX_FADV_WILLNEED"),
            (4, "POSIX_FADV_DONTNEED"),
            (5, "POSIX_FADV_NOREUSE"),
        ],
        bits: &[],
    },
    FlagNames {
        word: "random",
        mask: 0,
        values: &[],
        bits: &[(1, "GRND_NONBLOCK"), (2, "GRND_RANDOM"), (4, "GRND_INSECURE")],
    },
    FlagNames {
        word: "family",
        mask: ALL,
        values: &[
            (0, "AF_UNSPEC"),
            (1, "AF_UNIX"),
            (2, "AF_INET"),
            (10, "AF_INET6"),
            (16, "AF_NETLINK"),
            (17, "AF_PACKET"),
            (40, "AF_VSOCK"),
        ],
        bits: &[],
    },
    FlagNames {
        word: "socktype",
        mask: 0xf,
        values: &[
            (0, ""),
            (1, "SOCK_STREAM"),
            (2, "SOCK_DGRAM"),
            (3, "SOCK_RAW"),
            (4, "SOCK_RDM"),
            (5, "SOCK_SEQPACKET"),
        ],
        bits: &[(0o4000, "SOCK_NONBLOCK"), (0o2_000_000, "SOCK_CLOEXEC")],
    },
    FlagNames {
        word: "msgflags",
        mask: 0,
        values: &[],
        bits: &[
            (1, "MSG_OOB"),
            (2, "MSG_PEEK"),
            (4, "MSG_DONTROUTE"),
            (8, "MSG_CTRUNC"),
            (0x20, "MSG_TRUNC"),
            (0x40, "MSG_DONTWAIT"),
            (0x80, "MSG_EOR"),
            (0x100, "MSG_WAITALL"),
            (0x800, "MSG_CONFIRM"),
            (0x2000, "MSG_ERRQUEUE"),
            (0x4000, "MSG_NOSIGNAL"),
            (0x8000, "MSG_MORE"),
            (0x10000, "MSG_WAITFORONE"),
            (0x400_0000, "MSG_ZEROCOPY"),
            (0x2000_0000, "MSG_FASTOPEN"),
            (0x4000_0000, "MSG_CMSG_CLOEXEC"),
        ],
    },
    FlagNames {
        word: "epollop",
        mask: ALL,
        values: &[(1, "EPOLL_CTL_ADD"), (2, "EPOLL_CTL_DEL"), (3, "EPOLL_CTL_MOD")],
        bits: &[],
    },
    FlagNames { word: "epollbits", mask: 0, values: &[], bits: POLL_BITS },
    FlagNames {
        word: "clock",
        mask: ALL,
        values: &[
            (0, "CLOCK_REALTIME"),
            (1, "CLOCK_MONOTONIC"),
            (2, "CLOCK_PROCESS_CPUTIME_ID"),
            (3, "CLOCK_THREAD_CPUTIME_ID"),
            (4, "CLOCK_MONOTONIC_RAW"),
            (5, "CLOCK_REALTIME_COARSE"),
            (6, "CLOCK_MONOTONIC_COARSE"),
            (7, "CLOCK_BOOTTIME"),
            (8, "CLOCK_REALTIME_ALARM"),
            (9, "CLOCK_BOOTTIME_ALARM"),
            (11, "CLOCK_TAI"),
        ],
        bits: &[],
    },
    FlagNames {
        word: "madvice",
        mask: ALL,
        values: &[
            (0, "MADV_NORMAL"),
            (1, "MADV_RANDOM"),
            (2, "MADV_SEQUENTIAL"),
            (3, "MADV_WILLNEED"),
            (4, "MADV_DONTNEED"),
            (8, "MADV_FREE"),
            (9, "MADV_REMOVE"),
            (10, "MADV_DONTFORK"),
            (11, "MADV_DOFORK"),
            (12, "MADV_MERGEABLE"),
            (14, "MADV_HUGEPAGE"),
            (15, "MADV_NOHUGEPAGE"),
            (16, "MADV_DONTDUMP"),
            (17, "MADV_DODUMP"),
            (18, "MADV_WIPEONFORK"),
            (20, "MADV_COLD"),
            (21, "MADV_PAGEOUT"),
            (22, "MADV_POPULATE_READ"),
            (23, "MADV_POPULATE_WRITE"),
            (25, "MADV_COLLAPSE"),
        ],
        bits: &[],
    },
    FlagNames {
        word: "sighow",
        mask: ALL,
        values: &[(0, "SIG_BLOCK"), (1, "SIG_UNBLOCK"), (2, "SIG_SETMASK")],
        bits: &[],
    },
    FlagNames {
        word: "lock",
        mask: 0xb,
        values: &[(1, "LOCK_SH"), (2, "LOCK_EX"), (8, "LOCK_UN")],
        bits: &[(4, "LOCK_NB")],
    },
    FlagNames {
        word: "prctl",
        mask: ALL,
        values: &[
            (1, "PR_SET_PDEATHSIG"),
            (3, "PR_GET_DUMPABLE"),
            (4, "PR_SET_DUMPABLE"),
            (8, "PR_SET_KEEPCAPS"),
            (15, "PR_SET_NAME"),
            (16, "PR_GET_NAME"),
            (21, "PR_GET_SECCOMP"),
            (22, "PR_SET_SECCOMP"),
            (23, "PR_CAPBSET_READ"),
            (24, "PR_CAPBSET_DROP"),
            (36, "PR_SET_CHILD_SUBREAPER"),
            (38, "PR_SET_NO_NEW_PRIVS"),
            (39, "PR_GET_NO_NEW_PRIVS"),
            (47, "PR_CAP_AMBIENT"),
            (0x5356_4d41, "PR_SET_VMA"),
        ],
        bits: &[],
    },
    FlagNames {
        word: "sig",
        mask: ALL,
        values: &[
            (0, "0"),
            (1, "SIGHUP"),
            (2, "SIGINT"),
            (3, "SIGQUIT"),
            (4, "SIGILL"),
            (5, "SIGTRAP"),
            (6, "SIGABRT"),
            (7, "SIGBUS"),
            (8, "SIGFPE"),
            (9, "SIGKILL"),
            (10, "SIGUSR1"),
            (11, "SIGSEGV"),
            (12, "SIGUSR2"),
            (13, "SIGPIPE"),
            (14, "SIGALRM"),
            (15, "SIGTERM"),
            (16, "SIGSTKFLT"),
            (17, "SIGCHLD"),
            (18, "SIGCONT"),
            (19, "SIGSTOP"),
            (20, "SIGTSTP"),
            (21, "SIGTTIN"),
            (22, "SIGTTOU"),
            (23, "SIGURG"),
            (24, "SIGXCPU"),
            (25, "SIGXFSZ"),
            (26, "SIGVTALRM"),
            (27, "SIGPROF"),
            (28, "SIGWINCH"),
            (29, "SIGIO"),
            (30, "SIGPWR"),
            (31, "SIGSYS"),
        ],
        bits: &[],
    },
];

/// Events of `poll` and `epoll`.
const POLL_BITS: &[(u64, &str)] = &[
    (1, "IN"),
    (2, "PRI"),
    (4, "OUT"),
    (8, "ERR"),
    (0x10, "HUP"),
    (0x20, "NVAL"),
    (0x40, "RDNORM"),
    (0x80, "RDBAND"),
    (0x100, "WRNORM"),
    (0x200, "WRBAND"),
    (0x2000, "RDHUP"),
    (1 << 28, "EXCLUSIVE"),
    (1 << 29, "WAKEUP"),
    (1 << 30, "ONESHOT"),
    (1 << 31, "ET"),
];

/// The names of this word of the table.
#[must_use]
pub fn find(word: &str) -> Option<&'static FlagNames> {
    NAMES.iter().find(|names| names.word == word)
}

impl FlagNames {
    /// Appends the names of `value`, joined by `|`; bits without a name in hexadecimal.
    pub fn write(&self, value: u64, to: &mut String) {
        let value = value & ALL;
        let start = to.len();
        let mut rest = value;
        if let Some((part, name)) = self.values.iter().find(|(part, _)| *part == value & self.mask) {
            rest &= !(self.mask & *part);
            to.push_str(name);
            if self.mask == ALL {
                return;
            }
            // Where nothing but the default is set there is nothing to join.
            if *name == "0" && rest != 0 {
                to.truncate(start);
            }
        }
        for (bits, name) in self.bits.iter().filter(|(bits, _)| *bits != 0) {
            if rest & bits == *bits {
                rest &= !bits;
                join(to, start);
                to.push_str(name);
            }
        }
        if rest != 0 {
            join(to, start);
            let _ = write!(to, "{rest:#x}");
        } else if to.len() == start {
            to.push('0');
        }
    }
}

fn join(to: &mut String, start: usize) {
    if to.len() > start {
        to.push('|');
    }
}

/// Appends events of `poll`.
pub fn write_poll_events(value: u64, to: &mut String) {
    if let Some(names) = find("epollbits") {
        names.write(value, to);
    }
}

/// Appends the name of a signal.
pub fn write_signal(number: u64, to: &mut String) {
    if number >= 32 {
        let _ = write!(to, "SIGRT_{}", number - 32);
    } else if let Some(names) = find("sig") {
        names.write(number, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(word: &str, value: u64) -> String {
        let mut text = String::new();
        find(word).expect("known").write(value, &mut text);
        text
    }

    #[test]
    fn bits_are_joined_and_unknown_ones_are_in_hexadecimal() {
        assert_eq!(written("O", 0o2_000_000), "O_RDONLY|O_CLOEXEC");
        assert_eq!(written("O", 0o1101), "O_WRONLY|O_CREAT|O_TRUNC");
        assert_eq!(written("prot", 0), "0");
        assert_eq!(written("prot", 5), "PROT_READ|PROT_EXEC");
        assert_eq!(written("mapflags", 0x22), "MAP_PRIVATE|MAP_ANONYMOUS");
        assert_eq!(written("mapflags", 0x1000_0002), "MAP_PRIVATE|0x10000000");
        assert_eq!(written("access", 0), "F_OK");
        assert_eq!(written("access", 4), "R_OK");
        assert_eq!(written("futex", 0x80), "FUTEX_WAIT|FUTEX_PRIVATE_FLAG");
        assert_eq!(written("seek", 77), "0x4d");
        assert_eq!(written("clone", 0x120_0011), "SIGCHLD|CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID");
        assert_eq!(written("sig", 9), "SIGKILL");
        assert_eq!(written("ioctl", 0x5413), "TIOCGWINSZ");
        assert_eq!(written("ioctl", 0x1_2345), "0x12345");
        assert_eq!(written("rlimit", 7), "RLIMIT_NOFILE");
        assert_eq!(written("random", 3), "GRND_NONBLOCK|GRND_RANDOM");
    }
}
