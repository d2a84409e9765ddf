//! Threads over time as strips of letters: one where a class of states took three quarters of a column, a block as high
//! as the share on the CPU where none did.

use crate::foreign::harmless;
use display::fit::{cut_name, flow, hang};
use display::number::{count_of, duration_ns};
use display::palette::StateClass;
use display::term::{Paint, paint};
use perfdata::off_cpu::State;
use profile::view::ranking::RankRows as _;
use profile::view::timeline::{Column, PathStrip, Timeline, TimelineRow};
use profile::view::wall::{part_name, part_words};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// How to print.
#[derive(Clone, Copy, Debug)]
pub struct TimelineTextOpts {
    /// Columns of the terminal.
    pub width: usize,
    /// With colours.
    pub colour: bool,
    /// Threads shown.
    pub rows: usize,
    /// Idle threads are shown like all others.
    pub with_idle: bool,
}

/// Columns of a thread's name.
const NAME: usize = 20;
/// Most lines about what was waited for.
const MOST_TARGETS: usize = 10;
/// Columns of the shares right of a strip.
const SHARES: usize = 24;

/// Columns of the strips in so wide a terminal.
#[must_use]
pub fn columns(width: usize) -> usize {
    width.clamp(60, 400) - NAME - SHARES - 3
}

/// Prints the view, with the critical path if there is one.
///
/// # Errors
/// Standard output can't be written.
pub fn write(
    out: &mut dyn Write,
    view: &Timeline,
    path: Option<&PathStrip>,
    opts: TimelineTextOpts,
) -> io::Result<()> {
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
    if let Some(path) = path {
        write_path(out, path, opts)?;
    }
    write_targets(out, &busy, opts)
}

/// Prints a letter per column for the thread that the run waited for, and whose letters they are.
fn write_path(out: &mut dyn Write, path: &PathStrip, opts: TimelineTextOpts) -> io::Result<()> {
    let letters: String = path.columns.iter().map(|at| at.map_or(' ', letter_of)).collect();
    writeln!(
        out,
        "\n{}",
        paint(&format!("{:NAME$} │{letters}│", "critical path"), Paint::Bold, opts.colour)
    )?;
    let whole: u64 = path.threads.iter().map(|(_, ns)| ns).sum();
    let shown = path.threads.iter().enumerate().filter(|(at, _)| path.columns.contains(&Some(*at)));
    let words = shown.map(|(at, (name, ns))| {
        let share = *ns as f64 * 100.0 / whole.max(1) as f64;
        let text = format!("{} {} {share:.0}%", letter_of(at), harmless(name));
        (text.chars().count(), text)
    });
    for line in flow(words.collect(), path.columns.len() + NAME + SHARES) {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

/// Letter of the path's thread with this number; `*` after the last.
fn letter_of(at: usize) -> char {
    u8::try_from(at).ok().filter(|at| *at < 26).map_or('*', |at| char::from(b'A' + at))
}

/// Prints what the threads shown waited for most.
fn write_targets(out: &mut dyn Write, rows: &[&TimelineRow], opts: TimelineTextOpts) -> io::Result<()> {
    let of = |row: &&'_ TimelineRow| row.targets.iter().map(move |target| target.ns).sum::<u64>();
    if rows.iter().all(|row| of(row) == 0) {
        return Ok(());
    }
    // Threads of one name as one line.
    let mut sums: BTreeMap<(&str, String), (u64, BTreeSet<i32>)> = BTreeMap::new();
    for row in rows.iter().take(opts.rows) {
        for target in &row.targets {
            let words = part_words(target.part, &target.name);
            let (ns, threads) = sums.entry((&row.label, words)).or_default();
            *ns = ns.saturating_add(target.ns);
            threads.insert(row.tid);
        }
    }
    let line = |((label, words), (ns, threads)): ((&str, String), (u64, BTreeSet<i32>))| {
        let whose = match threads.len() {
            1 => threads.first().map_or_else(String::new, i32::to_string),
            count => format!("({count} threads)"),
        };
        (ns, format!("{label} {whose}: {words}"))
    };
    let mut waits: Vec<(u64, String)> = sums.into_iter().map(line).collect();
    waits.rank_by(|a, b| (Reverse(a.0), &a.1).cmp(&(Reverse(b.0), &b.1)));
    writeln!(out, "\n{}", paint("WAITED FOR", Paint::Bold, opts.colour))?;
    for (ns, words) in waits.iter().take(MOST_TARGETS.min(opts.rows)) {
        writeln!(out, "{}", hang(&format!("{:>10}  {}", duration_ns(*ns), harmless(words)), 12, opts.width))?;
    }
    Ok(())
}

fn strip(row: &TimelineRow, colour: bool) -> String {
    let name = cut_name(&harmless(&row.label), NAME - 9);
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
    sums.rank_by_key(|&(_, ns)| Reverse(ns));
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
    use crate::rows::two_threads;
    use profile::off_cpu::WaitReason;
    use profile::view::timeline::TimelineTarget;
    use profile::view::wall::Part;

    fn view() -> Timeline {
        let mut view = two_threads();
        view.rows.iter_mut().for_each(|row| row.targets.clear());
        view
    }

    fn text(colour: bool, with_idle: bool) -> String {
        let mut out = Vec::new();
        let opts = TimelineTextOpts { width: 80, colour, rows: 10, with_idle };
        write(&mut out, &view(), None, opts).expect("writing to memory");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn the_path_and_the_targets_are_below_the_strips() {
        let mut view = view();
        let target = |name: &str, ns| TimelineTarget {
            part: Part::Blocked(WaitReason::Socket),
            name: name.to_owned(),
            ns,
        };
        view.rows[0].targets = vec![target("socket to a 5", 3_000_000), target("b", 2_000_000)];
        let threads = vec![("worker".to_owned(), 3_000_000), ("main".to_owned(), 1_000_000)];
        let path = PathStrip { threads, columns: vec![None, Some(0), Some(0), Some(1), Some(0), Some(0)] };
        let mut out = Vec::new();
        let opts = TimelineTextOpts { width: 80, colour: false, rows: 10, with_idle: false };
        write(&mut out, &view, Some(&path), opts).expect("writing to memory");
        let text = String::from_utf8(out).expect("UTF-8");
        assert!(text.contains("critical path        │ AABAA│\n  A worker 75%   B main 25%\n"), "{text}");
        let waits = "WAITED FOR\n  3.000 ms  worker 8: socket to a 5\n  2.000 ms  worker 8: socket: b\n";
        assert!(text.ends_with(waits), "{text}");
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
