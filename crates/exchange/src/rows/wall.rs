//! Wall-clock time and locks as rows.
//
// Layout: docs/formats/json.md.

use super::{SCHEMA_VERSION, split};
use profile::grow::GrownSum as _;
use profile::profile::Profile;
use profile::table::{CallsiteId, FrameId};
use profile::view::locks::{LockHolder, LockRow};
use profile::view::wall::{
    FunctionRow, Histogram, LabelTimes, LongWait, ThreadRow, Times, WaitPlace, WaitTarget, Wall, part_name,
    place_names,
};
use serde_json::{Map, Value, json};

/// A list with at most `most` rows (0: all): the rows, and number and ns of the others.
fn list<T>(rows: &[T], most: usize, ns_of: impl Fn(&T) -> u64, row: impl Fn(&T) -> Value) -> Value {
    let (shown, others) = split(rows, most);
    json!({
        "rows": shown.iter().map(row).collect::<Vec<_>>(),
        "rows_left_out": others.len(),
        "left_out_ns": others.iter().map(ns_of).grown_sum(),
    })
}

/// The whole view, with at most `most` rows in each list (0: all).
#[must_use]
pub fn wall(profile: &Profile, wall: &Wall, most: usize) -> Value {
    let place = |row: &WaitPlace| {
        with_lengths(
            json!({ "state": part_name(row.part), "total_ns": row.total_ns, "stack": stack(profile, row.callsite) }),
            &row.lengths,
        )
    };
    let target = |row: &WaitTarget| {
        with_lengths(
            json!({
                "state": part_name(row.part), "total_ns": row.total_ns, "thread": row.thread, "target": row.name,
                "is_named": row.has_name,
            }),
            &row.lengths,
        )
    };
    json!({
        "schema_version": SCHEMA_VERSION, "view": "wall",
        "begin_ns": wall.begin_ns, "wall_ns": wall.wall_ns, "switches": wall.switches,
        "times": times(&wall.whole),
        "threads": list(&wall.threads, most, |row| row.times.total_ns(), thread),
        "functions": list(&wall.functions, most, |row| row.own.total_ns(), function),
        "waits": list(&wall.places, most, |row| row.total_ns, place),
        "waited_for": list(&wall.targets, most, |row| row.total_ns, target),
        "longest": wall.longest.iter().map(|wait| long_wait(profile, wait)).collect::<Vec<_>>(),
    })
}

/// The wall clock by labels, with at most `most` rows (0: all).
#[must_use]
pub fn label_times(profile: &Profile, rows: &[LabelTimes], most: usize) -> Value {
    let row = |row: &LabelTimes| json!({ "label": row.label.map(|label| profile.strings.of(label)), "times": times(&row.times) });
    json!({
        "schema_version": SCHEMA_VERSION, "view": "label-times",
        "labels": list(rows, most, |row| row.times.total_ns(), row),
    })
}

/// The locks of a recording, with at most `most` rows (0: all). `what` names a lock in words.
#[must_use]
pub fn locks(profile: &Profile, rows: &[LockRow], most: usize, what: &dyn Fn(&LockRow) -> String) -> Value {
    let row = |row: &LockRow| {
        let holder = |of: &LockHolder| {
            json!({
                "name": of.name, "tid": of.tid, "percent": of.percent, "stack": names(profile, &of.frames),
            })
        };
        with_lengths(
            json!({
                "lock": what(row), "is_kernel": row.kernel, "pid": row.pid,
                "address": row.address.map(|address| format!("{address:#x}")), "file": row.file,
                "total_ns": row.wait_ns, "waiters": row.waiters,
                "stack": row.place.map(|callsite| stack(profile, callsite)),
                "released_by": row.holder.as_ref().map(holder),
            }),
            &row.lengths,
        )
    };
    let mut value = list(rows, most, |row| row.wait_ns, row);
    value["schema_version"] = SCHEMA_VERSION.into();
    value["view"] = "locks".into();
    value
}

/// `value` with number and lengths of the waits that it sums up.
fn with_lengths(mut value: Value, lengths: &Histogram) -> Value {
    value["count"] = lengths.count().into();
    value["p50_ns"] = lengths.percentile_ns(50.0).into();
    value["p99_ns"] = lengths.percentile_ns(99.0).into();
    value["longest_ns"] = lengths.max_ns().into();
    value
}

fn times(of: &Times) -> Value {
    let blocked: Map<String, Value> =
        of.blocked_ns.iter().map(|(reason, &ns)| (reason.name().to_owned(), ns.into())).collect();
    json!({
        "on_cpu_ns": of.on_ns, "runnable_ns": of.runnable_ns, "preempted_ns": of.preempted_ns,
        "blocked_ns": blocked, "idle_ns": of.idle_ns, "total_ns": of.total_ns(),
    })
}

fn thread(row: &ThreadRow) -> Value {
    json!({
        "pid": row.pid, "tid": row.tid, "comm": row.comm, "title": row.title, "start_function": row.start,
        "start_ns": row.start_ns, "life_ns": row.life_ns, "switches": row.switches, "times": times(&row.times),
    })
}

fn function(row: &FunctionRow) -> Value {
    json!({
        "symbol": row.name, "dso": row.dso, "is_kernel": row.kernel,
        "self": times(&row.own), "total": times(&row.children),
    })
}

fn long_wait(profile: &Profile, wait: &LongWait) -> Value {
    let comm = profile.strings.of(profile.last_comm(wait.task));
    let other = wait.waker.as_ref().map(|(name, tid)| json!({ "name": name, "tid": tid }));
    let (waker, instead) = if wait.is_instead { (None, other) } else { (other, None) };
    json!({
        "state": part_name(wait.part), "at_ns": wait.at_ns, "length_ns": wait.length_ns, "is_open": wait.open,
        "tid": profile.task(wait.task).tid, "comm": comm, "target": wait.target, "waker": waker, "ran_instead": instead,
        "stack": wait.callsite.map(|callsite| stack(profile, callsite)),
    })
}

/// Names of a path's functions, leaf first.
fn stack(profile: &Profile, callsite: CallsiteId) -> Vec<&str> {
    let frames: Vec<FrameId> = profile.callsites.leaf_first(callsite).collect();
    names(profile, &frames)
}

fn names<'p>(profile: &'p Profile, frames: &[FrameId]) -> Vec<&'p str> {
    frames.iter().flat_map(|&frame| place_names(profile, frame)).collect()
}
