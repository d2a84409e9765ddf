//! Threads over time as rows of cells.
//
// Layout: docs/formats/timeline.md.

use perfdata::off_cpu::State;
use profile::view::timeline::{Column, Timeline, TimelineRow, TimelineTarget};
use profile::view::wall::part_name;
use serde_json::{Value, json};

/// The same for scripts: times in ns since the recording's begin, shares of a thread's life from 0 to 1, and by column
/// the name of the state that took three quarters of it and the shares of all, null where the thread was not alive.
/// Idle threads are included and marked.
#[must_use]
pub fn timeline(view: &Timeline) -> Value {
    let states = |row: &TimelineRow| -> serde_json::Map<String, Value> {
        let lived = State::ALL.iter().zip(row.states).filter(|(_, share)| *share > 0.0);
        lived.map(|(state, share)| (state.name().to_owned(), json!(share))).collect()
    };
    let wait = |of: &TimelineTarget| json!({"state": part_name(of.part), "target": of.name, "ns": of.ns});
    let thread = |row: &TimelineRow| {
        json!({
            "pid": row.pid, "tid": row.tid, "comm": row.comm, "label": row.label, "idle": row.is_idle,
            "life_ns": row.life_ns,
            "shares": states(row),
            "waits": row.targets.iter().map(wait).collect::<Vec<_>>(),
            "cells": row.columns.iter().map(cell_name).collect::<Vec<_>>(),
            "cell_shares": row.columns.iter().map(|column| cell_shares(column, view.column_ns)).collect::<Vec<_>>(),
        })
    };
    json!({
        "from_ns": view.span_ns.0, "to_ns": view.span_ns.1, "column_ns": view.column_ns,
        "threads": view.rows.iter().map(thread).collect::<Vec<_>>(),
    })
}

fn cell_name(column: &Column) -> Option<&'static str> {
    (!column.is_empty()).then(|| column.main().map_or("mixed", part_name))
}

/// Shares of a column's length by state, three digits after the point; smaller ones are left out.
fn cell_shares(column: &Column, column_ns: u64) -> Option<Value> {
    let thousandths = |ns: u64| (ns as f64 * 1000.0 / column_ns.max(1) as f64).round();
    let shares = column.parts().into_iter().map(|(part, ns)| (part_name(part), thousandths(ns)));
    let shares = shares.filter(|(_, share)| *share > 0.0);
    let named = shares.map(|(name, share)| (name.to_owned(), json!(share / 1000.0)));
    (!column.is_empty()).then(|| Value::Object(named.collect()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use profile::off_cpu::WaitReason;
    use profile::view::wall::Part;

    /// A thread that did several things, and one that was idle.
    pub(crate) fn two_threads() -> Timeline {
        let columns = |cells: &[&[(Part, u64)]]| cells.iter().map(|parts| Column::of(parts)).collect();
        let row = |comm: &str, is_idle, cells: &[&[(Part, u64)]]| TimelineRow {
            pid: 7,
            tid: 8,
            comm: comm.to_owned(),
            label: comm.to_owned(),
            is_idle,
            columns: columns(cells),
            targets: vec![TimelineTarget {
                part: Part::Blocked(WaitReason::Futex),
                name: "lock in put()".to_owned(),
                ns: 2_250_000,
            }],
            life_ns: 4_000_000,
            states: [0.25, 0.0, 0.25, 0.5, 0.0, 0.0, 0.0, 0.0],
        };
        let (on, futex) =
            (&[(Part::On, 1_000_000)][..], &[(Part::Blocked(WaitReason::Futex), 1_000_000)][..]);
        let half =
            &[(Part::On, 250_000), (Part::Blocked(WaitReason::Futex), 250_000), (Part::Preempted, 500_000)];
        let idle = &[(Part::Idle, 1_000_000)][..];
        let rows = vec![
            row("worker", false, &[&[], on, futex, futex, half, &[(Part::Preempted, 900_000)]]),
            row("sleeper", true, &[idle; 6]),
        ];
        Timeline { column_ns: 1_000_000, span_ns: (0, 6_000_000), rows }
    }

    #[test]
    fn for_scripts_all_threads_are_there_with_names_of_states() {
        let value = timeline(&two_threads());
        assert_eq!((&value["column_ns"], &value["to_ns"]), (&json!(1_000_000), &json!(6_000_000)));
        let cells = json!([null, "on CPU", "futex", "futex", "mixed", "preempted"]);
        assert_eq!(value["threads"][0]["cells"], cells);
        assert_eq!(
            value["threads"][0]["cell_shares"][4],
            json!({"preempted": 0.5, "on CPU": 0.25, "futex": 0.25})
        );
        assert_eq!(
            value["threads"][0]["shares"],
            json!({"on CPU": 0.25, "preempted": 0.25, "sleeping": 0.5})
        );
        let waits = json!([{"state": "futex", "target": "lock in put()", "ns": 2_250_000}]);
        assert_eq!(value["threads"][0]["waits"], waits);
        assert_eq!(
            (&value["threads"][1]["comm"], &value["threads"][1]["idle"]),
            (&json!("sleeper"), &json!(true))
        );
    }
}
