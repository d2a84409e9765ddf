//! The member of an epoll, or of a set of `poll` or `select`, that ended a wait: found by the thread that ended it.
//!
//! Its kernel stack shows the kind of the member, and its process which of those with another end. Without a stack, and
//! where the kernel delivers what came over the network in another thread, only a member that is the sole one of its
//! kind is known.

use super::named_target::NamedTarget;
use super::{interrupt_of, is_interrupt_entry, is_kernel, name_of, other_name};
use crate::off_cpu::{RelatedThread, Wait};
use crate::profile::Profile;
use perfdata::appendix::descriptors::SetMember;
use perfdata::off_cpu::flag;
use std::cell::OnceCell;

/// Kinds of members.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MemberKind {
    Signal,
    Timer,
    Event,
    Watch,
    Pipe,
    Socket,
}

/// Functions that wake up whoever waits for a member, by the beginnings of their names.
// Source: linux v6.18 kernel/signal.c, fs/timerfd.c, fs/eventfd.c, fs/notify, fs/pipe.c, net/unix/af_unix.c, net/core/sock.c
const WAKING: &[(&str, MemberKind)] = &[
    ("__send_signal", MemberKind::Signal),
    ("send_signal", MemberKind::Signal),
    ("timerfd_", MemberKind::Timer),
    ("eventfd_", MemberKind::Event),
    ("fsnotify", MemberKind::Watch),
    ("inotify_", MemberKind::Watch),
    ("pipe_", MemberKind::Pipe),
    ("anon_pipe_", MemberKind::Pipe),
    ("unix_", MemberKind::Socket),
    ("sock_def_", MemberKind::Socket),
    ("tcp_", MemberKind::Socket),
    ("udp_", MemberKind::Socket),
];

impl MemberKind {
    fn of_waker(names: &[&str]) -> Option<Self> {
        let of =
            |name: &&str| WAKING.iter().find(|(begin, _)| name.starts_with(begin)).map(|(_, kind)| *kind);
        names.iter().find_map(of)
    }

    fn is_of(self, member: &SetMember) -> bool {
        let begins: &[&str] = match self {
            Self::Signal => &["signalfd"],
            Self::Timer => &["timerfd"],
            Self::Event => &["eventfd"],
            Self::Watch => &["inotify", "fanotify"],
            Self::Pipe => &["pipe", "/"],
            Self::Socket => &["socket", "connections"],
        };
        begins.iter().any(|begin| member.name.starts_with(begin))
    }
}

/// Ending of waits that a delayed acknowledgement of TCP held back.
pub(crate) const HELD_BACK: &str = "held back until a delayed ACK";

/// The thread that ended a wait, with the kernel functions on the way, leaf first.
pub(super) struct WakeUp<'p> {
    profile: &'p Profile,
    other: RelatedThread,
    /// Length of the wait, ns.
    length_ns: u64,
    names: OnceCell<Vec<&'p str>>,
}

impl<'p> WakeUp<'p> {
    /// `None` if it isn't known, or the wait had not ended.
    pub fn of(profile: &'p Profile, wait: &Wait) -> Option<Self> {
        let other = wait.other.filter(|_| wait.flags & flag::OPEN_RIGHT == 0)?;
        Some(Self { profile, other, length_ns: wait.length_ns, names: OnceCell::new() })
    }

    /// The process that wrote to a socket or pipe, or closed it: `socket with nginx 7`. `None` if that is `own`, the
    /// kernel, or not known.
    pub fn peer(&self, own: u32) -> Option<String> {
        let kind = match MemberKind::of_waker(self.names())? {
            MemberKind::Socket => "socket",
            MemberKind::Pipe => "pipe",
            _ => return None,
        };
        let Self { profile, other, .. } = *self;
        let name = other_name(profile, other);
        let is_kernel = other.tid == 0 || interrupt_of(profile, other).is_some() || is_deliverer(&name);
        (other.pid != own && !is_kernel && !name.is_empty()).then(|| format!("{kind} with {name}"))
    }

    fn names(&self) -> &[&'p str] {
        self.names.get_or_init(|| kernel_names(self.profile, self.other).collect())
    }
}

/// True for a thread of the kernel that delivers what came over the network.
pub(crate) fn is_deliverer(name: &str) -> bool {
    const DELIVERERS: [&str; 4] = ["ksoftirqd", "kworker", "swapper", "irq"];
    DELIVERERS.iter().any(|begin| name.starts_with(begin))
}

/// Name of the member; `None` if it isn't known.
pub(super) fn ready_member(wake_up: &WakeUp<'_>, members: &[&SetMember]) -> Option<String> {
    let WakeUp { profile, other, .. } = *wake_up;
    let kind = MemberKind::of_waker(wake_up.names());
    let is_interrupt = interrupt_of(profile, other).is_some();
    let waker = Waker { pid: other.pid, is_interrupt };
    let member = member_of(members, kind, waker)?;
    // Who wrote to it isn't in the name of these.
    let by = if is_interrupt { String::new() } else { other_name(profile, other) };
    Some(match kind {
        _ if by.is_empty() => member.to_owned(),
        Some(MemberKind::Signal) => format!("signal from {by}"),
        Some(MemberKind::Event) => format!("eventfd from {by}"),
        _ => member.to_owned(),
    })
}

/// True if a wait for a socket ended when a timer of TCP ran out at one of the two ends on this machine: mostly that of a
/// delayed acknowledgement, for which the sender kept what it had to send next (Nagle's algorithm).
///
/// Between two sockets of one machine, the sender itself delivers. Only what a timer sends is delivered after the timer's
/// interrupt, or later: after another interrupt, by the thread that handles what they left, or by any process that the
/// interrupt hit while it sent something. These also deliver for senders that have too much to do: such waits count only if
/// they are as long as the delay. The same is true where an idle CPU was interrupted, whose stack isn't always recorded.
fn is_held_back(wake_up: &WakeUp<'_>, socket: &str) -> bool {
    // Source: linux v6.18 include/net/tcp.h, TCP_DELACK_MIN: 40 ms; timers come up to some jiffies later
    const DELAY_NS: std::ops::RangeInclusive<u64> = 34_000_000..=60_000_000;
    let has = |begin: &str| wake_up.names().iter().any(|name| name.starts_with(begin));
    let interrupt = interrupt_of(wake_up.profile, wake_up.other);
    let is_later =
        || interrupt.is_some() || has("run_ksoftirqd") || is_stranger_to(socket, wake_up.other.pid);
    let is_delay = || DELAY_NS.contains(&wake_up.length_ns) && is_later();
    if wake_up.other.tid == 0 && wake_up.names().is_empty() {
        return is_stranger_to(socket, 0) && is_delay();
    }
    has("tcp_") && has("process_backlog") && (interrupt.as_deref() == Some("irq:timer") || is_delay())
}

/// True if the process at a socket's other end is known, and is another one: `socket 80 from 127.0.0.1 (curl 5)`.
fn is_stranger_to(socket: &str, pid: u32) -> bool {
    let end = socket.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map(|(end, _)| end);
    let peer = end.and_then(|end| end.rsplit(' ').next()?.parse::<u32>().ok());
    socket.starts_with("socket ") && peer.is_some_and(|peer| peer != pid)
}

/// How a wait for `target` ended other than by its descriptor: a phrase after the descriptor's name.
pub(super) fn ending(wake_up: &WakeUp<'_>, target: &NamedTarget<'_>) -> Option<String> {
    if is_held_back(wake_up, target.set_name()) {
        return Some(HELD_BACK.to_owned());
    }
    // The member of the set that ended it is known.
    let is_ready = matches!(target, NamedTarget::Ready(..));
    let kind = MemberKind::of_waker(wake_up.names());
    let name = other_name(wake_up.profile, wake_up.other);
    let is_signal = kind == Some(MemberKind::Signal) && !is_ready;
    (is_signal && !name.is_empty() && !name.starts_with("irq")).then(|| format!("until a signal from {name}"))
}

/// Kernel functions of a waker, leaf first.
fn kernel_names(profile: &Profile, other: RelatedThread) -> impl Iterator<Item = &str> {
    let frames = other.callsite.into_iter().flat_map(|callsite| profile.callsites.leaf_first(callsite));
    let names = frames.filter(|&frame| is_kernel(profile, frame)).filter_map(|frame| name_of(profile, frame));
    without_interrupted(names)
}

/// Functions down to the entry of the interrupt: what it interrupted, such as the delivery of a packet, woke nobody.
fn without_interrupted<'n>(names: impl Iterator<Item = &'n str>) -> impl Iterator<Item = &'n str> {
    let mut entered = false;
    names.take_while(move |name| {
        let is_inside = !entered;
        entered |= is_interrupt_entry(name);
        is_inside
    })
}

#[derive(Clone, Copy)]
struct Waker {
    pid: u32,
    is_interrupt: bool,
}

/// The only name among the members that the waker may have made ready.
fn member_of<'m>(members: &[&'m SetMember], kind: Option<MemberKind>, waker: Waker) -> Option<&'m str> {
    let of_kind = || members.iter().filter(|member| kind.is_none_or(|kind| kind.is_of(member)));
    let is_waker_s = |member: &&&SetMember| !waker.is_interrupt && member.pids.contains(&waker.pid);
    let name = of_kind().find(is_waker_s).map(|member| member.name.as_str());
    let is_only = |name: &str| of_kind().filter(is_waker_s).all(|member| member.name == name);
    if let Some(name) = name.filter(|name| is_only(name)) {
        return Some(name);
    }
    kind?;
    let first = of_kind().next()?.name.as_str();
    // By a process that isn't known to have any.
    (name.is_none() && of_kind().all(|member| member.name == first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_member_is_the_one_that_the_waker_has_the_other_end_of() {
        let member = |name: &str, pids: &[u32]| SetMember { name: name.to_owned(), pids: pids.to_vec() };
        let all = [
            member("socket 80 from a (curl 5)", &[5]),
            member("socket to b:81 (python3 6)", &[6]),
            member("pipe from sh 6", &[6]),
            member("signalfd", &[]),
        ];
        let members: Vec<&SetMember> = all.iter().collect();
        let by = |pid| Waker { pid, is_interrupt: false };
        let socket = Some(MemberKind::Socket);
        assert_eq!(member_of(&members, socket, by(5)), Some("socket 80 from a (curl 5)"));
        assert_eq!(member_of(&members, socket, by(6)), Some("socket to b:81 (python3 6)"));
        assert_eq!(member_of(&members, None, by(5)), Some("socket 80 from a (curl 5)"));
        // Two of its descriptors, a process without any, and an interrupt that hit one of them.
        assert_eq!(member_of(&members, None, by(6)), None);
        assert_eq!(member_of(&members, socket, by(9)), None);
        assert_eq!(member_of(&members, socket, Waker { pid: 5, is_interrupt: true }), None);
        assert_eq!(member_of(&members, Some(MemberKind::Signal), by(9)), Some("signalfd"));
        assert_eq!(member_of(&members, Some(MemberKind::Timer), by(9)), None);
    }

    #[test]
    fn a_process_that_has_no_end_of_a_socket_is_a_stranger_to_it() {
        let socket = "socket 80 from 127.0.0.1 (my (odd) name 5)";
        assert!(!is_stranger_to("socket 80 from 127.0.0.1 (curl 5)", 5));
        assert!(is_stranger_to("socket 80 from 127.0.0.1 (curl 5)", 6));
        // Nothing is known of the other end.
        assert!(!is_stranger_to("socket 80 from 10.0.0.7", 6) && !is_stranger_to("pipe from (sh 7)", 6));
        assert!(!is_stranger_to(socket, 5));
    }

    #[test]
    fn a_timer_that_interrupts_the_delivery_of_a_packet_is_a_timer() {
        let of = |names: &[&'static str]| without_interrupted(names.iter().copied()).collect::<Vec<_>>();
        let timer = ["hrtimer_wakeup", "asm_sysvec_apic_timer_interrupt", "tcp_v4_rcv", "process_backlog"];
        assert_eq!(of(&timer), timer[..2]);
        let packet =
            ["sock_def_readable", "tcp_v4_rcv", "process_backlog", "asm_sysvec_apic_timer_interrupt"];
        assert_eq!(of(&packet), packet);
    }

    #[test]
    fn the_kind_is_that_of_the_innermost_function_that_wakes() {
        let unix = ["ep_poll_callback", "__wake_up_common", "sock_def_readable", "unix_stream_sendmsg"];
        assert!(MemberKind::of_waker(&unix) == Some(MemberKind::Socket));
        let signal = ["ep_poll_callback", "__wake_up", "__send_signal_locked", "do_send_sig_info"];
        assert!(MemberKind::of_waker(&signal) == Some(MemberKind::Signal));
        assert!(MemberKind::of_waker(&["try_to_wake_up", "hrtimer_wakeup"]).is_none());
    }
}
