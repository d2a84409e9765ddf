//! Waits by what they were for: files, sockets with their peers, pipes with their other ends.

use super::{Classes, Histogram, Part, WallOpts};
use crate::grow::Grow as _;
use crate::off_cpu::Wait;
use crate::profile::Profile;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// All waits of threads of one name for one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitTarget {
    /// Their part of the wall clock.
    pub part: Part,
    /// Name of the threads that waited.
    pub thread: String,
    /// What they waited for: [`NamedTarget::text`].
    pub name: String,
    /// ns waited.
    pub total_ns: u64,
    /// How long each took.
    pub lengths: Histogram,
}

/// Text of [`NamedTarget::Closed`].
pub(crate) const CLOSED: &str = "something that was closed before it was looked at";

/// What a wait was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedTarget<'p> {
    /// This.
    One(&'p str),
    /// This and others: a sum of waits for a number that a program uses for one file after the other.
    OneOfSeveral(&'p str),
    /// A descriptor that was closed, or whose process had ended, before it was looked at.
    Closed,
}

impl<'p> NamedTarget<'p> {
    /// Of a wait; `None` if it was for no descriptor, or no descriptor of the recording has a name.
    #[must_use]
    pub fn of(profile: &'p Profile, wait: &Wait) -> Option<Self> {
        let pid = profile.task(wait.task).pid.cast_unsigned();
        let names = &profile.off_cpu.descriptors;
        let syscall = wait.syscall.filter(|&syscall| names.takes_descriptor(syscall))?;
        let Some((name, has_others)) = names.name_at(pid, syscall, wait.args[0], wait.since_ns) else {
            return Some(Self::Closed);
        };
        Some(if has_others && wait.stands_for() > 1 { Self::OneOfSeveral(name) } else { Self::One(name) })
    }

    /// The name; `None` where it was closed.
    #[must_use]
    pub fn known(self) -> Option<String> {
        (self != Self::Closed).then(|| self.text())
    }

    /// As a user reads it.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            Self::One(name) => name.to_owned(),
            // The same epoll, with other descriptors at other times.
            Self::OneOfSeveral(name) if name.starts_with("epoll of ") => {
                "epoll of changing descriptors".to_owned()
            }
            Self::OneOfSeveral(name) => format!("{name} and others"),
            Self::Closed => CLOSED.to_owned(),
        }
    }
}

/// Blocked threads only (and idle ones if requested), most time first.
pub(super) fn targets(profile: &Profile, classes: &Classes, opts: &WallOpts) -> Vec<WaitTarget> {
    let mut index: FxHashMap<(Part, &str, Option<&str>), usize> = FxHashMap::default();
    let mut targets: Vec<WaitTarget> = Vec::new();
    for class in classes.named(profile) {
        let part = class.part;
        if !(matches!(part, Part::Blocked(_)) || (part == Part::Idle && opts.with_idle)) {
            continue;
        }
        let Some(target) = NamedTarget::of(profile, class.wait) else { continue };
        // Those for several files are one row.
        let one = match target {
            NamedTarget::One(name) => Some(name),
            NamedTarget::OneOfSeveral(_) => None,
            NamedTarget::Closed => Some(CLOSED),
        };
        let thread = profile.strings.of(profile.last_comm(class.wait.task));
        let at = *index.entry((part, thread, one)).or_insert_with(|| {
            let (thread, name) = (thread.to_owned(), target.text());
            targets.push(WaitTarget { part, thread, name, total_ns: 0, lengths: Histogram::default() });
            targets.len() - 1
        });
        targets[at].total_ns.grow(class.wait.weight_ns);
        targets[at].lengths.add_wait(class.wait);
    }
    targets.sort_by(|a, b| (Reverse(a.total_ns), &a.name).cmp(&(Reverse(b.total_ns), &b.name)));
    targets
}
