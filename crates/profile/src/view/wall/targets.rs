//! Waits by what they were for.

use super::named_target::{CLOSED, DENIED};
use super::{Classes, Histogram, NamedTarget, Part, WallOpts};
use crate::grow::{Grow as _, GrownSum as _, ratio};
use crate::profile::Profile;
use crate::view::blame::thread_name;
use crate::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::cmp::Reverse;

/// All waits of threads of one name for one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitTarget {
    /// Part of the wall clock.
    pub part: Part,
    /// Name of the threads that waited.
    pub thread: String,
    /// Target of the waits: [`NamedTarget::text`].
    pub name: String,
    /// False for what has no name but its kind, or was gone.
    pub has_name: bool,
    /// ns waited.
    pub total_ns: u64,
    /// How long each took.
    pub lengths: Histogram,
}

/// Blocked threads only (and idle ones if requested), most time first.
pub(super) fn targets(profile: &Profile, classes: &Classes, opts: &WallOpts) -> Vec<WaitTarget> {
    let mut index: FxHashMap<(Part, &str, Option<Cow<'_, str>>), usize> = FxHashMap::default();
    let mut targets: Vec<WaitTarget> = Vec::new();
    for class in classes.named(profile) {
        let part = class.part;
        if !(matches!(part, Part::Blocked(_)) || (part == Part::Idle && opts.with_idle)) {
            continue;
        }
        let Some(target) = NamedTarget::of(profile, class.wait, part) else { continue };
        let one = match &target {
            NamedTarget::One(name) => Some(name.clone()),
            NamedTarget::Ready(name, _) => Some(name.clone().into()),
            // Those for several files are one row.
            NamedTarget::OneOfSeveral(_) => None,
            NamedTarget::Closed => Some(CLOSED.into()),
            NamedTarget::Denied => Some(DENIED.into()),
        };
        let thread = thread_name(profile, class.wait.task);
        let at = *index.entry((part, thread, one)).or_insert_with(|| {
            let (name, has_name) = (target.text(), target.has_name());
            let thread = thread.to_owned();
            targets.push(WaitTarget {
                part,
                thread,
                name,
                has_name,
                total_ns: 0,
                lengths: Histogram::default(),
            });
            targets.len() - 1
        });
        targets[at].total_ns.grow(class.wait.weight_ns);
        targets[at].lengths.add_wait(class.wait);
    }
    targets.rank_by(|a, b| (Reverse(a.total_ns), &a.name).cmp(&(Reverse(b.total_ns), &b.name)));
    targets
}

/// How much of the time has a name, and why the rest has none: `99.0 % of this time has a name, 1.0 % was closed too soon`.
#[must_use]
pub fn named_words(targets: &[WaitTarget]) -> String {
    let mut words = format!("{:.1} % of this time has a name", named_share(targets).unwrap_or(1.0) * 100.0);
    for (reason, share) in unnamed_shares(targets).into_iter().filter(|(_, share)| *share >= 0.0005) {
        words += &format!(", {:.1} % {reason}", share * 100.0);
    }
    words
}

/// Share of the time of waits for something that has a name, from 0 to 1; `None` without such waits.
fn named_share(targets: &[WaitTarget]) -> Option<f64> {
    let sum = |targets: &mut dyn Iterator<Item = &WaitTarget>| targets.map(|of| of.total_ns).grown_sum();
    let all_ns = sum(&mut targets.iter());
    let named_ns = sum(&mut targets.iter().filter(|target| target.has_name));
    (all_ns > 0).then(|| named_ns as f64 / all_ns as f64)
}

/// Reasons why the others have no name, as in a sentence, with the share of each; most first.
fn unnamed_shares(targets: &[WaitTarget]) -> Vec<(&'static str, f64)> {
    const REASONS: [&str; 3] = ["was closed too soon", "may not be looked at", "has only a kind"];
    let reason = |target: &&WaitTarget| match target.name.as_str() {
        CLOSED => REASONS[0],
        DENIED => REASONS[1],
        _ => REASONS[2],
    };
    let all_ns = targets.iter().map(|of| of.total_ns).grown_sum();
    let share = |wanted| {
        let of_reason = targets.iter().filter(|of| !of.has_name && reason(of) == wanted);
        (wanted, ratio(of_reason.map(|of| of.total_ns).grown_sum(), all_ns))
    };
    let mut shares: Vec<_> = REASONS.into_iter().map(share).filter(|(_, share)| *share > 0.0).collect();
    shares.rank_by(|a, b| b.1.total_cmp(&a.1));
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::off_cpu::WaitReason;

    #[test]
    fn what_has_no_name_is_counted_by_its_reason() {
        let target = |name: &str, has_name, total_ns| WaitTarget {
            part: Part::Blocked(WaitReason::Socket),
            thread: "app".to_owned(),
            name: name.to_owned(),
            has_name,
            total_ns,
            lengths: Histogram::default(),
        };
        let all = [
            target("/tmp/a", true, 50),
            target("socket", false, 10),
            target("epoll of sockets", false, 10),
            target(DENIED, false, 5),
            target(CLOSED, false, 25),
        ];
        assert_eq!(named_share(&all), Some(0.5));
        let expected =
            [("was closed too soon", 0.25), ("has only a kind", 0.2), ("may not be looked at", 0.05)];
        assert_eq!(unnamed_shares(&all), expected);
        let words = "50.0 % of this time has a name, 25.0 % was closed too soon, 20.0 % has only a kind, 5.0 % may not be looked at";
        assert_eq!(named_words(&all), words);
        assert_eq!(named_words(&[]), "100.0 % of this time has a name");
    }
}
