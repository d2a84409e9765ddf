//! Two recordings of calls compared: absolute times and counts.

use calls::model::{CallSums, DiffRow, DiffUnit, FunctionId, diff};
use profile::grow::GrownSum as _;
use std::io::{self, Write};
use std::path::PathBuf;

use super::open::{Need, with_view};
use super::view_args::ViewArgs;
use crate::terminal::out::{self, harmless};
use display::number;

/// Compare two recordings of calls: absolute times and counts, by function or by path
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  tally calls diff before.calls after.calls           functions, those that changed most first
  tally calls diff --paths -F parse a.calls b.calls   paths from parse() on")]
pub struct Args {
    /// The recording before
    #[arg(value_name = "BASELINE")]
    pub baseline: PathBuf,
    /// The recording after
    #[arg(value_name = "CURRENT")]
    pub current: PathBuf,
    /// By path of calls instead of by function
    #[arg(long)]
    pub paths: bool,
    /// Which calls, on both sides.
    #[command(flatten)]
    pub view: ViewArgs,
}

/// Prints the comparison.
///
/// # Errors
/// If a recording can't be read.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let view = |input: &PathBuf| ViewArgs { input: input.clone(), ..args.view.clone() };
    let rows = with_view(&view(&args.baseline), Need::Sum { slowest: 0 }, |before, _| {
        let old = before.sum(0);
        with_view(&view(&args.current), Need::Sum { slowest: 0 }, |after, _| {
            let new = after.sum(0);
            let (before, after) = (
                |id: FunctionId| before.functions.of(id).name.clone(),
                |id: FunctionId| after.functions.of(id).name.clone(),
            );
            let unit = if args.paths { DiffUnit::Paths } else { DiffUnit::Functions };
            Ok(diff((&old, &before), (&new, &after), unit))
        })
    })?;
    let mut to = out::stdout();
    write(&mut to, &rows)?;
    Ok(to.flush()?)
}

fn write(out: &mut impl Write, rows: &[DiffRow]) -> io::Result<()> {
    // Where a recording has it: other programs' use of the machine is no change of this one.
    let is_split = rows.iter().any(|row| row.baseline.self_off_ns > 0 || row.current.self_off_ns > 0);
    let split = |on: &str, now: &str, factor: &str| match is_split {
        true => format!("  {on:>11} {now:>10} {factor:>8}"),
        false => String::new(),
    };
    writeln!(
        out,
        "{:>10} {:>10} {:>10} {:>8}{}  {:>10} {:>11}  {:>13} {:>11}  {:>9} {:>9}  Function",
        "Self",
        "Self now",
        "Change",
        "",
        split("Self on CPU", "now", ""),
        "Total now",
        "Change",
        "Calls now",
        "Change",
        "Avg",
        "Avg now"
    )?;
    for row in rows {
        let DiffRow { path, baseline, current } = row;
        writeln!(
            out,
            "{:>10} {:>10} {:>10} {:>8}{}  {:>10} {:>11}  {:>13} {:>11}  {:>9} {:>9}  {}",
            number::duration_ns(baseline.self_ns),
            number::duration_ns(current.self_ns),
            signed(row.self_delta_ns(), number::duration_ns),
            factor(baseline, current, |sums| sums.self_ns),
            split(
                &number::duration_ns(baseline.self_on_ns()),
                &number::duration_ns(current.self_on_ns()),
                &factor(baseline, current, CallSums::self_on_ns),
            ),
            number::duration_ns(current.total_ns),
            signed(row.total_delta_ns(), number::duration_ns),
            number::grouped(current.count),
            signed(row.count_delta(), number::grouped),
            time(baseline.avg_ns()),
            time(current.avg_ns()),
            harmless(&path.join(" > "))
        )?;
    }
    let sum = |side: fn(&DiffRow) -> CallSums, of: fn(&CallSums) -> u64| {
        number::duration_ns(rows.iter().map(|row| of(&side(row))).grown_sum())
    };
    let both = |of| (sum(|row| row.baseline, of), sum(|row| row.current, of));
    let (before, after) = both(|sums| sums.self_ns);
    write!(out, "\nall calls: {before} before, {after} now")?;
    if is_split {
        let (before, after) = both(CallSums::self_on_ns);
        write!(out, "; on the CPU {before} before, {after} now")?;
    }
    writeln!(out)
}

fn time(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), number::duration_ns)
}

/// `+12.3 ms`, `-5`, `0` without change.
fn signed(value: i64, text: fn(u64) -> String) -> String {
    let sign = match value {
        0 => "",
        1.. => "+",
        _ => "-",
    };
    format!("{sign}{}", text(value.unsigned_abs()))
}

/// How many times as long: `x0.42`; `new` and `gone` where one side has none.
fn factor(baseline: &CallSums, current: &CallSums, of: fn(&CallSums) -> u64) -> String {
    match (baseline.count, current.count) {
        (0, _) => "new".to_owned(),
        (_, 0) => "gone".to_owned(),
        _ if of(baseline) == 0 => "-".to_owned(),
        _ => format!("x{:.2}", of(current) as f64 / of(baseline) as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(off_ns: [u64; 2]) -> String {
        let side = |self_ns, self_off_ns| CallSums { count: 2, total_ns: self_ns, self_ns, self_off_ns };
        let [before, now] = off_ns;
        let (baseline, current) = (side(1_000_000, before), side(1_200_000, now));
        let row = DiffRow { path: vec!["fill".to_owned()], baseline, current };
        let mut text = Vec::new();
        write(&mut text, &[row]).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn time_on_the_cpu_is_compared_by_itself_where_it_is_known() {
        // Slower by the clock, for the machine was busy; faster on the CPU.
        let text = table([200_000, 800_000]);
        let words: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(words[6..12], ["x1.20", "800.0", "µs", "400.0", "µs", "x0.50"], "{text}");
        assert!(
            text.contains(
                "all calls: 1.000 ms before, 1.200 ms now; on the CPU 800.0 µs before, 400.0 µs now"
            ),
            "{text}"
        );
        let text = table([0, 0]);
        assert!(!text.contains("CPU") && text.ends_with("1.200 ms now\n"), "{text}");
    }
}
