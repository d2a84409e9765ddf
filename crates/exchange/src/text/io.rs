//! Block I/O as text: sums, latencies, histograms, a heat map, and who caused it.

use super::histogram::{range, write_pair};
use crate::foreign::harmless;
use display::fit::{cut, cut_path};
use display::number::{brief_ns, bytes, duration_ns, grouped, size_1024};
use display::term::{Paint, paint};
use profile::tracepoints::block_io::Op;
use profile::view::io::{Amount, Io, Latencies, LatencyRow, Submitter};
use profile::view::wall::Histogram;
use std::io::{self, Write};

/// How to print.
#[derive(Clone, Copy)]
pub struct IoTextOpts<'n> {
    /// Columns.
    pub width: usize,
    /// With colours.
    pub colour: bool,
    /// Rows per list.
    pub rows: usize,
    /// Names of devices by their numbers.
    pub device: &'n dyn Fn(u32) -> String,
    /// Records lost.
    pub lost: u64,
}

/// Heading of the numbers in lists.
const COLUMNS: &str = "requests     bytes in device     p50     p99";

/// Columns of the labels left of a picture over time.
const LABEL: usize = 12;

/// Columns of pictures over time in so wide a terminal.
#[must_use]
pub fn columns(width: usize) -> usize {
    width.clamp(40, 132) - LABEL - 3
}

/// Prints the view.
///
/// # Errors
/// Standard output can't be written.
pub fn write(out: &mut dyn Write, view: &Io, opts: &IoTextOpts<'_>) -> io::Result<()> {
    let printer = Printer { view, opts };
    printer.whole(out)?;
    if view.whole.requests == 0 {
        return Ok(());
    }
    printer.latencies(out)?;
    view.by_op.iter().try_for_each(|(op, latencies)| printer.histogram(out, *op, latencies))?;
    printer.over_time(out)?;
    printer.files(out)?;
    printer.submitters(out)
}

struct Printer<'a> {
    view: &'a Io,
    opts: &'a IoTextOpts<'a>,
}

impl Printer<'_> {
    fn bold(&self, text: &str) -> String {
        paint(text, Paint::Bold, self.opts.colour)
    }

    fn whole(&self, out: &mut dyn Write) -> io::Result<()> {
        let view = self.view;
        let seconds = (view.wall_ns as f64 / 1e9).max(1e-9);
        let rate = view.whole.requests as f64 / seconds;
        writeln!(
            out,
            "{}    {} in {}: {} requests, {} a second",
            self.bold("BLOCK I/O"),
            amount(view.whole),
            duration_ns(view.wall_ns),
            grouped(rate.round() as u64),
            bytes((view.whole.bytes as f64 / seconds) as u64),
        )?;
        let devices =
            view.devices.iter().map(|(dev, of)| format!("{}: {}", (self.opts.device)(*dev), amount(*of)));
        let ops = view.ops.iter().map(|(op, of)| format!("{}: {}", op.name(), amount(*of)));
        for line in devices.chain(ops) {
            writeln!(out, "  {line}")?;
        }
        if view.whole.requests > 0 {
            let (mean, most) = view.time.in_flight;
            let busy = view.time.busy_ns as f64 * 100.0 / view.wall_ns.max(1) as f64;
            writeln!(
                out,
                "  in the device: {mean:.2} requests on average, {most} at most; busy {busy:.1} % of the time"
            )?;
        }
        self.notes(out)
    }

    /// Other events, and gaps in what could be seen.
    fn notes(&self, out: &mut dyn Write) -> io::Result<()> {
        let (view, counts) = (self.view, &self.view.counts);
        writeln!(
            out,
            "  merged into others {}, given back by the driver {}, split {}, failed {}",
            grouped(counts.merges),
            grouped(counts.requeues),
            grouped(counts.splits),
            grouped(view.failed)
        )?;
        let mut notes = Vec::new();
        if !view.knows_queue() {
            notes.push("time in the queue is not known: block:block_rq_insert was not recorded".to_owned());
        } else if view.direct > 0 {
            let direct = grouped(view.direct);
            notes.push(format!("{direct} went straight to the driver and have no time in the queue"));
        }
        let told = [
            (
                view.left_out.requests - view.left_out_flushes,
                "requests of other processes or devices are left out (-a shows all)",
            ),
            (view.left_out_flushes, "kernel threads' flushes are left out: their cause is not known"),
            (counts.only_completed, "completions of requests whose begin was not recorded"),
            (view.unfinished, "requests whose end was not recorded"),
            (counts.unreadable, "events could not be read: the file lacks their format"),
            (self.opts.lost, "records were lost: rings were full"),
        ];
        notes.extend(told.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", grouped(*n))));
        notes.iter().try_for_each(|note| writeln!(out, "  {}", paint(note, Paint::Dim, self.opts.colour)))
    }

    fn latencies(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "\n{}",
            self.bold("LATENCY      in the queue (inserted to issued) and in the device (issued to done)")
        )?;
        let four = format!("{:>7}{:>7}{:>7}{:>7}", "p50", "p90", "p99", "max");
        writeln!(out, "{:>8}  {:─^28} {:─^28}", "", " queue ", " device ")?;
        writeln!(out, "{:>8} {four} {four}  up to", "requests")?;
        let rows = self.view.rows.iter();
        let (shown, rest) = (rows.clone().take(self.opts.rows), rows.skip(self.opts.rows).count());
        for row in shown {
            writeln!(out, "{}", latency_line(row))?;
        }
        if rest > 0 {
            writeln!(out, "{rest:>8} more rows (--rows)")?;
        }
        Ok(())
    }

    fn histogram(&self, out: &mut dyn Write, op: Op, of: &Latencies) -> io::Result<()> {
        if of.device.count() + of.queue.count() == 0 {
            return Ok(());
        }
        let heading = format!("{:<12} how many requests took how long", op.name().to_uppercase());
        writeln!(out, "\n{}", self.bold(&heading))?;
        let width = (self.opts.width.clamp(60, 120) - 38) / 2;
        write_pair(out, ["queue", "device"], [&of.queue, &of.device], width)
    }

    fn over_time(&self, out: &mut dyn Write) -> io::Result<()> {
        let time = &self.view.time;
        if time.heat.is_empty() {
            return Ok(());
        }
        let heading = format!(
            "OVER TIME    time in the device; a column is {}, darker is more requests",
            duration_ns(time.slice_ns)
        );
        writeln!(out, "\n{}", self.bold(&heading))?;
        let most = time.heat.iter().flat_map(|row| &row.counts).copied().max().unwrap_or(1);
        for row in time.heat.iter().rev() {
            let cells: String = row.counts.iter().map(|&n| shade(n, most)).collect();
            let range = range(row.from_ns);
            writeln!(out, "{range:>LABEL$} │{cells}│")?;
        }
        let flying: Vec<f64> = time.slices.iter().map(|slice| slice.in_flight).collect();
        let moved: Vec<f64> = time.slices.iter().map(|slice| slice.bytes as f64).collect();
        let top = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        writeln!(out, "{:>LABEL$} │{}│ up to {:.1}", "in flight", strip(&flying), top(&flying))?;
        let per_second = top(&moved) * 1e9 / time.slice_ns as f64;
        writeln!(out, "{:>LABEL$} │{}│ up to {}/s", "bytes", strip(&moved), bytes(per_second as u64))?;
        let end = duration_ns(self.view.wall_ns);
        let width = time.slices.len();
        writeln!(out, "{:>LABEL$}  0{end:>fill$}", "", fill = width.saturating_sub(1))
    }

    fn files(&self, out: &mut dyn Write) -> io::Result<()> {
        let files = &self.view.files;
        if files.rows.is_empty() {
            return self.no_files(out);
        }
        let (named, all) = files.named_bytes();
        let percent = named as f64 * 100.0 / all.max(1) as f64;
        let heading =
            format!("FILES        {percent:.1} % of the bytes have a name; most time in the device first");
        writeln!(out, "\n{}", self.bold(&heading))?;
        writeln!(out, "{COLUMNS}")?;
        for row in files.rows.iter().take(self.opts.rows) {
            let by = if row.by_writeback { ", by writeback" } else { "" };
            let room =
                self.opts.width.max(60).saturating_sub(COLUMNS.len() + 3 + row.op.name().len() + by.len());
            let what = format!("{} {}{by}", row.op.name(), cut_path(&row.target.words(), room.max(28)));
            let amount = Amount { requests: row.requests, bytes: row.bytes };
            self.row(out, amount, &row.latencies, &what)?;
        }
        self.more(out, files.rows.len())
    }

    fn no_files(&self, out: &mut dyn Write) -> io::Result<()> {
        match self.view.files.refused.as_str() {
            "" => Ok(()),
            why => writeln!(out, "\n{}  not known: {}", self.bold("FILES      "), harmless(why)),
        }
    }

    /// A row of a list: numbers, then words.
    fn row(&self, out: &mut dyn Write, of: Amount, latencies: &Latencies, words: &str) -> io::Result<()> {
        let [p50, p99] = [50.0, 99.0].map(|pct| brief_ns(latencies.device.percentile_ns(pct)));
        let line = format!(
            "{:>8} {:>9} {:>9} {p50:>7} {p99:>7}  {}",
            grouped(of.requests),
            bytes(of.bytes),
            brief_ns(latencies.device_total_ns),
            harmless(words)
        );
        writeln!(out, "{}", cut(&line, self.opts.width.max(60)))
    }

    fn more(&self, out: &mut dyn Write, rows: usize) -> io::Result<()> {
        match rows.saturating_sub(self.opts.rows) {
            0 => Ok(()),
            rest => writeln!(out, "{rest:>8} more (--rows)"),
        }
    }

    fn submitters(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "\n{}", self.bold("SUBMITTERS   who caused them, most time in the device first"))?;
        writeln!(out, "{COLUMNS}")?;
        for row in self.view.submitters.iter().take(self.opts.rows) {
            self.submitter(out, row)?;
        }
        self.more(out, self.view.submitters.len())
    }

    fn submitter(&self, out: &mut dyn Write, row: &Submitter) -> io::Result<()> {
        let cause = if row.cause.is_empty() { String::new() } else { format!(": {}", row.cause) };
        let who = format!("{} {} {}{cause}", row.op.name(), row.comm, row.pid);
        let amount = Amount { requests: row.requests, bytes: row.bytes };
        self.row(out, amount, &row.latencies, &who)?;
        if row.functions.is_empty() {
            return Ok(());
        }
        let path = format!("{:>8} {}", "", harmless(&row.functions.join(" ← ")));
        let width = self.opts.width.max(60);
        writeln!(out, "{}", paint(&cut(&path, width), Paint::Dim, self.opts.colour))
    }
}

fn amount(of: Amount) -> String {
    let requests = if of.requests == 1 { "request" } else { "requests" };
    format!("{} {requests}, {}", grouped(of.requests), bytes(of.bytes))
}

fn latency_line(row: &LatencyRow) -> String {
    let size = if row.size == 0 { String::new() } else { format!(" {}", size_1024(row.size)) };
    let (queue, device) = (four(&row.latencies.queue), four(&row.latencies.device));
    format!("{:>8} {queue} {device}  {}{size}", grouped(row.requests), row.op.name())
}

/// p50, p90, p99 and longest.
fn four(histogram: &Histogram) -> String {
    if histogram.count() == 0 {
        return format!("{:>7}{:>7}{:>7}{:>7}", "·", "·", "·", "·");
    }
    let cell = |ns: u64| format!("{:>7}", brief_ns(ns));
    let cells = [50.0, 90.0, 99.0].map(|pct| cell(histogram.percentile_ns(pct)));
    cells.concat() + &cell(histogram.max_ns())
}

/// A cell of the heat map; anything at all is visible.
fn shade(n: u64, most: u64) -> char {
    const SHADES: [char; 4] = ['░', '▒', '▓', '█'];
    if n == 0 { ' ' } else { SHADES[((n * 4).div_ceil(most.max(1)) as usize).clamp(1, 4) - 1] }
}

/// Values over time as columns of one line.
fn strip(values: &[f64]) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().copied().fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let level =
        |v: &f64| if *v <= 0.0 { ' ' } else { LEVELS[((v / most * 8.0).ceil() as usize).clamp(1, 8) - 1] };
    values.iter().map(level).collect()
}
