//! Sockets, and what waits for descriptors.

use super::{ALL, FlagNames};

/// Events of `poll` and `epoll`.
pub(super) const POLL_BITS: &[(u64, &str)] = &[
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

pub(super) static NAMES: &[FlagNames] = &[
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
];
