//! A frame as perf prints it: text, `-x` CSV, `-j` JSON lines.
//
// Source of the columns: perf 6.1's output, compared byte by byte (`perf stat … | cat -A`).

use std::io::{self, Write};

use super::metric_only;
use crate::terminal::foreign::{harmless, json};
use counts::{Aggregation, Cell, Count, CountFrame, CountKey, EventInfo, Metric, metrics};
use exchange::rows::SCHEMA_VERSION;

/// Width of the metric column, ` # ` included.
const METRIC_COLUMNS: usize = 35;

/// How to print frames.
#[derive(Debug, Clone)]
pub struct Style {
    /// Which form.
    pub form: Form,
    /// Thousands are set off by commas.
    pub big_num: bool,
    /// There are several runs, so each value has a spread.
    pub repeated: bool,
    /// Only what the counts mean, not the counts.
    pub metric_only: bool,
    /// The sums after intervals are marked as such in CSV.
    pub summary: bool,
}

/// The three forms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Text,
    /// Fields with this between them.
    Csv(String),
    /// A JSON object a line.
    Json,
}

impl Style {
    /// Prints every value of `frame`, one a line (metrics that need a line of their own below).
    pub fn print(&self, frame: &CountFrame<'_>, out: &mut dyn Write) -> io::Result<()> {
        if self.metric_only {
            return metric_only::print(&self.form, frame, out);
        }
        for (block, event) in frame.order() {
            let unit = &frame.blocks[block];
            let line = Line {
                style: self,
                frame,
                key: &unit.key,
                places: unit.places,
                event: &frame.events[event],
                cell: &unit.cells[event],
                metrics: metrics(frame.events, &unit.cells, event, frame.wall_ns),
            };
            match &self.form {
                Form::Text => line.text(out)?,
                Form::Csv(separator) => line.csv(separator, out)?,
                Form::Json => line.json(out)?,
            }
        }
        Ok(())
    }

    /// The heading of interval lines; nothing for JSON and CSV.
    pub fn interval_header(&self, by: Aggregation, out: &mut dyn Write) -> io::Result<()> {
        let columns = match by {
            Aggregation::Global => "            counts unit events",
            Aggregation::Cpu => "CPU                    counts unit events",
            Aggregation::Core => "core            cpus             counts unit events",
            Aggregation::Die => "die          cpus             counts unit events",
            Aggregation::Socket => "socket cpus             counts unit events",
            Aggregation::Node => "node   cpus             counts unit events",
            Aggregation::Thread => "            comm-pid                  counts unit events",
        };
        if self.form == Form::Text { writeln!(out, "#           time {columns}") } else { Ok(()) }
    }
}

/// One value with all that is on its line.
struct Line<'a> {
    style: &'a Style,
    frame: &'a CountFrame<'a>,
    key: &'a CountKey,
    places: usize,
    event: &'a EventInfo,
    cell: &'a Cell,
    metrics: Vec<Metric>,
}

impl Line<'_> {
    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let prefix = self.text_prefix();
        let unit_columns = self.frame.events.iter().map(|e| e.unit.len()).max().unwrap_or(0).max(4);
        let value = match self.cell {
            Cell::NotSupported => "<not supported>".to_owned(),
            Cell::NotCounted { .. } => "<not counted>".to_owned(),
            Cell::Counted(count) => self.number(count.value * self.event.scale),
        };
        let name = harmless(&self.event.name);
        let name_columns = if self.cell.value().is_some() { 32 } else { 25 };
        write!(out, "{prefix}{value:>18} {:<unit_columns$} {name:<name_columns$}", self.event.unit)?;
        if let Some(cgroup) = &self.event.cgroup {
            write!(out, " {}", harmless(cgroup))?;
        }
        let mut metrics = self.metrics.iter();
        write!(out, "{:<METRIC_COLUMNS$}", metrics.next().map(metric_text).unwrap_or_default())?;
        write!(out, "{}{}", self.spread(), self.running_text())?;
        writeln!(out)?;
        for more in metrics {
            writeln!(out, "{prefix}{:49}{}", "", metric_text(more))?;
        }
        Ok(())
    }

    fn number(&self, value: f64) -> String {
        let whole = self.event.scale.floor() == self.event.scale;
        let plain = if whole { format!("{value:.0}") } else { format!("{value:.2}") };
        if self.style.big_num { with_commas(&plain) } else { plain }
    }

    fn text_prefix(&self) -> String {
        text_prefix(self.frame.at_ns, self.key, self.places)
    }

    /// perf's `( +-  1.60% )`, and the interval that the true mean is in.
    fn spread(&self) -> String {
        let Cell::Counted(Count { series: Some(series), .. }) = self.cell else { return String::new() };
        if series.deviation_of_mean() == 0.0 {
            return String::new();
        }
        let noise = format!("  ( +-{:6.2}% )", series.deviation_pct());
        let bounds = series.interval_95().map(|(low, high)| {
            let bound = |v: f64| self.number(v.max(0.0) * self.event.scale);
            format!("  [95%: {} .. {}]", bound(low), bound(high))
        });
        noise + &bounds.unwrap_or_default()
    }

    fn running_text(&self) -> String {
        match self.running_pct() {
            Some(pct) => format!("  ({pct:.2}%)"),
            None => String::new(),
        }
    }

    /// Share of its time that the event was on the PMU; `None` if all of it.
    fn running_pct(&self) -> Option<f64> {
        let (enabled, running) = self.times();
        (enabled != running).then(|| 100.0 * running / enabled)
    }

    /// Time enabled and running, in ns.
    fn times(&self) -> (f64, f64) {
        match self.cell {
            Cell::NotSupported => (0.0, 0.0),
            Cell::NotCounted { enabled_ns } => (*enabled_ns, 0.0),
            Cell::Counted(count) => (count.enabled_ns, count.running_ns),
        }
    }

    fn csv(&self, sep: &str, out: &mut dyn Write) -> io::Result<()> {
        let prefix = self.csv_prefix(sep);
        let value = match self.cell {
            Cell::NotSupported => "<not supported>".to_owned(),
            Cell::NotCounted { .. } => "<not counted>".to_owned(),
            Cell::Counted(count) => self.number(count.value * self.event.scale),
        };
        write!(out, "{prefix}{value}{sep}{}{sep}{}{sep}", self.event.unit, harmless(&self.event.name))?;
        if let Some(cgroup) = &self.event.cgroup {
            write!(out, "{}{sep}", harmless(cgroup))?;
        }
        if self.style.repeated {
            write!(out, "{:.2}%{sep}", self.deviation_pct())?;
        }
        write!(out, "{:.0}{sep}{:.2}", self.times().1, self.running_pct().unwrap_or(100.0))?;
        let mut metrics = self.metrics.iter();
        match metrics.next() {
            Some(m) => writeln!(out, "{sep}{}{sep}{}", bare_number(&m.text), m.unit)?,
            None => writeln!(out, "{sep}{sep}")?,
        }
        let blanks = sep.repeat(if self.style.repeated { 6 } else { 5 });
        for m in metrics {
            writeln!(out, "{prefix}{blanks}{}{sep}{}", bare_number(&m.text), m.unit)?;
        }
        Ok(())
    }

    fn deviation_pct(&self) -> f64 {
        match self.cell {
            Cell::Counted(Count { series: Some(series), .. }) => series.deviation_pct(),
            _ => 0.0,
        }
    }

    fn csv_prefix(&self, sep: &str) -> String {
        let at =
            self.frame.at_ns.map(|ns| format!("{:>6}.{:09}{sep}", ns / 1_000_000_000, ns % 1_000_000_000));
        let places = self.places;
        let key = match self.key {
            CountKey::Global => String::new(),
            CountKey::Cpu(cpu) => format!("CPU{cpu}{sep}"),
            CountKey::Thread(tid, comm) => format!("{}-{tid}{sep}", harmless(comm)),
            key => format!("{}{sep}{places}{sep}", key_name(key)),
        };
        let mark = || if self.style.summary { format!("{:>16}{sep}", "summary") } else { String::new() };
        at.unwrap_or_else(mark) + &key
    }

    fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        let value = match self.cell {
            Cell::NotSupported => "<not supported>".to_owned(),
            Cell::NotCounted { .. } => "<not counted>".to_owned(),
            Cell::Counted(count) => format!("{:.6}", count.value * self.event.scale),
        };
        let (unit, name) = (json_text(&self.event.unit), json_text(&self.event.name));
        write!(
            out,
            "{{{}\"counter-value\" : \"{value}\", \"unit\" : {unit}, \"event\" : {name}, ",
            self.json_prefix()
        )?;
        if let Some(cgroup) = &self.event.cgroup {
            write!(out, "\"cgroup\" : {}, ", json_text(cgroup))?;
        }
        if self.style.repeated {
            write!(out, "\"variance\" : {:.2}, ", self.deviation_pct())?;
        }
        if let Cell::Counted(Count { series: Some(series), .. }) = self.cell
            && let Some((low, high)) = series.interval_95()
        {
            let scale = self.event.scale;
            write!(
                out,
                "\"interval-95-low\" : {:.6}, \"interval-95-high\" : {:.6}, ",
                low.max(0.0) * scale,
                high * scale
            )?;
        }
        let pct = self.running_pct().unwrap_or(100.0);
        write!(out, "\"event-runtime\" : {:.0}, \"pcnt-running\" : {pct:.2}, ", self.times().1)?;
        let mut metrics = self.metrics.iter();
        let (value, unit) = metrics.next().map_or((0.0, ""), |m| (m.value, m.unit.as_str()));
        let metric = |value: f64, unit: &str| {
            format!(
                "\"metric-value\" : {value:.6}, \"metric-unit\" : {}, \"schema_version\" : {SCHEMA_VERSION}}}",
                json_text(unit)
            )
        };
        writeln!(out, "{}", metric(value, unit))?;
        for m in metrics {
            writeln!(out, "{{{}", metric(m.value, &m.unit))?;
        }
        Ok(())
    }

    fn json_prefix(&self) -> String {
        let at = self
            .frame
            .at_ns
            .map(|ns| format!("\"interval\" : {}.{:09}, ", ns / 1_000_000_000, ns % 1_000_000_000));
        let aggregate = |what: &str| {
            format!("\"{what}\" : \"{}\", \"aggregate-number\" : {}, ", key_name(self.key), self.places)
        };
        let key = match self.key {
            CountKey::Global => String::new(),
            CountKey::Cpu(cpu) => format!("\"cpu\" : \"{cpu}\", "),
            CountKey::Core(..) => aggregate("core"),
            CountKey::Die(..) => aggregate("die"),
            CountKey::Socket(_) => aggregate("socket"),
            CountKey::Node(_) => aggregate("node"),
            CountKey::Thread(tid, comm) => format!("\"thread\" : {}, ", json_text(&format!("{comm}-{tid}"))),
        };
        at.unwrap_or_default() + &key
    }
}

/// Columns before a value: the time of the interval, and whose value it is.
pub(super) fn text_prefix(at_ns: Option<u64>, key: &CountKey, places: usize) -> String {
    let at = at_ns.map(|ns| format!("{:>6}.{:09} ", ns / 1_000_000_000, ns % 1_000_000_000));
    let key = match key {
        CountKey::Global => String::new(),
        CountKey::Cpu(cpu) => format!("CPU{cpu:<7} "),
        CountKey::Core(socket, die, core) => format!("S{socket}-D{die}-C{core:<8} {places:>4} "),
        CountKey::Die(socket, die) => format!("S{socket}-D{die:<8} {places:>4} "),
        CountKey::Socket(socket) => format!("S{socket:<5} {places:>4} "),
        CountKey::Node(node) => format!("N{node:<5} {places:>4} "),
        CountKey::Thread(tid, comm) => format!("{:>16}-{tid:<8} ", harmless(comm)),
    };
    at.unwrap_or_default() + &key
}

/// ` # ` with the number and its words.
fn metric_text(metric: &Metric) -> String {
    format!(" # {} {}", metric.text, metric.unit)
}

/// The digits of a metric's text, without blanks and percent signs.
pub(super) fn bare_number(text: &str) -> &str {
    text.trim().trim_end_matches(['%', ' '])
}

pub(super) fn key_name(key: &CountKey) -> String {
    match key {
        CountKey::Global => String::new(),
        CountKey::Cpu(cpu) => format!("CPU{cpu}"),
        CountKey::Core(socket, die, core) => format!("S{socket}-D{die}-C{core}"),
        CountKey::Die(socket, die) => format!("S{socket}-D{die}"),
        CountKey::Socket(socket) => format!("S{socket}"),
        CountKey::Node(node) => format!("N{node}"),
        CountKey::Thread(tid, comm) => format!("{comm}-{tid}"),
    }
}

pub(super) fn json_text(text: &str) -> String {
    json(&text.into())
}

/// Sets thousands off: `1234567.89` is `1,234,567.89`.
pub fn with_commas(number: &str) -> String {
    let (whole, fraction) = number.split_once('.').map_or((number, None), |(w, f)| (w, Some(f)));
    let digits = whole.trim_start_matches('-');
    let mut out = whole[..whole.len() - digits.len()].to_owned();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}
