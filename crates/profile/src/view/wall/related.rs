//! The other thread of a wait: the one that ended it, or had the CPU meanwhile.

use super::{Part, other_name, part_name};
use crate::off_cpu::{Wait, is_for_cpu};
use crate::profile::Profile;
use perfdata::off_cpu::IDLE_CPU;

/// Name and id of a wait's other thread: its waker, or who ran instead of it; `None` if that isn't known.
#[must_use]
pub fn related_name(profile: &Profile, wait: &Wait) -> Option<(String, u32)> {
    let other = wait.other?;
    let is_idle = profile.strings.of(other.comm) == IDLE_CPU;
    Some((if is_idle { IDLE_CPU.to_owned() } else { other_name(profile, other) }, other.tid))
}

/// A wait for a CPU in words, with who had it.
#[must_use]
pub fn runnable_words(ran: &str) -> String {
    match ran {
        IDLE_CPU => "waits for an idle CPU to wake up".to_owned(),
        ran => format!("waits for a CPU that {ran} has"),
    }
}

/// A state in words, with the name of what it is for: `disk: /var/log/x`, `preempted by cc1`.
#[must_use]
pub fn part_words(part: Part, name: &str) -> String {
    match part {
        Part::Preempted => format!("preempted by {name}"),
        Part::Runnable => runnable_words(name),
        part if name.starts_with(part_name(part)) => name.to_owned(),
        part => format!("{}: {name}", part_name(part)),
    }
}

/// The name of who ran instead of a thread that waited for a CPU; `None` for other waits, or if it isn't known.
#[must_use]
pub fn ran_instead(profile: &Profile, wait: &Wait) -> Option<String> {
    let name = related_name(profile, wait).filter(|_| is_for_cpu(wait));
    name.map(|(name, _)| name).filter(|name| !name.is_empty())
}
