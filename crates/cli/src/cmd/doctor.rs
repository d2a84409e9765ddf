//! `tally doctor`: what works on this machine, and how to get the rest.

use crate::terminal::foreign::json_lines;
use crate::terminal::out;
use display::fit::wrap;
use display::term;
use display::term::{Paint, paint};
use record::doctor::{Check, DoctorSection, Health, best_remedy, examine};
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;

/// Show what can be recorded here, why not more, and what to do about it
///
/// Every feature is tried, not guessed. The exit status is 0 even if something is missing.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally doctor           a summary, then each feature, with the remedy where
                         there is one
  tally doctor --json    the same for scripts")]
pub struct Args {
    /// JSON
    #[arg(long)]
    pub json: bool,
}

/// Columns before the text of a feature.
const INDENT: usize = 31;

/// Longest line; shorter on a narrow terminal.
const MAX_WIDTH: usize = 80;

/// Shortest line, for the text to have some room.
const MIN_WIDTH: usize = 60;

/// Runs the command.
///
/// # Errors
/// If the output can't be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let checks = examine();
    if args.json {
        let list: Vec<_> = checks.iter().map(to_json).collect();
        out::line(&json_lines(&json!(list)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let page = Page { width: term::width().clamp(MIN_WIDTH, MAX_WIDTH), colour: term::colours_stdout() };
    let mut text = page.summary(&checks);
    let sections = [
        (DoctorSection::Recording, "Recording"),
        (DoctorSection::Names, "Names"),
        (DoctorSection::Runtimes, "Runtimes"),
        (DoctorSection::Hardware, "Hardware"),
    ];
    for (section, title) in sections {
        let mut of = checks.iter().filter(|check| check.section == section).peekable();
        if of.peek().is_some() {
            text.push_str(&format!("\n{title}\n"));
            of.for_each(|check| text.push_str(&page.feature(check)));
        }
    }
    let mut out = out::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// How lines are laid out.
struct Page {
    width: usize,
    colour: bool,
}

impl Page {
    /// Working features, missing ones, and the one command for most of the rest.
    fn summary(&self, checks: &[Check]) -> String {
        let of = |health: Health| {
            let fits = |check: &&Check| check.health == health && check.section != DoctorSection::Runtimes;
            checks.iter().filter(fits).map(|check| check.feature).collect::<Vec<_>>().join(", ")
        };
        let mut text = String::new();
        for (label, health) in
            [("works", Health::Good), ("works in part", Health::Partly), ("does not work", Health::No)]
        {
            let names = of(health);
            if !names.is_empty() {
                text.push_str(&self.labelled(&format!("{label:<14} "), &names));
            }
        }
        if let Some(remedy) = best_remedy(checks) {
            text.push_str(&self.labelled("to get most    ", &remedy));
            text.push_str(&self.labelled("               ", "or run tally as root"));
        }
        text
    }

    /// One feature with its reason and remedy.
    fn feature(&self, check: &Check) -> String {
        let (mark, hue) = match check.health {
            Health::Good => ("yes", Paint::Green),
            Health::Partly => ("partly", Paint::Yellow),
            Health::No => ("no", Paint::Red),
        };
        let mark = paint(&format!("{mark:<6}"), hue, self.colour);
        let mut found = wrap(&check.found, self.width - INDENT).into_iter();
        let first = found.next().unwrap_or_default();
        let mut text = format!("  {:<21} {mark} {first}", check.feature).trim_end().to_owned() + "\n";
        found.for_each(|line| text.push_str(&format!("{:INDENT$}{line}\n", "")));
        if !check.why.is_empty() {
            text.push_str(&self.labelled(&format!("{:>INDENT$}", "why: "), &out::without_errno(&check.why)));
        }
        let remedy = if check.needs_rights { "the command at the top" } else { &check.remedy };
        if !remedy.is_empty() {
            text.push_str(&self.labelled(&format!("{:>INDENT$}", "remedy: "), remedy));
        }
        text
    }

    /// `label` and then `content`, which is wrapped and indented by the label's width.
    fn labelled(&self, label: &str, content: &str) -> String {
        let indent = label.chars().count();
        let width = self.width.saturating_sub(indent).max(1);
        let lines = wrap(content, width).into_iter().flat_map(|line| pieces(&line, width));
        let starts = std::iter::once(label.to_owned()).chain(std::iter::repeat(" ".repeat(indent)));
        starts.zip(lines).map(|(start, line)| format!("{start}{line}\n")).collect()
    }
}

/// A line with a word that is too long (a path), in pieces of `width` characters.
fn pieces(line: &str, width: usize) -> Vec<String> {
    let characters: Vec<char> = line.chars().collect();
    characters.chunks(width).map(|piece| piece.iter().collect()).collect()
}

fn to_json(check: &Check) -> serde_json::Value {
    let health = match check.health {
        Health::Good => "yes",
        Health::Partly => "partly",
        Health::No => "no",
    };
    json!({
        "feature": check.feature, "works": health, "found": check.found, "why": check.why, "remedy": check.remedy,
    })
}
