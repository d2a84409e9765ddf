//! Waits by stack: where threads wait, how often and how long.

use super::{Classes, Histogram, Part, WallOpts};
use crate::grow::Grow as _;
use crate::profile::Profile;
use crate::table::CallsiteId;
use crate::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// All waits with one stack and one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitPlace {
    /// Part of the wall clock.
    pub part: Part,
    /// The stack.
    pub callsite: CallsiteId,
    /// ns waited.
    pub total_ns: u64,
    /// How long each took.
    pub lengths: Histogram,
}

/// Blocked threads only (and idle ones if requested), most time first.
pub(super) fn places(profile: &Profile, classes: &Classes, opts: &WallOpts) -> Vec<WaitPlace> {
    let mut index: FxHashMap<(Part, CallsiteId), usize> = FxHashMap::default();
    let mut places: Vec<WaitPlace> = Vec::new();
    for class in classes.named(profile) {
        let (Some(callsite), part) = (class.wait.callsite, class.part) else { continue };
        if !(matches!(part, Part::Blocked(_)) || (part == Part::Idle && opts.with_idle)) {
            continue;
        }
        let at = *index.entry((part, callsite)).or_insert_with(|| {
            places.push(WaitPlace { part, callsite, total_ns: 0, lengths: Histogram::default() });
            places.len() - 1
        });
        places[at].total_ns.grow(class.wait.weight_ns);
        places[at].lengths.add_wait(class.wait);
    }
    places.rank_by_key(|place| (Reverse(place.total_ns), place.callsite));
    places
}
