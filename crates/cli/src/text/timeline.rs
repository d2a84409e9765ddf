//! Threads over time as strips of letters.

use super::fit::cut;
use super::number::duration_ns;
use super::wall::part_name;
use crate::out::harmless;
use crate::term::{Paint, paint};
use perfdata::off_cpu::State;
use profile::off_cpu::Reason;
use profile::view::timeline::{Timeline, TimelineRow};
use profile::view::wall::Part;
use serde_json::{Value, json};
use std::collections::BTreeMap;
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
/// Whatever writing says.
pub fn write(out: &mut dyn Write, view: &Timeline, opts: TimelineTextOpts) -> io::Result<()> {
    let colour = opts.colour;
    let (from, to) = view.span_ns;
    let heading = paint("TIMELINE", Paint::Bold, colour);
    writeln!(out, "{heading}     {} in columns of {}", duration_ns(to - from), duration_ns(view.column_ns))?;
    for line in legend(view, colour) {
        writeln!(out, "  {line}")?;
    }
    let width = view.rows.first().map_or(0, |row| row.cells.len());
    let at = |ns: u64| if ns == 0 { "0".to_owned() } else { format!("+{}", duration_ns(ns)) };
    let (begin, end) = (at(from), at(to));
    let fill = width.saturating_sub(begin.chars().count());
    writeln!(out, "\n{:NAME$} {begin}{end:>fill$}   {:>5} {:>5} {:>5} {:>5}", "", "on", "runq", "S", "D")?;
    let (idle, busy): (Vec<&TimelineRow>, Vec<&TimelineRow>) =
        view.rows.iter().partition(|row| row.is_idle && !opts.with_idle);
    for row in busy.iter().take(opts.rows) {
        writeln!(out, "{}", strip(row, colour))?;
    }
    if busy.len() > opts.rows {
        writeln!(out, "{} more threads (--rows)", busy.len() - opts.rows)?;
    }
    if !idle.is_empty() {
        let (threads, room) = (if idle.len() == 1 { "thread" } else { "threads" }, idle.len());
        let note = format!("{room} idle {threads} not shown: they wait for work (--idle shows them)");
        writeln!(out, "{}", paint(&note, Paint::Dim, colour))?;
    }
    Ok(())
}

/// The same for scripts: times in ns since the recording's begin, shares of a thread's life from 0 to 1, and by column
/// the name of what took most of it, null where the thread was not alive. Idle threads are there, and said to be.
#[must_use]
pub fn to_json(view: &Timeline) -> Value {
    let states = |row: &TimelineRow| -> serde_json::Map<String, Value> {
        let lived = State::ALL.iter().zip(row.states).filter(|(_, share)| *share > 0.0);
        lived.map(|(state, share)| (state.name().to_owned(), json!(share))).collect()
    };
    let thread = |row: &TimelineRow| {
        json!({
            "pid": row.pid, "tid": row.tid, "comm": row.comm, "idle": row.is_idle, "life_ns": row.life_ns,
            "shares": states(row),
            "cells": row.cells.iter().map(|cell| cell.map(part_name)).collect::<Vec<_>>(),
        })
    };
    json!({
        "from_ns": view.span_ns.0, "to_ns": view.span_ns.1, "column_ns": view.column_ns,
        "threads": view.rows.iter().map(thread).collect::<Vec<_>>(),
    })
}

fn strip(row: &TimelineRow, colour: bool) -> String {
    let name = cut(&harmless(&row.comm), NAME - 9);
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
    let mut text = String::new();
    for run in row.cells.chunk_by(|a, b| a == b) {
        let (letter, hue) = run[0].map_or((' ', None), look);
        let letters: String = std::iter::repeat_n(letter, run.len()).collect();
        text += &hue.map_or_else(|| letters.clone(), |hue| paint(&letters, hue, colour));
    }
    text
}

/// Letter and colour of a part: running is solid, idle a dot, waits are letters.
fn look(part: Part) -> (char, Option<Paint>) {
    let red = Some(Paint::Red);
    let cyan = Some(Paint::Cyan);
    match part {
        Part::On => ('█', Some(Paint::Green)),
        Part::Runnable => ('r', Some(Paint::Yellow)),
        Part::Preempted => ('p', Some(Paint::Yellow)),
        Part::Idle => ('·', Some(Paint::Dim)),
        Part::Blocked(reason) => match reason {
            Reason::Futex => ('f', red),
            Reason::KernelLock => ('k', red),
            Reason::FileLock => ('l', red),
            Reason::Disk => ('d', cyan),
            Reason::Fsync => ('y', cyan),
            Reason::PageFault => ('g', cyan),
            Reason::Memory => ('m', cyan),
            Reason::Socket => ('n', None),
            Reason::Pipe => ('i', None),
            Reason::Poll => ('e', None),
            Reason::Timer => ('t', None),
            Reason::Child => ('c', None),
            Reason::Aio => ('a', cyan),
            Reason::Tty => ('u', None),
            Reason::Signal => ('s', None),
            Reason::Ipc => ('q', None),
            Reason::Stopped => ('x', None),
            Reason::KernelThread => ('w', None),
            Reason::Other => ('o', None),
            Reason::NoStack | Reason::Earlier => ('-', None),
            Reason::Unknown => ('?', None),
        },
    }
}

/// What the letters met mean.
fn legend(view: &Timeline, colour: bool) -> Vec<String> {
    let met = view.rows.iter().flat_map(|row| row.cells.iter().copied().flatten());
    let parts: BTreeMap<Part, ()> = met.map(|part| (part, ())).collect();
    let word = |part: &Part| {
        let (letter, hue) = look(*part);
        let letter = hue.map_or_else(|| letter.to_string(), |hue| paint(&letter.to_string(), hue, colour));
        format!("{letter} {}", part_name(*part))
    };
    let words: Vec<String> = parts.keys().map(word).collect();
    words.chunks(6).map(|line| line.join("   ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> Timeline {
        let row = |comm: &str, is_idle, cells: &[Option<Part>]| TimelineRow {
            pid: 7,
            tid: 8,
            comm: comm.to_owned(),
            is_idle,
            cells: cells.to_vec(),
            life_ns: 4_000_000,
            states: [0.25, 0.0, 0.25, 0.5, 0.0, 0.0, 0.0, 0.0],
        };
        let (on, futex) = (Some(Part::On), Some(Part::Blocked(Reason::Futex)));
        let rows = vec![
            row("worker", false, &[None, on, futex, futex, Some(Part::Preempted)]),
            row("sleeper", true, &[Some(Part::Idle); 5]),
        ];
        Timeline { column_ns: 1_000_000, span_ns: (0, 5_000_000), rows }
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
        assert_eq!((&value["column_ns"], &value["to_ns"]), (&json!(1_000_000), &json!(5_000_000)));
        assert_eq!(value["threads"][0]["cells"], json!([null, "on CPU", "futex", "futex", "preempted"]));
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
        assert!(plain.contains("worker 8             │ █ffp│ 25.0% 25.0% 50.0%     ·"), "{plain}");
        assert!(plain.contains("f futex") && plain.contains("1 idle thread not shown"), "{plain}");
        assert!(!plain.contains('\x1b') && !plain.contains("sleeper"));
        assert!(text(false, true).contains("sleeper 8            │·····│"));
    }

    #[test]
    fn a_run_of_one_state_is_painted_once() {
        assert!(text(true, false).contains("\x1b[31mff\x1b[0m\x1b[33mp\x1b[0m"));
    }
}
