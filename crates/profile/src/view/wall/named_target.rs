//! Target of a wait: a file, a socket with its peer, a pipe with its other end, a child.

use super::ready_member::{WakeUp, ending, is_deliverer, ready_member};
use super::requested_file::requested_file;
use super::{Part, other_name};
use crate::off_cpu::{Wait, WaitReason};
use crate::profile::Profile;
use perfdata::appendix::descriptors::{CallOfWait, PAGE_FAULT};
use perfdata::off_cpu::flag;
use std::borrow::Cow;

/// Text of [`NamedTarget::Closed`].
pub(crate) const CLOSED: &str = "something that was closed before it was looked at";

/// Text of [`NamedTarget::Denied`].
pub(crate) const DENIED: &str = "something of a process that the recording user may not look at";

/// Target of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedTarget<'p> {
    /// This.
    One(Cow<'p, str>),
    /// This and others: a sum of waits for a number that a program uses for one file after the other.
    OneOfSeveral(&'p str),
    /// The member of a set that ended the wait, and the name of the set.
    Ready(String, &'p str),
    /// A descriptor that was closed, or whose process had ended, before it was looked at.
    Closed,
    /// A descriptor of a process that the recording user may not look at.
    Denied,
}

impl<'p> NamedTarget<'p> {
    /// Target of a wait that is this part of the wall clock; `None` if it was for no descriptor and no child, or no
    /// descriptor of the recording has a name.
    #[must_use]
    pub fn of(profile: &'p Profile, wait: &Wait, part: Part) -> Option<Self> {
        let wake_up = WakeUp::of(profile, wait);
        let target = Self::of_call(profile, wait, part, wake_up.as_ref())?;
        // A child that ends sends a signal: that is the wait's usual end.
        let is_usual = waits_for(profile, wait, part, WaitReason::Child);
        let ending = wake_up.filter(|_| !is_usual).and_then(|wake_up| ending(&wake_up, &target));
        let Some(ending) = ending else {
            return Some(target.with_own_thread(profile, wait));
        };
        let text = format!("{}, {ending}", target.text());
        Some(match target {
            Self::Ready(_, set) | Self::OneOfSeveral(set) => Self::Ready(text, set),
            Self::One(Cow::Borrowed(name)) => Self::Ready(text, name),
            Self::One(Cow::Owned(_)) => Self::One(text.into()),
            Self::Closed | Self::Denied => target,
        })
    }

    /// A pipe or socket between threads of one process is named after the thread that ended the wait.
    fn with_own_thread(self, profile: &Profile, wait: &Wait) -> Self {
        let Self::One(name) = &self else { return self };
        let own = profile.task(wait.task).pid.cast_unsigned();
        let kind = name.strip_suffix("the process itself");
        let other = wait.other.filter(|other| other.pid == own && other.tid != 0);
        let Some((kind, other)) = kind.zip(other) else { return self };
        let thread = other_name(profile, other);
        if thread.is_empty() || thread.starts_with("irq") {
            return self;
        }
        Self::One(format!("{kind}thread {thread}").into())
    }

    fn of_call(profile: &'p Profile, wait: &Wait, part: Part, wake_up: Option<&WakeUp<'p>>) -> Option<Self> {
        if !matches!(part, Part::Blocked(_) | Part::Idle) {
            return None;
        }
        if waits_for(profile, wait, part, WaitReason::Child) {
            return Some(Self::One(child(profile, wait)));
        }
        let requested = requested_file(profile, wait, part).map(|(name, has_others)| {
            let is_one = !has_others || wait.stands_for() <= 1;
            if is_one { Self::One(name.into()) } else { Self::OneOfSeveral(name) }
        });
        // A folder's descriptor has a better name than the blocks that it is read from.
        if requested.as_ref().is_some_and(|target| target.set_name().starts_with('/')) {
            return requested;
        }
        match Self::of_descriptor(profile, wait, part, wake_up) {
            None | Some(Self::Closed | Self::Denied) if requested.is_some() => requested,
            found => found,
        }
    }

    /// By the descriptor of its system call, or the address of its page fault.
    fn of_descriptor(
        profile: &'p Profile,
        wait: &Wait,
        part: Part,
        wake_up: Option<&WakeUp<'p>>,
    ) -> Option<Self> {
        let names = &profile.off_cpu.descriptors;
        let call = call_of(profile, wait, part)?;
        let named = names.name_in(call, wait.begins_ns()).filter(|(name, _)| may_be(name, part));
        if call.syscall == PAGE_FAULT {
            let (name, has_others) = named.filter(|(name, _)| !name.is_empty())?;
            let is_one = !has_others || wait.stands_for() <= 1;
            return Some(if is_one { Self::One(name.into()) } else { Self::OneOfSeveral(name) });
        }
        match named {
            Some((name, _)) if members_in(name).is_some() => {
                let members = names.members_at(call, wait.since_ns);
                let ready = wake_up.and_then(|wake_up| ready_member(wake_up, &members));
                let kind = name.split(' ').next().unwrap_or_default();
                let target = ready.map_or(Self::One(name.into()), |member| {
                    Self::Ready(format!("{member} by {kind}"), name)
                });
                // A connection that is gone by now has no address, but the process at its other end is known.
                let is_gone = |peer: &str| match &target {
                    Self::One(_) => {
                        peer.split_once(" with ").is_some_and(|(_, process)| !name.contains(process))
                    }
                    _ => !target.has_name(),
                };
                let peer = wake_up.and_then(|wake_up| wake_up.peer(call.pid)).filter(|peer| is_gone(peer));
                Some(peer.map_or(target, |peer| Self::Ready(format!("{peer} by {kind}"), name)))
            }
            Some(("", _)) => Some(with_waker(profile, wait, part).map_or(Self::Denied, Self::One)),
            Some((name, true)) if wait.stands_for() > 1 => Some(Self::OneOfSeveral(name)),
            Some((name, _)) if !is_bare(name) => Some(Self::One(name.into())),
            bare => {
                let by_waker = with_waker(profile, wait, part).map(Self::One);
                Some(
                    by_waker.unwrap_or_else(|| bare.map_or(Self::Closed, |(name, _)| Self::One(name.into()))),
                )
            }
        }
    }

    /// The name; `None` where it was closed, or may not be looked at.
    #[must_use]
    pub fn known(self) -> Option<String> {
        (!matches!(self, Self::Closed | Self::Denied)).then(|| self.text())
    }

    /// As a user reads it.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::One(name) => name.clone().into_owned(),
            Self::Ready(name, _) => name.clone(),
            Self::OneOfSeveral(name) => format!("{name} and others"),
            Self::Closed => CLOSED.to_owned(),
            Self::Denied => DENIED.to_owned(),
        }
    }

    /// False for what has no name but its kind.
    #[must_use]
    pub fn has_name(&self) -> bool {
        match self {
            Self::One(name) => !is_kind(name),
            Self::OneOfSeveral(name) => !is_kind(name),
            Self::Ready(name, _) => !is_kind(name),
            Self::Closed | Self::Denied => false,
        }
    }

    /// Name of the set that the wait was for, without the member that ended it; the name of a single descriptor; empty if it was closed.
    pub(crate) fn set_name(&self) -> &str {
        match self {
            Self::Ready(_, set) | Self::OneOfSeveral(set) => set,
            Self::One(name) => name,
            Self::Closed | Self::Denied => "",
        }
    }
}

/// The call that a wait is in, if it is for a descriptor, or the page fault.
fn call_of(profile: &Profile, wait: &Wait, part: Part) -> Option<CallOfWait> {
    let task = profile.task(wait.task);
    let pid = task.pid.cast_unsigned();
    if part == Part::Blocked(WaitReason::PageFault) && wait.syscall.is_none() {
        return Some(CallOfWait { pid, syscall: PAGE_FAULT, argument: u64::from(task.tid.cast_unsigned()) });
    }
    let names = &profile.off_cpu.descriptors;
    let syscall = wait.syscall.filter(|&syscall| names.takes_descriptor(syscall))?;
    Some(CallOfWait { pid, syscall, argument: wait.args[0] })
}

/// False for a file by which a pipe or a socket was followed under the same number before that was looked at.
fn may_be(name: &str, part: Part) -> bool {
    !(name.starts_with('/') && matches!(part, Part::Blocked(WaitReason::Pipe | WaitReason::Socket)))
}

/// True for a kind alone.
fn is_bare(name: &str) -> bool {
    matches!(name, "pipe" | "socket")
}

/// True for a kind alone, in a set as well: connections that were closed before their addresses were looked at.
fn is_kind(name: &str) -> bool {
    const ENDS: [&str; 7] =
        [" by epoll", " by poll", " by select", " and other sockets", " and others", " (and ", ", "];
    let member = members_in(name).unwrap_or(name);
    let end = ENDS.iter().filter_map(|end| member.find(end)).min().unwrap_or(member.len());
    matches!(&member[..end], "pipe" | "socket" | "sockets")
}

/// Whether a wait is for this reason; an idle one by its system call.
pub(crate) fn waits_for(profile: &Profile, wait: &Wait, part: Part, wanted: WaitReason) -> bool {
    let numbering = profile.off_cpu.numbering;
    let by_call = || wait.syscall.and_then(|nr| WaitReason::of_syscall(nr, numbering));
    match part {
        Part::Blocked(reason) => reason == wanted,
        Part::Idle => by_call() == Some(wanted),
        _ => false,
    }
}

/// Text after the kind in the name of a set of descriptors; `None` for other names.
pub(crate) fn members_in(name: &str) -> Option<&str> {
    ["epoll of ", "poll of ", "select of "].iter().find_map(|kind| name.strip_prefix(kind))
}

/// The child that ended, or else the one that the call asks for.
fn child<'p>(profile: &'p Profile, wait: &Wait) -> Cow<'p, str> {
    let own = profile.task(wait.task).pid.cast_unsigned();
    let other = wait.other.filter(|other| other.pid != own && other.tid != 0);
    let asked = wait.args.iter().take(2).filter_map(|&arg| i32::try_from(arg).ok()).filter(|&pid| pid > 1);
    // A child of vfork has its parent's name until it runs another program.
    let ids = other.and_then(|other| i32::try_from(other.pid).ok()).into_iter().chain(asked);
    let named = ids.filter_map(|pid| {
        profile.last_comms.get(&pid).map(|&comm| profile.with_purpose(pid, profile.strings.of(comm)))
    });
    let name = named.map(str::to_owned).next();
    let name = name.or_else(|| other.map(|other| other_name(profile, other))).filter(|name| !name.is_empty());
    name.map_or(Cow::Borrowed("a child"), |name| format!("child {name}").into())
}

/// A pipe or socket by the process that ended the wait: it wrote, or closed the other end.
fn with_waker<'p>(profile: &'p Profile, wait: &Wait, part: Part) -> Option<Cow<'p, str>> {
    let kind = match part {
        Part::Blocked(WaitReason::Pipe) => "pipe with",
        Part::Blocked(WaitReason::Socket) => "socket with",
        Part::Blocked(WaitReason::Poll) => "poll ended by",
        _ => return None,
    };
    let own = profile.task(wait.task).pid.cast_unsigned();
    let is_closed = wait.flags & flag::OPEN_RIGHT == 0;
    let other = wait.other.filter(|other| is_closed && other.pid != own && other.tid != 0)?;
    let name = other_name(profile, other);
    (!is_deliverer(&name) && !name.is_empty()).then(|| format!("{kind} {name}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_not_named_after_the_file_that_had_its_number_later() {
        let [pipe, socket, disk] =
            [WaitReason::Pipe, WaitReason::Socket, WaitReason::Disk].map(Part::Blocked);
        assert!(!may_be("/tmp/pack", pipe) && !may_be("/tmp/pack", socket) && may_be("/tmp/pack", disk));
        assert!(may_be("pipe /tmp/fifo", pipe) && may_be("socket to /run/docker.sock", socket));
    }

    #[test]
    fn a_kind_without_an_address_is_no_name() {
        let kinds = [
            "socket",
            "pipe",
            "epoll of sockets",
            "epoll of socket and other sockets",
            "poll of pipe (and 2 more)",
            "socket by epoll",
        ];
        assert!(kinds.iter().all(|name| is_kind(name)));
        let names = ["socket to nginx 7 by epoll", "epoll of sockets 80 from a", "/tmp/socket, b", "eventfd"];
        assert!(!names.iter().any(|name| is_kind(name)));
        assert!(
            !NamedTarget::OneOfSeveral("pipe").has_name() && NamedTarget::OneOfSeveral("/tmp/a").has_name()
        );
    }
}
