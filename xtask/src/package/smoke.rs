//! The program in a folder with nothing else: no C library, no /proc, no /etc.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::{Score, TOOL_LIMIT, process, score, skip};

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

/// Each command and what its output has to contain.
fn cases(build: &str) -> [(&'static [&'static str], String); 4] {
    [
        (&["--version"], format!("tally {build}")),
        (&RECORD, String::new()),
        (&["report", "--stdio", "-i", "/perf.data"], "tally".to_owned()),
        (&["flame", "--folded", "-i", "/perf.data"], "tally".to_owned()),
    ]
}

/// Runs the program with such a folder as its root.
pub fn runs_in_an_empty_folder(program: &Path, build: &str) -> Result<Score> {
    if process::find("chroot").is_none() || !process::is_root() {
        return Ok(skip("the program alone in an empty folder", "chroot needs root"));
    }
    let root = program.with_file_name("empty-root");
    std::fs::create_dir_all(&root)?;
    std::fs::copy(program, root.join("tally"))?;
    let mut all = Score::default();
    for (args, wanted) in cases(build) {
        let mut command = Command::new("chroot");
        let run = process::capture(command.arg(&root).arg("/tally").args(args), TOOL_LIMIT)?;
        let fits = run.ok() && run.text().contains(&wanted);
        if !fits {
            score::fault(&format!("in an empty folder, tally {}: {}", args.join(" "), run.tail(5)));
        }
        all += Score::of(fits);
    }
    std::fs::remove_dir_all(&root)?;
    Ok(all)
}
