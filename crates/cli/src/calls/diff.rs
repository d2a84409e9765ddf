//! Two recordings of calls compared: absolute times and counts.

use profile::calls::{DiffRow, FunctionId, Sums, diff};
use std::io::{self, Write};
use std::path::PathBuf;

use super::open::{Need, with_view};
use super::view_args::ViewArgs;
use crate::out::{self, harmless};
use crate::text::number;

/// Compare two recordings of calls: absolute times and counts, by function or by path
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  tally calls diff before.calls after.calls           functions, those that changed most first
  tally calls diff --paths -F parse before.calls after.calls   paths from parse() on")]
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
            Ok(diff((&old, &before), (&new, &after), args.paths))
        })
    })?;
    let mut to = out::stdout();
    write(&mut to, &rows)?;
    Ok(to.flush()?)
}

fn write(out: &mut impl Write, rows: &[DiffRow]) -> io::Result<()> {
    writeln!(
        out,
        "{:>10} {:>10} {:>10} {:>8}  {:>10} {:>11}  {:>13} {:>11}  {:>9} {:>9}  Function",
        "Self", "Self now", "Change", "", "Total now", "Change", "Calls now", "Change", "Avg", "Avg now"
    )?;
    for row in rows {
        let DiffRow { path, baseline, current } = row;
        writeln!(
            out,
            "{:>10} {:>10} {:>10} {:>8}  {:>10} {:>11}  {:>13} {:>11}  {:>9} {:>9}  {}",
            number::duration_ns(baseline.self_ns),
            number::duration_ns(current.self_ns),
            signed(row.self_delta_ns(), number::duration_ns),
            factor(baseline, current),
            number::duration_ns(current.total_ns),
            signed(row.total_delta_ns(), number::duration_ns),
            number::grouped(current.count),
            signed(row.count_delta(), number::grouped),
            time(baseline.avg_ns()),
            time(current.avg_ns()),
            harmless(&path.join(" > "))
        )?;
    }
    let self_ns = |side: fn(&DiffRow) -> Sums| rows.iter().map(|row| side(row).self_ns).sum::<u64>();
    let (before, after) = (self_ns(|row| row.baseline), self_ns(|row| row.current));
    writeln!(out, "\nall calls: {} before, {} now", number::duration_ns(before), number::duration_ns(after))
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
fn factor(baseline: &Sums, current: &Sums) -> String {
    match (baseline.count, current.count) {
        (0, _) => "new".to_owned(),
        (_, 0) => "gone".to_owned(),
        _ if baseline.self_ns == 0 => "-".to_owned(),
        _ => format!("x{:.2}", current.self_ns as f64 / baseline.self_ns as f64),
    }
}
