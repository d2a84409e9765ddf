//! The path from begin to end in few stretches.

use super::{FollowedPath, RawPiece, add_waits};
use crate::grow::Grow as _;
use crate::profile::Profile;
use crate::table::CallsiteId;
use crate::view::blame::stretches::{PartSums, PathStretch, StretchPart, joined};
use crate::view::blame::walk::WaitSum;
use std::collections::BTreeMap;
use std::ops::Range;

/// A thread, and the stack of its waits.
type Place = (usize, Option<CallsiteId>);

/// Time of waits that are known by their sums, by place and wait.
#[derive(Default)]
struct PlaceSums {
    by_place: BTreeMap<Place, BTreeMap<usize, u64>>,
}

impl PlaceSums {
    fn add(&mut self, profile: &Profile, thread: usize, sum: WaitSum) -> Place {
        let place = (thread, profile.off_cpu.waits[sum.wait].callsite);
        self.by_place.entry(place).or_default().entry(sum.wait).or_default().grow(sum.ns);
        place
    }
}

/// A stretch whose waits that are known by their sums aren't followed yet.
struct OpenStretch {
    pieces: Range<usize>,
    parts: PartSums,
    /// Those waits: where, ns.
    left: Vec<(Place, u64)>,
}

impl FollowedPath<'_> {
    /// Waits that are known by their sums are followed once for each place where a thread waits: in every stretch
    /// their time is divided as it is in all of them.
    pub(super) fn strip(&self, most: usize) -> Vec<PathStretch> {
        let pieces: Vec<RawPiece> = self.pieces.iter().rev().copied().collect();
        let lengths: Vec<u64> = pieces.iter().map(|piece| piece.to - piece.from).collect();
        let mut sums = PlaceSums::default();
        let mut stretches: Vec<OpenStretch> = Vec::new();
        for range in joined(&lengths, most) {
            let mut walk = self.new_walk();
            let mut left = Vec::new();
            for (thread, spans) in add_waits(&mut walk, self.lines.profile, &pieces[range.clone()]) {
                for sum in walk.add_spans_but_sums(thread, &spans) {
                    left.push((sums.add(self.lines.profile, thread, sum), sum.ns));
                }
            }
            stretches.push(OpenStretch { pieces: range, parts: PartSums::of(&self.blame_of(walk)), left });
        }
        let shares = self.shares(sums);
        let stretch = |mut open: OpenStretch| {
            open.left.iter().for_each(|(place, ns)| open.parts.add_like(&shares[place], *ns));
            let pieces = &pieces[open.pieces];
            let (from_ns, to_ns) = (pieces[0].from, pieces[pieces.len() - 1].to);
            PathStretch { from_ns, to_ns, parts: open.parts.parts() }
        };
        stretches.into_iter().map(stretch).collect()
    }

    /// What waits that are known by their sums were for, by place.
    fn shares(&self, sums: PlaceSums) -> BTreeMap<Place, Vec<StretchPart>> {
        let parts = |place: Place, sums: BTreeMap<usize, u64>| {
            let mut walk = self.new_walk();
            walk.add_sums(place.0, sums.into_iter().map(|(wait, ns)| WaitSum { wait, ns }));
            (place, PartSums::of(&self.blame_of(walk)).parts())
        };
        sums.by_place.into_iter().map(|(place, sums)| parts(place, sums)).collect()
    }
}
