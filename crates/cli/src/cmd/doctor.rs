//! `tally doctor`: what works on this machine, and how to get the rest.

use crate::foreign::json_lines;
use crate::term::{Paint, paint};
use crate::{out, term};
use record::doctor::{Check, Health, examine};
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;

/// Tell what can be recorded here, why not more, and what to do about it
///
/// Every feature is tried, not guessed. The exit status is 0 even if something is missing.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally doctor           a line per feature, with the remedy where there is one
  tally doctor --json    the same for scripts")]
pub struct Args {
    /// JSON
    #[arg(long)]
    pub json: bool,
}

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
    let colour = term::colours_stdout();
    let mut out = out::stdout();
    for check in &checks {
        let (mark, hue) = match check.health {
            Health::Good => ("yes", Paint::Green),
            Health::Partly => ("partly", Paint::Yellow),
            Health::No => ("no", Paint::Red),
        };
        let mark = paint(&format!("{mark:<7}"), hue, colour);
        writeln!(out, "{:<23} {mark} {}", check.feature, check.found)?;
        if !check.why.is_empty() {
            writeln!(out, "{:<23}  why: {}", "", check.why)?;
        }
        if !check.remedy.is_empty() {
            writeln!(out, "{:<23}  remedy: {}", "", check.remedy)?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
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
