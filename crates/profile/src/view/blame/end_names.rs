//! Names of the ends of chains.

use super::{BlameEnd, BlamePath, thread_name};
use crate::profile::Profile;
use crate::view::wall::{Part, part_name, runnable_words};

/// The end of a path in words; `None` for running with a sample.
#[must_use]
pub fn end_words(profile: &Profile, path: &BlamePath) -> Option<String> {
    (path.end != BlameEnd::Ran).then(|| state_words(profile, &path.end))
}

/// Activity of the last thread of a chain.
#[must_use]
pub fn state_words(profile: &Profile, end: &BlameEnd) -> String {
    match end {
        BlameEnd::Ran => "on CPU".to_owned(),
        BlameEnd::RanUnsampled => "on CPU, no sample".to_owned(),
        BlameEnd::Waited(part) => part_name(*part).to_owned(),
        BlameEnd::WaitedFor(Part::Runnable, name) => runnable_words(name),
        BlameEnd::WaitedFor(part, name) => format!("{} for {name}", part_name(*part)),
        BlameEnd::PreemptedBy(name) => format!("preempted by {name}"),
        BlameEnd::NotRecorded(name) => format!("waited for {name}, not recorded"),
        BlameEnd::WakerUnknown(part) => format!("{}, waker unknown", part_name(*part)),
        BlameEnd::Knot(task) => format!("knot: waits for {}", thread_name(profile, *task)),
        BlameEnd::TooDeep => "more waits than followed".to_owned(),
        BlameEnd::TooLittle => "too little to follow".to_owned(),
        BlameEnd::Unborn => "not started yet".to_owned(),
    }
}
