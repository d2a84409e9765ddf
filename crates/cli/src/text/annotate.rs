//! `annotate --stdio`: listings in perf's form.

use crate::terminal::out::{harmless, shown};
use anyhow::bail;
use display::number::count_of;
use display::term::{Paint, paint};
use profile::profile::Sums;
use profile::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;
use std::fmt::Write;
use symbols::listing::{CodeLine, Line, Listing};

/// How listings are printed.
#[derive(Clone, Debug, Default)]
pub struct AnnotateText {
    /// The events shown side by side.
    pub events: Vec<usize>,
    /// Name in the heading.
    pub title: String,
    /// Meaning of the number before an instruction.
    pub shows: Shows,
    /// Base of percentages.
    pub percent: PercentType,
    /// By event: all samples of the recording, for the percentages of everything.
    pub whole: Vec<Sums>,
    /// The hottest source lines before the code, and the line after each instruction that was hit.
    pub print_lines: bool,
    /// File names with their folders.
    pub full_paths: bool,
    /// Bytes of each instruction before its text, from this function.
    pub raw: bool,
    /// Colours.
    pub colour: bool,
    /// Only lines this near to one with samples; `None` for all.
    pub context: Option<usize>,
}

/// Columns before each instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shows {
    /// Share.
    #[default]
    Percent,
    /// Number of samples.
    Samples,
    /// Sum of periods.
    Period,
}

/// Base of percentages (`--percent-type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PercentType {
    /// Shares are of the whole recording rather than the function.
    pub global: bool,
    /// Shares are of the number of samples rather than their periods.
    pub hits: bool,
}

impl PercentType {
    /// Reads `local-period`, `global-hits` … in either order of the two words, one of them may be missing.
    ///
    /// # Errors
    /// If a word is none of the four.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let mut parsed = Self::default();
        for word in text.split('-') {
            match word {
                "local" => parsed.global = false,
                "global" => parsed.global = true,
                "period" => parsed.hits = false,
                "hits" => parsed.hits = true,
                _ => bail!(
                    "--percent-type: '{text}' is none of local-period, local-hits, global-period, global-hits"
                ),
            }
        }
        Ok(parsed)
    }

    fn words(self) -> String {
        let base = if self.global { "global" } else { "local" };
        format!("{base} {}", if self.hits { "hits" } else { "period" })
    }
}

/// Lines under this share are left out of the summary, as perf does.
const SUMMARY_PERCENT: f64 = 0.5;
/// Hot and warm, as perf colours them.
const RED_PERCENT: f64 = 5.0;
const GREEN_PERCENT: f64 = 0.5;

/// Appends the text of `listing` to `out`. `code` gives an instruction's bytes.
pub fn write(out: &mut String, listing: &Listing, opts: &AnnotateText, code: &dyn Fn(&CodeLine) -> Vec<u8>) {
    if opts.print_lines {
        write_summary(out, listing, opts);
    }
    let samples: u64 = opts.events.iter().map(|&e| listing.totals[e].count).sum();
    let (kind, each) = match opts.shows {
        Shows::Percent => ("Percent", 8),
        Shows::Samples => ("Samples", 8),
        Shows::Period => ("Period", 12),
    };
    let width = each * opts.events.len();
    let shown_code = if listing.is_of_source() { "Source code" } else { "Source code & Disassembly" };
    let title = format!(
        " {kind:<width$}|\t{shown_code} of {} for {} ({samples} samples, percent: {})",
        harmless(&listing.dso),
        harmless(&opts.title),
        opts.percent.words()
    );
    let _ = writeln!(out, "{title}\n{}", "-".repeat(columns(&title)));
    write_head(out, listing, width);
    let near = near_samples(listing, opts);
    let mut left_out = 0usize;
    for (line, is_near) in listing.lines.iter().zip(near) {
        if !is_near {
            left_out += 1;
            continue;
        }
        write_gap(out, width, std::mem::take(&mut left_out));
        match line {
            Line::Function(name) => side(out, width, format_args!("     {}:", shown(name))),
            Line::Place { file, line } => {
                side(out, width, format_args!("     {}:{line}", harmless(shortened(file, opts))));
            }
            Line::Source { line, text } => side(out, width, format_args!("{line:<4} {}", with_tabs(text))),
            Line::Statement { line, text, sums, .. } => {
                write_numbers(out, listing, sums, opts);
                let _ = writeln!(out, " : {line:<4} {}", with_tabs(text));
            }
            Line::Code(code_line) => write_code(out, listing, code_line, opts, code),
        }
    }
    write_gap(out, width, left_out);
}

/// Source as it is written: harmless, but with its tabs.
fn with_tabs(text: &str) -> String {
    text.split('\t').map(shown).collect::<Vec<_>>().join("\t")
}

/// By line: whether it is within `opts.context` of one with samples.
fn near_samples(listing: &Listing, opts: &AnnotateText) -> Vec<bool> {
    let Some(context) = opts.context else { return vec![true; listing.lines.len()] };
    let mut near = vec![false; listing.lines.len()];
    for (at, line) in listing.lines.iter().enumerate() {
        if opts.events.iter().any(|&event| line.sums(event).count > 0) {
            let end = near.len().min(at + context + 1);
            near[at.saturating_sub(context)..end].fill(true);
        }
    }
    near
}

fn write_gap(out: &mut String, width: usize, lines: usize) {
    if lines > 0 {
        let words = count_of(lines as u64, "line", "lines");
        side(out, width, format_args!("     … {words} without samples (--all)"));
    }
}

/// Width on the screen of a text with a tab.
fn columns(text: &str) -> usize {
    text.chars().fold(0, |at, c| if c == '\t' { (at / 8 + 1) * 8 } else { at + 1 })
}

fn write_head(out: &mut String, listing: &Listing, width: usize) {
    if let Some(why) = listing.no_code {
        side(out, width, format_args!("     {}: no code to show: {why}", shown(&listing.name)));
        return;
    }
    side(out, width, format_args!(""));
    if listing.is_of_source() {
        side(out, width, format_args!("     {}:", shown(&listing.name)));
        return;
    }
    side(out, width, format_args!("     Disassembly of section {}:", harmless(&listing.section)));
    side(out, width, format_args!(""));
    side(out, width, format_args!("     {:016x} <{}>:", listing.start.0, shown(&listing.name)));
}

/// A line without numbers.
fn side(out: &mut String, width: usize, text: std::fmt::Arguments<'_>) {
    let at = out.len();
    let _ = write!(out, "{:width$} : {text}", "");
    out.truncate(at + out[at..].trim_end().len());
    out.push('\n');
}

/// Columns before a line that has samples, or could have: a number for each event.
fn write_numbers(out: &mut String, listing: &Listing, sums: &[Sums], opts: &AnnotateText) {
    for &event in &opts.events {
        out.push_str(&number(sums[event], opts.base(listing, event), opts));
    }
}

fn write_code(
    out: &mut String,
    listing: &Listing,
    line: &CodeLine,
    opts: &AnnotateText,
    code: &dyn Fn(&CodeLine) -> Vec<u8>,
) {
    write_numbers(out, listing, &line.sums, opts);
    let _ = write!(out, " :   {:x}:   ", line.svma.0);
    if opts.raw {
        let bytes: Vec<String> = code(line).iter().map(|b| format!("{b:02x}")).collect();
        let _ = write!(out, "{:<22} ", bytes.join(" "));
    }
    out.push_str(&with_tabs(&line.text));
    let is_hit = opts.events.iter().any(|&event| line.sums[event].count > 0);
    if let Some((file, number)) = line.place.as_ref().filter(|_| opts.print_lines && is_hit) {
        let _ = write!(out, " // {}:{number}", harmless(shortened(file, opts)));
    }
    out.truncate(out.trim_end_matches(' ').len());
    out.push('\n');
}

fn number(part: Sums, whole: Sums, opts: &AnnotateText) -> String {
    match opts.shows {
        Shows::Samples => return format!("{:8}", part.count),
        Shows::Period => return format!("{:12}", part.period),
        Shows::Percent => {}
    }
    let percent = opts.share(part, whole);
    coloured(format!("{percent:8.2}"), percent, opts.colour)
}

fn coloured(text: String, percent: f64, on: bool) -> String {
    match percent {
        p if p >= RED_PERCENT => paint(&text, Paint::Red, on),
        p if p >= GREEN_PERCENT => paint(&text, Paint::Green, on),
        _ => text,
    }
}

impl AnnotateText {
    /// Base of the percentages of `event`.
    fn base(&self, listing: &Listing, event: usize) -> Sums {
        if self.percent.global {
            self.whole.get(event).copied().unwrap_or_default()
        } else {
            listing.totals[event]
        }
    }

    fn share(&self, part: Sums, whole: Sums) -> f64 {
        if self.percent.hits { percent(part.count, whole.count) } else { percent(part.period, whole.period) }
    }
}

/// 0 of 0 is 0.
fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

fn shortened<'a>(file: &'a str, opts: &AnnotateText) -> &'a str {
    if opts.full_paths { file } else { file.rsplit('/').next().unwrap_or(file) }
}

/// The function's lines by share, hottest first.
fn write_summary(out: &mut String, listing: &Listing, opts: &AnnotateText) {
    let mut by_line: FxHashMap<(&str, u32), Vec<Sums>> = FxHashMap::default();
    for line in &listing.lines {
        let (place, sums) = match line {
            Line::Code(CodeLine { place: Some((file, number)), sums, .. }) => {
                ((file.as_str(), *number), sums)
            }
            Line::Statement { file, line, sums, .. } => ((file.as_str(), *line), sums),
            _ => continue,
        };
        let known = by_line.entry(place).or_insert_with(|| vec![Sums::default(); sums.len()]);
        known.iter_mut().zip(sums).for_each(|(sum, more)| sum.add(*more));
    }
    let shares = |sums: &[Sums]| -> Vec<f64> {
        opts.events.iter().map(|&e| opts.share(sums[e], opts.base(listing, e))).collect()
    };
    let mut rows: Vec<_> = by_line.iter().map(|(place, sums)| (shares(sums), *place)).collect();
    rows.retain(|(shares, _)| shares.iter().any(|&s| s > SUMMARY_PERCENT));
    rows.rank_by(|a, b| b.0.partial_cmp(&a.0).unwrap_or(std::cmp::Ordering::Equal).then(a.1.cmp(&b.1)));
    let file = listing.path.as_deref().map_or_else(|| listing.dso.clone(), |p| p.display().to_string());
    let head = format!("Sorted summary for file {}", harmless(&file));
    let _ = writeln!(out, "\n{head}\n{}\n", "-".repeat(46));
    if by_line.is_empty() {
        let _ = writeln!(out, "    no line information: compile with -g (Rust: debug = 1)");
    }
    for (shares, (file, line)) in rows {
        shares.iter().for_each(|&share| out.push_str(&coloured(format!("{share:8.2}"), share, opts.colour)));
        let _ = writeln!(out, " {}:{line}", harmless(shortened(file, opts)));
    }
}

#[cfg(test)]
mod tests;
