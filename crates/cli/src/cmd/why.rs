//! `tally why`: the evidence of the findings in a recording.

use crate::text::findings;
use crate::verdict::first_screen::SCHEMA_VERSION;
use crate::verdict::{self, MachineChange};
use crate::{
    reading::{load, wall},
    terminal::{out, pager},
};
use anyhow::bail;
use display::term;
use dso::MappedFile;
use exchange::text::rule_lines::lines_over;
use perfdata::appendix::findings_note;
use profile::verdict::{RuleLimit, quoted};
use profile::view::hot_functions::main_event;
use record::summary::RunSummary;
use record::system::SystemChange;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use symbols::{Recording, name_hints};

/// Show the evidence of tally run's findings: numbers, stacks, checks, the next command
#[derive(clap::Args)]
#[command(
    visible_alias = "verdict",
    after_help = "\
Examples:
  tally why                  all findings of perf.data
  tally why 1                the first one
  tally why -i other.data    those of another recording
  tally why --json           for scripts
  tally why --rule 'lock-contention > 30%'   status 1 without such a finding"
)]
pub struct Args {
    /// Only this finding, from 1
    #[arg(value_name = "N", value_parser = finding_number)]
    pub number: Option<usize>,
    /// The recording
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    pub input: PathBuf,
    /// Only findings of this name and share, a line each: 'lock-contention > 30%'; status 1 if there is none
    #[arg(long, value_name = "RULE", value_parser = RuleLimit::parse, conflicts_with_all = ["number", "json"])]
    pub rule: Vec<RuleLimit>,
    /// Write JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// # Errors
/// If the recording can't be read, or has no finding of this number.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let map = load::open(&args.input)?;
    let kept = findings_note::read(&map).and_then(|text| serde_json::from_slice::<Value>(text).ok());
    let note = match kept {
        Some(note) => note,
        None => judged_now(&args.input, &map)?,
    };
    let mut findings: Vec<Value> = note["findings"].as_array().cloned().unwrap_or_default();
    for finding in &mut findings {
        verdict::name_input(finding, &input(&args.input));
    }
    if !args.rule.is_empty() {
        let lines = lines_over(&args.rule, &findings);
        out::text(&lines)?;
        return Ok(ExitCode::from(u8::from(lines.is_empty())));
    }
    let first = args.number.unwrap_or(1);
    let mut warnings: Vec<&str> =
        note["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if let Some(number) = args.number {
        findings = vec![pick(&findings, number, &args.input)?];
        warnings.clear();
    }
    if args.json {
        let value = json!({
            "schema_version": SCHEMA_VERSION, "command": note["command"], "no_verdict": note["no_verdict"],
            "findings": findings, "warnings": warnings,
        });
        out::json(Path::new("-"), &value)?;
        return Ok(ExitCode::SUCCESS);
    }
    pager::start();
    let (width, colour) = (term::width().min(100), term::colours_stdout());
    let text = if findings.is_empty() {
        let why = note["no_verdict"].as_str().map_or_else(String::new, |why| format!(": {why}"));
        format!("no findings in {}{why}\n", args.input.display())
    } else {
        findings::draw(&findings, first, width, colour)
    };
    out::text(&(text + &findings::warnings(&warnings, width, colour)))?;
    Ok(ExitCode::SUCCESS)
}

fn finding_number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "not the number of a finding".to_owned())
}

fn pick(findings: &[Value], number: usize, path: &Path) -> anyhow::Result<Value> {
    let found = number.checked_sub(1).and_then(|at| findings.get(at)).cloned();
    let Some(finding) = found else {
        match findings.len() {
            0 => bail!("no findings in {}", path.display()),
            1 => bail!("{} has one finding: tally why 1", path.display()),
            more => bail!("{} has {more} findings: tally why 1 to {more}", path.display()),
        }
    };
    Ok(finding)
}

/// Findings of a recording that `tally run` didn't make: without counters, and without what the machine did.
fn judged_now(path: &Path, map: &MappedFile) -> anyhow::Result<Value> {
    let mut progress = load::Progress::on_stderr(path, map);
    let file = load::parse(path, map)?;
    let recording = load::load_file(path, &file, wall::load_opts_with_runs(), &mut progress)?;
    let mut note = judge(&recording).ok_or_else(|| {
        let record = "record with tally run, or tally record --off-cpu";
        crate::reading::damage::lacks(path, "no time off the CPU in it", record)
    })?;
    let profile = &recording.profile;
    note["warnings"] = name_hints::hints(profile, main_event(profile)).into();
    Ok(note)
}

/// Findings of an open recording, without warnings; `None` if it has no time off the CPU.
pub(crate) fn judge(recording: &Recording) -> Option<Value> {
    recording.profile.off_cpu.source?;
    let features = &recording.features;
    let cpus = features.nr_cpus.map_or(1, |cpus| cpus.online);
    let machine = MachineChange { change: SystemChange { cpus, ..SystemChange::default() }, disks: None };
    let judgement = verdict::judge(&recording.profile, &RunSummary::default(), &machine, "-- COMMAND");
    let command = features.cmdline.as_deref().unwrap_or_default().join(" ");
    Some(verdict::to_note(&judgement, &command, &[]))
}

/// The option that names the recording; none for where commands look anyway.
pub fn input(path: &Path) -> String {
    if path == Path::new("perf.data") {
        String::new()
    } else {
        format!(" -i {}", quoted(&path.to_string_lossy()))
    }
}
