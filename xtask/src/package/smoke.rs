//! The program in a folder with nothing else: no C library, no /proc, no /etc.

use std::path::Path;

use anyhow::Result;

use super::empty_root::EmptyRoot;
use super::{Release, Repo, Score, TOOL_LIMIT, process, score, skip};

/// Fifty starts of the program: long enough for some samples.
const RECORD: [&str; 13] = [
    "record",
    "-q",
    "-F",
    "4000",
    "-o",
    "/perf.data",
    "--",
    "/tally",
    "stat",
    "-r",
    "50",
    "/tally",
    "--version",
];
/// Read by the program of another machine: the emulator of one process has no events.
const RECORDING: &str = "tests/recordings/chains.data";

/// A command, and what its output has to contain.
type Case = (&'static [&'static str], String);

fn cases(release: &Release, version: &str) -> Vec<Case> {
    let comm = if release.is_foreign() { "Samples" } else { "tally" };
    let mut cases: Vec<Case> = vec![
        (&["--version"], format!("tally {version}")),
        (&["report", "--stdio", "-i", "/perf.data"], comm.to_owned()),
        (&["flame", "--folded", "-i", "/perf.data"], ";".to_owned()),
    ];
    if !release.is_foreign() {
        cases.insert(1, (&RECORD, String::new()));
    }
    cases
}

/// Runs the program with such a folder as its root.
pub fn runs_in_an_empty_folder(repo: &Repo, program: &Path, release: (&Release, &str)) -> Result<Score> {
    let (release, version) = release;
    if let Some(why) = hindrance(release) {
        return Ok(skip("the program alone in an empty folder", why));
    }
    let root = EmptyRoot::make(program.with_file_name("empty-root"), release)?;
    std::fs::copy(program, root.folder().join("tally"))?;
    if release.is_foreign() {
        std::fs::copy(repo.root.join(RECORDING), root.folder().join("perf.data"))?;
    }
    let mut all = Score::default();
    for (args, wanted) in cases(release, version) {
        let run = process::capture(root.command("/tally").args(args), TOOL_LIMIT)?;
        let fits = run.ok() && run.text().contains(&wanted);
        if !fits {
            score::fault(&format!("in an empty folder, tally {}: {}", args.join(" "), run.tail(5)));
        }
        all += Score::of(fits);
    }
    Ok(all)
}

/// Reason why nothing can be started in a folder of its own here.
pub fn hindrance(release: &Release) -> Option<&'static str> {
    if process::find("chroot").is_none() || !process::is_root() {
        return Some("chroot needs root");
    }
    (release.is_foreign() && release.emulator().is_none())
        .then_some("no emulator of the machine (apt: qemu-user)")
}
