//! Threads over time as strips of letters: one where a class of states took three quarters of a column, a block as high
//! as the share on the CPU where none did.

use crate::terminal::out::harmless;
use display::fit::{cut, flow};
use display::number::{count_of, duration_ns};
use display::palette::StateClass;
use display::term::{Paint, paint};
use perfdata::off_cpu::State;
use profile::view::timeline::{Column, Timeline, TimelineRow};
use profile::view::wall::part_name;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{self, Write};

/// How to print.
#[derive(Clone, Copy, Debug)]
pub struct TimelineTextOpts {
    /// With colours.
    pub colour: bool,
    /// Threads shown.
    pub rows: usize,
    /// Idle threads are shown like all others.
    pub with_idle: bool,
}

/// Columns of a thread's name.
const NAME: usize = 20;
/// Columns of the shares right of a strip.
const SHARES: usize = 24;

/// Columns of the strips in so wide a terminal.
#[must_use]
pub fn columns(width: usize) -> usize {
    width.clamp(60, 400) - NAME - SHARES - 3
}

/// Prints the view.
///
/// # Errors
/// Standard output can't be written.
pub fn write(out: &mut dyn Write, view: &Timeline, opts: TimelineTextOpts) -> io::Result<()> {
    let colour = opts.colour;
    let (from, to) = view.span_ns;
    let heading = paint("TIMELINE", Paint::Bold, colour);
    writeln!(out, "{heading}     {} in columns of {}", duration_ns(to - from), duration_ns(view.column_ns))?;
    let width = view.rows.first().map_or(0, |row| row.columns.len());
    for line in flow(legend(view, colour), width + NAME + SHARES) {
        writeln!(out, "  {line}")?;
    }
    let at = |ns: u64| if ns == 0 { "0".to_owned() } else { format!("+{}", duration_ns(ns)) };
    let (begin, end) = (at(from), at(to));
    let fill = width.saturating_sub(begin.chars().count());
    writeln!(out, "\n{:NAME$} {begin}{end:>fill$}   {:>5} {:>5} {:>5} {:>5}", "", "on", "runq", "S", "D")?;
    let is_hidden = |row: &&TimelineRow| row.is_idle && !opts.with_idle;
    let (idle, busy): (Vec<&TimelineRow>, Vec<&TimelineRow>) = view.rows.iter().partition(is_hidden);
    for row in busy.iter().take(opts.rows) {
        writeln!(out, "{}", strip(row, colour))?;
    }
    if busy.len() > opts.rows {
        let more = count_of((busy.len() - opts.rows) as u64, "more thread", "more threads");
        writeln!(out, "{more} (--rows)")?;
    }
    if !idle.is_empty() {
        let threads = count_of(idle.len() as u64, "idle thread", "idle threads");
        let note = format!("{threads} not shown: they wait for work (--idle)");
        writeln!(out, "{}", paint(&note, Paint::Dim, colour))?;
    }
    Ok(())
}

/// The same for scripts: times in ns since the recording's begin, shares of a thread's life from 0 to 1, and by column
/// the name of the state that took three quarters of it and the shares of all, null where the thread was not alive.
/// Idle threads are included and marked.
#[must_use]
pub fn to_json(view: &Timeline) -> Value {
    let states = |row: &TimelineRow| -> serde_json::Map<String, Value> {
        let lived = State::ALL.iter().zip(row.states).filter(|(_, share)| *share > 0.0);
        lived.map(|(state, share)| (state.name().to_owned(), json!(share))).collect()
    };
    let thread = |row: &TimelineRow| {
        json!({
            "pid": row.pid, "tid": row.tid, "comm": row.comm, "label": row.label, "idle": row.is_idle, "life_ns": row.life_ns,
            "shares": states(row),
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

fn strip(row: &TimelineRow, colour: bool) -> String {
    let name = cut(&harmless(&row.label), NAME - 9);
    let name = format!("{name} {}", row.tid);
    let share = |states: &[State]| -> String {
        let part: f64 = states.iter().map(|state| row.states[usize::from(state.code())]).sum();
        if part < 0.0005 { format!("{:>6}", "·") } else { format!("{:>5.1}%", part * 100.0) }
    };
    let shares: String = [
        share(&[State::On]),
        share(&[State::Runnable, State::Preempted]),
        share(&[State::Sleep]),
        share(&[State::Disk]),
    ]
    .concat();
    format!("{name:<NAME$} │{}│{shares}", cells(row, colour)).trim_end().to_owned()
}

/// The cells, each run of one colour painted once.
fn cells(row: &TimelineRow, colour: bool) -> String {
    let looks: Vec<(char, Option<Paint>)> = row.columns.iter().map(look_of_column).collect();
    let mut text = String::new();
    for run in looks.chunk_by(|a, b| a.1 == b.1) {
        let letters: String = run.iter().map(|(letter, _)| *letter).collect();
        text += &run[0].1.map_or_else(|| letters.clone(), |hue| paint(&letters, hue, colour));
    }
    text
}

/// A mixed column: eighths of its time on the CPU.
const MIXED: [char; 8] = ['+', '▁', '▂', '▃', '▄', '▅', '▆', '▇'];

/// The classes of a column's states with their ns, most time first.
fn classes_of(column: &Column) -> Vec<(StateClass, u64)> {
    let mut sums: Vec<(StateClass, u64)> = Vec::new();
    for (part, ns) in column.parts() {
        let class = StateClass::of(part_name(part));
        match sums.iter_mut().find(|(of, _)| *of == class) {
            Some((_, sum)) => *sum = sum.saturating_add(ns),
            None => sums.push((class, ns)),
        }
    }
    sums.sort_by_key(|&(_, ns)| std::cmp::Reverse(ns));
    sums
}

/// The class that took three quarters of a column.
fn main_class(column: &Column) -> Option<StateClass> {
    let &(class, ns) = classes_of(column).first()?;
    (u128::from(ns) * 4 >= u128::from(column.total_ns()) * 3).then_some(class)
}

fn look_of_column(column: &Column) -> (char, Option<Paint>) {
    if let Some(class) = main_class(column) {
        return look(class);
    }
    let classes = classes_of(column);
    let Some(&(most, _)) = classes.iter().find(|(class, _)| *class != StateClass::On) else {
        return (' ', None);
    };
    let on_ns = classes.iter().find(|(class, _)| *class == StateClass::On).map_or(0, |(_, ns)| *ns);
    match (on_ns as f64 * 8.0 / column.total_ns() as f64).round() as usize {
        0 => (MIXED[0], Some(Paint::Block(most))),
        eighths => (MIXED[eighths.min(7)], Some(Paint::Mixed(StateClass::On, most))),
    }
}

/// Running is a full block, any other class its letter.
fn look(class: StateClass) -> (char, Option<Paint>) {
    match class {
        StateClass::On => ('█', Some(Paint::State(class))),
        class => (class.letter(), Some(Paint::Block(class))),
    }
}

/// The letters met, each with its states; with their widths.
fn legend(view: &Timeline, colour: bool) -> Vec<(usize, String)> {
    let columns = || view.rows.iter().flat_map(|row| &row.columns);
    let words = |class: StateClass| {
        let of_class = columns().filter(|column| main_class(column) == Some(class));
        let names = of_class.flat_map(Column::parts).map(|(part, _)| part_name(part));
        let names: BTreeSet<&str> = names.filter(|name| StateClass::of(name) == class).collect();
        let (letter, hue) = look(class);
        let letter = hue.map_or_else(|| letter.to_string(), |hue| paint(&letter.to_string(), hue, colour));
        let names = Vec::from_iter(names).join(", ");
        Some((names.len() + 2, format!("{letter} {names}"))).filter(|_| !names.is_empty())
    };
    let mut words: Vec<(usize, String)> = StateClass::ALL.into_iter().filter_map(words).collect();
    if columns().any(|column| main_class(column).is_none() && !column.is_empty()) {
        let blocks = paint("+▁▂▃▄▅▆▇", Paint::State(StateClass::On), colour);
        words.push((30, format!("{blocks} mixed: eighths on CPU")));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::off_cpu::WaitReason;
    use profile::view::wall::Part;

    fn view() -> Timeline {
        let columns = |cells: &[&[(Part, u64)]]| cells.iter().map(|parts| Column::of(parts)).collect();
        let row = |comm: &str, is_idle, cells: &[&[(Part, u64)]]| TimelineRow {
            pid: 7,
            tid: 8,
            comm: comm.to_owned(),
            label: comm.to_owned(),
            is_idle,
            columns: columns(cells),
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

    fn text(colour: bool, with_idle: bool) -> String {
        let mut out = Vec::new();
        let opts = TimelineTextOpts { colour, rows: 10, with_idle };
        write(&mut out, &view(), opts).expect("writing to memory");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn for_scripts_all_threads_are_there_with_names_of_states() {
        let value = to_json(&view());
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
        assert_eq!(
            (&value["threads"][1]["comm"], &value["threads"][1]["idle"]),
            (&json!("sleeper"), &json!(true))
        );
    }

    #[test]
    fn states_are_letters_and_idle_threads_one_line() {
        let plain = text(false, false);
        assert!(plain.contains("worker 8             │ █LL▂p│ 25.0% 25.0% 50.0%     ·"), "{plain}");
        assert!(plain.contains("mixed: eighths on CPU"), "{plain}");
        assert!(plain.contains("L futex") && plain.contains("1 idle thread not shown"), "{plain}");
        assert!(!plain.contains('\x1b') && !plain.contains("sleeper"));
        assert!(text(false, true).contains("sleeper 8            │......│"));
    }

    #[test]
    fn a_run_of_one_state_is_painted_once_in_the_palette_s_colours() {
        let painted = text(true, false);
        let lock = paint("LL", Paint::Block(StateClass::Lock), true);
        let mixed = paint("▂", Paint::Mixed(StateClass::On, StateClass::Preempted), true);
        assert!(painted.contains(&(lock + &mixed)), "{painted}");
    }

    #[test]
    fn states_of_one_class_share_its_letter_and_make_a_column_together() {
        let two = Column::of(&[
            (Part::Blocked(WaitReason::Disk), 500),
            (Part::Blocked(WaitReason::Fsync), 400),
            (Part::On, 100),
        ]);
        assert_eq!(look_of_column(&two), ('d', Some(Paint::Block(StateClass::Disk))));
    }
}
