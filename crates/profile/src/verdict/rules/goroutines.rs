//! The rule about goroutines, which have no thread while they wait.

use perfdata::appendix::go_waits::GoWaitKind;

use super::{claim, time};
use crate::verdict::{Facts, Finding, INPUT, TopStacks};
use crate::view::goroutines::Goroutines;

/// Waits that a program can do something about. Others are for work, or for what another goroutine's wait explains.
const HELD_UP: [(GoWaitKind, &str); 3] = [
    (GoWaitKind::Mutex, "hold it for a shorter time, or split the data that it protects"),
    (GoWaitKind::RwMutex, "hold it for a shorter time, or split the data that it protects"),
    (GoWaitKind::Send, "receive faster, or in more goroutines"),
];

/// 28: on average at least 2 goroutines, and > 20 % of all, wait for one kind of lock or to send. Not where threads wait
/// for locks, too.
pub(super) fn goroutines(facts: &Facts) -> Option<Finding> {
    const LEAST: f64 = 2.0;
    let all = facts.waits.goroutines.as_ref()?;
    let by_kind = HELD_UP.map(|(kind, fix)| (all.waiting(kind), kind, fix));
    let (waiting, kind, fix) = by_kind.into_iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let share = (waiting / all.average.max(waiting)).min(1.0);
    if waiting < LEAST || share <= 0.2 {
        return None;
    }
    // Where its threads wait as well, the finding about the lock shows more.
    let of_threads = facts.contended().next().map_or(0.0, |site| facts.share(site.total_ns()));
    if kind != GoWaitKind::Send && of_threads > 0.15 {
        return None;
    }
    let most = all.rows.iter().find(|row| row.kind == kind)?;
    let mostly = if most.average > 0.9 * waiting { "in" } else { "most in" };
    let text = format!(
        "Go: {waiting:.0} of {:.0} goroutines {} {mostly} {}",
        all.average,
        kind.words(),
        most.place()
    );
    let detail = match most.longest_ns {
        0 => String::new(),
        ns => format!("the longest for {} or more", time(ns)),
    };
    claim(share, text)
        .detail(detail)
        .fix(fix)
        .evidence(evidence(all))
        .stacks(TopStacks::default().or_missing("goroutines that wait have no thread"))
        .next(format!("tally report --wall --stdio{INPUT}"), "ends with all places where goroutines wait")
}

/// How they were counted, and the others.
fn evidence(all: &Goroutines) -> Vec<String> {
    const SHOWN: usize = 3;
    let rows = all.rows.iter().take(SHOWN);
    let rows = rows.map(|row| format!("{:.1} {} in {}", row.average, row.kind.words(), row.place()));
    std::iter::once(format!("averages of {} looks at the program's list of goroutines", all.looks))
        .chain(rows)
        .collect()
}
