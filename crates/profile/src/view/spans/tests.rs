//! Calls of made-up recordings.

use super::*;
use crate::off_cpu::{OffCpuSource, RelatedThread, ThreadTotals, Wait, WaitReason};
use crate::profile::SpanFunctionInfo;
use crate::profile::Task;
use perfdata::off_cpu::State;
use std::ops::Range;

/// Two threads of one process from 0 to 1000, and a function `handle`.
fn recorded() -> Profile {
    let mut profile = Profile::default();
    for tid in 1..3 {
        let comm = profile.strings.intern(["main", "other"][tid as usize - 1]);
        let task = profile.push_task(Task { pid: 1, tid, process: 0, comm });
        let totals = ThreadTotals { task, start_ns: 0, end_ns: 1000, total_ns: [0; 8], switches: 1 };
        profile.off_cpu.totals.push(totals);
    }
    profile.off_cpu.source = Some(OffCpuSource::Tally);
    let name = "handle".to_owned();
    profile.spans.functions.push(SpanFunctionInfo { name, ..SpanFunctionInfo::default() });
    profile
}

fn call(profile: &mut Profile, span: Range<u64>, outcome: SpanOutcome, outer: Option<usize>) {
    let task = TaskId::from_index(0);
    let (begin_ns, end_ns) = (span.start, span.end);
    profile.spans.calls.push(SpanCall { function: 0, task, begin_ns, end_ns, outcome, outer, seen: None });
}

fn wait(profile: &mut Profile, state: State, span: Range<u64>, weight_ns: u64) {
    let (since_ns, length_ns) = (span.start, span.end - span.start);
    let task = TaskId::from_index(0);
    profile.off_cpu.waits.push(Wait { state, since_ns, length_ns, weight_ns, ..Wait::of(task) });
}

fn only_row(profile: &Profile) -> SpanFunctionRow {
    let mut rows = spans(profile, &SpanOpts { function: None, slowest: 10 });
    assert_eq!(rows.len(), 1);
    rows.pop().expect("one function")
}

fn named(row: &SpanFunctionRow) -> Vec<(String, u64)> {
    let states = row.states.as_ref().expect("waits are known").iter();
    states.map(|row| (row.state.words(), row.ns)).collect()
}

#[test]
fn waits_are_cut_at_the_ends_of_calls_and_all_adds_up() {
    let mut profile = recorded();
    wait(&mut profile, State::Disk, 50..150, 100);
    wait(&mut profile, State::Preempted, 180..190, 10);
    call(&mut profile, 100..200, SpanOutcome::Returned, None);
    call(&mut profile, 300..400, SpanOutcome::Returned, None);
    let row = only_row(&profile);
    let wanted = [("on CPU", 140), ("disk", 50), ("preempted", 10)].map(|(name, ns)| (name.to_owned(), ns));
    assert_eq!(named(&row), wanted);
    assert_eq!((row.calls, row.threads, row.latency.total_ns), (2, 1, 200));
    let slow = &row.slowest[0];
    assert_eq!(
        (slow.at_ns, slow.length_ns, slow.states.iter().map(|(_, ns)| ns).sum::<u64>()),
        (100, 100, 100)
    );
    assert_eq!(slow.causes.total_ns, 100);
}

#[test]
fn short_waits_known_by_their_sum_have_their_expected_part() {
    let mut profile = recorded();
    // From 0 to 500 the thread waited for 200 ns in waits that were not recorded one by one, and 10 in one that was.
    wait(&mut profile, State::Disk, 500..510, 210);
    call(&mut profile, 100..200, SpanOutcome::Returned, None);
    let wanted = [("on CPU", 60), ("disk", 40)].map(|(name, ns)| (name.to_owned(), ns));
    assert_eq!(named(&only_row(&profile)), wanted);
}

#[test]
fn calls_that_are_no_whole_ones_are_counted_by_name_and_in_no_sum() {
    let mut profile = recorded();
    profile.spans.functions[0].without_begin = 1;
    call(&mut profile, 100..200, SpanOutcome::Returned, None);
    call(&mut profile, 110..120, SpanOutcome::Returned, Some(0));
    call(&mut profile, 300..700, SpanOutcome::Left, None);
    call(&mut profile, 500..1000, SpanOutcome::Open, None);
    let row = only_row(&profile);
    let wanted = NotCounted { without_begin: 1, before_window: 0, open: 1, left: 1, nested: 1 };
    assert_eq!((row.calls, row.not_counted, wanted.total()), (1, wanted, 4));
    assert_eq!(named(&row), [("on CPU".to_owned(), 100)]);
    // One that hangs is the slowest of all.
    let slowest: Vec<(u64, bool)> = row.slowest.iter().map(|call| (call.length_ns, call.is_open)).collect();
    assert_eq!(slowest, [(500, true), (100, false)]);
}

#[test]
fn percentiles_are_lengths_of_calls() {
    let lengths: Vec<u64> = (1..=200).collect();
    let latency = CallLatency::of_sorted(&lengths);
    assert_eq!((latency.p50_ns, latency.p90_ns, latency.p99_ns, latency.max_ns), (100, 180, 198, 200));
    assert_eq!(CallLatency::of_sorted(&[]), CallLatency::default());
    assert_eq!(CallLatency::of_sorted(&[7]).p99_ns, 7);
}

#[test]
fn causes_of_a_slow_call_go_on_in_the_thread_that_ended_its_wait() {
    let mut profile = recorded();
    wait(&mut profile, State::Sleep, 100..190, 90);
    let comm = profile.strings.intern("");
    let other = RelatedThread { pid: 1, tid: 2, comm, callsite: None };
    let last = profile.off_cpu.waits.last_mut().expect("just pushed");
    (last.other, last.syscall) = (Some(other), Some(202));
    call(&mut profile, 100..200, SpanOutcome::Returned, None);
    let row = only_row(&profile);
    let causes = &row.slowest[0].causes;
    let ends: Vec<(usize, u64)> =
        causes.paths.iter().map(|path| (causes.culprit(path).index(), path.ns)).collect();
    assert_eq!(ends, [(1, 90), (0, 10)]);
}

#[test]
fn time_that_nothing_is_known_of_is_unknown() {
    let mut profile = recorded();
    profile.off_cpu.totals[0].start_ns = 150;
    call(&mut profile, 100..200, SpanOutcome::Returned, None);
    let row = only_row(&profile);
    assert_eq!(named(&row), [("on CPU".to_owned(), 50), ("unknown".to_owned(), 50)]);
    assert_eq!((row.slowest[0].causes.total_ns, UNSEEN), (100, Part::Blocked(WaitReason::Unknown)));
    profile.off_cpu.source = None;
    let row = only_row(&profile);
    assert!(row.states.is_none() && row.slowest[0].states.is_empty() && row.calls == 1);
}
