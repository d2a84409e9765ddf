//! The cost of a program's recording of itself, estimated beforehand by a tree of calls through the same hooks in a
//! process of our own, and after, by the calls that were recorded and the CPU time that was used.

use anyhow::Context;
use record::output_file;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::own_folder;
use super::preloaded_tracer::PreloadedTracer;
use super::record_spec::RecordSpec;
use crate::terminal::out;
use calls::instrumented::overhead::{CallOverhead, LEAF_BYTES, SpentTime, measured_methods};
use calls::instrumented::sleds::Instrumented;
use calls::recording::folder::Summary;
use display::number;
use tracer::layout;

/// Measures it, with the tracer and into the file system of the recording. `None` where the tracer can't be
/// loaded into tally itself, or can't measure (aarch64).
fn measure(args: &RecordSpec, tracer: &PreloadedTracer, ways: &str) -> Option<CallOverhead> {
    let folder = own_folder::make_measured(&args.output.canonicalize().ok()?).ok()?;
    let mut command = Command::new(std::env::current_exe().ok()?);
    command.arg("--version").stdin(Stdio::null()).stderr(Stdio::null());
    command.env("LD_PRELOAD", tracer.path()).env(layout::DIR_VARIABLE, &folder);
    command.env(layout::MEASURE_VARIABLE, ways);
    if let Some(ns) = args.min_ns {
        command.env(layout::MIN_VARIABLE, ns.to_string());
    }
    if let Some(bytes) = args.max_bytes {
        command.env(layout::KEEP_VARIABLE, bytes.to_string());
    }
    let printed = command.output();
    own_folder::remove_measured(&folder);
    CallOverhead::parse(&String::from_utf8_lossy(&printed.ok()?.stdout))
}

/// The line before the program runs.
fn before(price: &CallOverhead, found: &Instrumented) -> String {
    let cost = price.call;
    let values = price.valued.map_or(String::new(), |valued| {
        format!(" (with a value recorded {:.0} ns, {:.0} bytes)", valued.tree_ns, valued.tree_bytes)
    });
    format!(
        "tally calls: {}; a call costs about {:.0} ns and 8 bytes here, {:.0} ns and 16 bytes if it makes others{values}: \
             1,000,000 calls/s would take {:.1} % of a CPU and {}/s",
        functions(found),
        cost.leaf_ns,
        cost.ns(2.0 * LEAF_BYTES),
        cost.tree_ns / 10.0,
        number::bytes((cost.tree_bytes * 1e6) as u64)
    )
}

fn functions(found: &Instrumented) -> String {
    let imports = match found.imports.len() {
        0 => String::new(),
        n => format!(", {} imported", number::grouped(n as u64)),
    };
    let own = found.wanted_sleds + found.wanted_calls;
    if found.reports() && own == 0 {
        return format!("all functions report themselves{imports}");
    }
    format!("{} functions record themselves{imports}", number::grouped(own as u64))
}

/// A price that was reported before the run.
pub struct OverheadEstimate {
    price: CallOverhead,
    ways: String,
}

impl OverheadEstimate {
    /// Measures the price, and prints the estimate.
    #[must_use]
    pub fn now(args: &RecordSpec, tracer: &PreloadedTracer, found: &Instrumented) -> Option<Self> {
        let ways = measured_methods(found);
        let price = measure(args, tracer, &ways)?;
        out::note(&before(&price, found));
        Some(Self { price, ways })
    }

    /// The price of the run: the machine's speed changes, so it is measured again, and is between the two.
    #[must_use]
    pub fn of_run(&self, args: &RecordSpec, tracer: &PreloadedTracer) -> CallOverhead {
        measure(args, tracer, &self.ways).map_or(self.price, |after| self.price.mean(after))
    }
}

/// Notes the line of [`after`] besides what else is known of the run.
///
/// # Errors
/// If it can't be written.
pub fn note(dir: &Path, cost: &str) -> anyhow::Result<()> {
    let mut info = output_file::append_part(&dir.join("info"))?;
    writeln!(info, "{cost}").context("can't write the recording's info")
}

/// Cost of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourceUse {
    /// From start to end, ns.
    pub wall_ns: u64,
    /// CPU time of the program, and of who recorded its context switches, ns.
    pub cpu_ns: u64,
}

/// The line after it. `price` being unknown, only rates are reported; `drops`: calls were dropped that cost, too.
#[must_use]
pub fn after(
    price: Option<CallOverhead>,
    summary: &Summary,
    used: ResourceUse,
    drops: bool,
) -> Option<String> {
    let calls_per_s = summary.calls as f64 * 1e9 / used.wall_ns.max(1) as f64;
    if summary.calls == 0 || used.wall_ns == 0 {
        return None;
    }
    let rate = format!(
        "{} calls/s, {}/s",
        number::grouped(calls_per_s as u64),
        number::bytes((summary.bytes as f64 * 1e9 / used.wall_ns as f64) as u64)
    );
    let Some(price) = price else {
        return Some(format!("cost {rate}; the cost of a call is not known here"));
    };
    let SpentTime { all_ns: spent_ns, each_ns } = price.spent(summary);
    let mut line = format!(
        "cost {rate}; {} calls at about {each_ns:.0} ns are {}",
        number::grouped(summary.calls),
        number::duration_ns(spent_ns as u64)
    );
    if used.cpu_ns > 0 {
        line += &format!(
            ", {:.1} % of the {} of CPU used",
            spent_ns * 100.0 / (used.cpu_ns as f64).max(spent_ns),
            number::duration_ns(used.cpu_ns)
        );
    }
    if drops {
        line += "; the calls that were dropped cost as much each and are not counted here";
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: &str = "s 30000 40000 12000\nv 110000 120500 40000\n";

    #[test]
    fn calls_with_values_are_counted_at_their_own_price() {
        let summary = Summary {
            threads: 1,
            calls: 1_000_000,
            valued: 500_000,
            bytes: 12_000_000,
            ..Summary::default()
        };
        let used = ResourceUse { wall_ns: 1_000_000_000, cpu_ns: 800_000_000 };
        let line = after(CallOverhead::parse(PRICE), &summary, used, false).expect("a line");
        let wanted = "cost 1,000,000 calls/s, 12.00 MB/s; 1,000,000 calls at about 80 ns are 80.25 ms, 10.0 % of the \
                      800.0 ms of CPU used";
        assert_eq!(line, wanted);
        assert!(after(None, &summary, used, false).is_some_and(|line| line.ends_with("not known here")));
    }
}
