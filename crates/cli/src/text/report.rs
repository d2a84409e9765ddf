//! `report --stdio`: perf's text form of a report.
//
// Source: linux v6.1 tools/perf/ui/stdio/hist.c and builtin-report.c print this form; perf 6.1's own
// output on the same files is what the tests compare with. Differences: docs/perf-differences.md.

mod table;

use super::callgraph::GraphStyle;
use crate::terminal::out::harmless;
use profile::profile::Profile;
use profile::view::report::{Report, ReportOpts, ReportSection, SortKey};
use std::io::{self, Write};
use table::Table;

/// How a report is printed.
#[derive(Clone, Debug, Default)]
pub struct StdioOpts {
    /// Separates columns in place of blanks (`-t`); then values are not padded to line up percent signs.
    pub separator: Option<char>,
    /// Call graphs; `None` for none.
    pub graph: Option<GraphStyle>,
    /// Rows of a smaller share are not printed.
    pub min_percent: f64,
    /// Rows only: no comments.
    pub quiet: bool,
    /// The rows as a tree, a level for each key, made with these options; `None` for a table.
    pub tree: Option<ReportOpts>,
    /// Colour percentages.
    pub colour: bool,
    /// In the view of memory accesses the keys, for the head; `None` in all others.
    pub memory_keys: Option<String>,
    /// Widths of the columns from left to right, in characters; 0 and what is missing is the width of the content.
    pub widths: Vec<usize>,
    /// Columns not shown because all rows have this one value: (key, perf's word for it, the value).
    pub elided: Vec<(SortKey, &'static str, String)>,
    /// Totals count samples shown rather than all (`--percentage relative`).
    pub relative: bool,
    /// Print sections of events without samples.
    pub show_empty: bool,
    /// The events were put together for this report (`--group`), and were not recorded as a group.
    pub forced_group: bool,
    /// Children are shown: the row limit goes by them.
    pub children: bool,
    /// Lost samples to report in the head.
    pub lost_samples: u64,
    /// Replacement for perf's first line (the file's header), each line with `# `; `None` for the hint.
    pub header: Option<String>,
}

/// Prints the whole report.
///
/// # Errors
/// `out` can't be written.
pub fn write(out: &mut dyn Write, profile: &Profile, report: &Report, opts: &StdioOpts) -> io::Result<()> {
    if !opts.quiet {
        write_head(out, opts)?;
    }
    for section in &report.sections {
        let samples: u64 = section.totals.iter().map(|total| total.count).sum();
        // Sums of threads, without stacks: only for those who ask for this event alone.
        let is_sums = |&event: &usize| profile.events[event].name == perfdata::off_cpu::event_name::TOTALS;
        if report.sections.len() > 1 && section.events.iter().all(is_sums) {
            continue;
        }
        if samples == 0 && !opts.show_empty {
            continue;
        }
        let table = Table::new(profile, report, section, opts);
        if !opts.quiet {
            write_section_head(out, profile, section, opts)?;
            out.write_all(table.headings().as_bytes())?;
        }
        if opts.tree.is_some() {
            table.write_tree(out)?
        } else {
            table.write_rows(out)?
        }
        out.write_all(b"\n\n")?;
    }
    Ok(())
}

fn write_head(out: &mut dyn Write, opts: &StdioOpts) -> io::Result<()> {
    match &opts.header {
        Some(header) => out.write_all(header.as_bytes())?,
        None => writeln!(
            out,
            "# To display the perf.data header info, please use --header/--header-only options.\n#"
        )?,
    }
    for (_, word, value) in &opts.elided {
        writeln!(out, "# {word}: {}", harmless(value))?;
    }
    writeln!(out, "#\n# Total Lost Samples: {}\n#", opts.lost_samples)
}

fn write_section_head(
    out: &mut dyn Write,
    profile: &Profile,
    section: &ReportSection,
    opts: &StdioOpts,
) -> io::Result<()> {
    let sums = if opts.relative { &section.shown } else { &section.totals };
    let count = sums.iter().map(|sums| sums.count).sum();
    let period = sums.iter().fold(0u64, |sum, next| sum.wrapping_add(next.period));
    let plural = if section.events.len() > 1 { "s" } else { "" };
    let name = section.event_names(profile);
    let members = name.strip_prefix("anon group { ").and_then(|name| name.strip_suffix(" }"));
    let name = members.filter(|_| opts.forced_group).unwrap_or(&name);
    writeln!(out, "# Samples: {} of event{plural} '{}'", rounded_count(count), harmless(name))?;
    match &opts.memory_keys {
        Some(keys) => writeln!(out, "# Total weight : {period}\n# Sort order   : {keys}\n#"),
        None => writeln!(out, "# Event count (approx.): {period}\n#"),
    }
}

/// `3K`, `7 ` as perf shortens counts.
fn rounded_count(count: u64) -> String {
    const UNITS: [char; 4] = ['K', 'M', 'G', 'T'];
    let (mut value, mut unit) = (count, ' ');
    for next in UNITS {
        if value <= 1000 {
            break;
        }
        value /= 1000;
        unit = next;
    }
    format!("{value}{unit}")
}
