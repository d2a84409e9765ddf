//! The wall clock by labels of goroutines.

use super::{Times, WallOpts, moments};
use crate::profile::Profile;
use crate::table::StringId;
use crate::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Time of threads whose goroutine had the same labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelTimes {
    /// The labels as text, or the value of one; `None` for time without.
    pub label: Option<StringId>,
    /// Their time by state.
    pub times: Times,
}

/// All of the wall clock shown by `opts` by labels, or by the value of the one with this key; greatest time that is not
/// idle first. The session must have kept the labels ([`crate::session::Dimensions::labels`]).
#[must_use]
pub fn label_times(profile: &Profile, opts: &WallOpts, key: Option<&str>) -> Vec<LabelTimes> {
    let mut sums: FxHashMap<Option<StringId>, Times> = FxHashMap::default();
    for moment in moments(profile, opts) {
        let label = match key {
            Some(key) => profile.label_in(moment.labels, key),
            None => moment.labels,
        };
        sums.entry(label).or_default().add_part(moment.part, moment.ns);
    }
    let mut rows: Vec<LabelTimes> =
        sums.into_iter().map(|(label, times)| LabelTimes { label, times }).collect();
    let text = |label: Option<StringId>| label.map(|label| profile.strings.of(label));
    rows.rank_by_key(|row| (Reverse(row.times.active_ns()), row.label.is_none(), text(row.label)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::off_cpu::{OffCpuSource, ThreadTotals, Wait};
    use crate::profile::Task;
    use perfdata::off_cpu::State;

    #[test]
    fn waits_count_for_the_labels_of_their_goroutine() {
        let mut profile = Profile::default();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let set = |profile: &mut Profile, user: &str| {
            Some(profile.name_labels(&vec![pair("route", "/pay"), pair("user", user)]))
        };
        let labels = [set(&mut profile, "7"), set(&mut profile, "8"), None];
        let comm = profile.strings.intern("server");
        let task = profile.intern_task(Task { pid: 1, tid: 1, process: 0, comm });
        let mut total_ns = [0; 8];
        for (at, labels) in labels.into_iter().enumerate() {
            let (length_ns, since_ns) = (1000 << at, 10_000 * at as u64);
            let (state, weight_ns) = (State::Runnable, length_ns);
            profile.off_cpu.waits.push(Wait {
                labels,
                state,
                since_ns,
                length_ns,
                weight_ns,
                ..Wait::of(task)
            });
            total_ns[usize::from(state.code())] += length_ns;
        }
        profile.off_cpu.source = Some(OffCpuSource::Tally);
        let end_ns = total_ns.iter().sum();
        profile.off_cpu.totals.push(ThreadTotals { task, start_ns: 0, end_ns, total_ns, switches: 3 });
        let rows = |key| -> Vec<(String, u64)> {
            let rows = label_times(&profile, &WallOpts::default(), key).into_iter();
            rows.map(|row| {
                let text = row.label.map_or("-", |label| profile.strings.of(label));
                (text.to_owned(), row.times.runnable_ns)
            })
            .collect()
        };
        let wanted = |rows: &[(&str, u64)]| {
            rows.iter().map(|(text, ns)| ((*text).to_owned(), *ns)).collect::<Vec<_>>()
        };
        assert_eq!(
            rows(None),
            wanted(&[("-", 4000), ("route=/pay, user=8", 2000), ("route=/pay, user=7", 1000)])
        );
        assert_eq!(rows(Some("user")), wanted(&[("-", 4000), ("8", 2000), ("7", 1000)]));
        assert_eq!(rows(Some("route")), wanted(&[("-", 4000), ("/pay", 3000)]));
    }
}
