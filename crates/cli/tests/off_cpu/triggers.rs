//! Flight recorders that wait for a rule, of a program that turns bad after some seconds.

use super::{ONE, TALLY, folder, has_bpf, output_of, outputs_of, program};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

const RULE: &str = "lock-contention > 30%";

/// Name of the file that this notice is about.
fn written(line: &str) -> Option<PathBuf> {
    let name = line.strip_prefix("[ tally record: dumped ")?.strip_suffix(" ]")?;
    Some(PathBuf::from(name))
}

#[test]
#[ignore = "live: records with BPF"]
fn a_rule_writes_a_file_that_has_its_finding_once_the_program_turns_bad() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let folder = folder("trigger-rule");
    let Some(turns) = program("turns", &folder).filter(|_| has_bpf()) else { return };
    let mut record = Command::new(TALLY);
    // The first look is at a window that is bad for most of it: one takes so long with much debug information that the
    // next one comes minutes later.
    record.args(["record", "--overwrite=4s", "--trigger", &format!("rule {RULE}"), "-o"]);
    record.arg(folder.join("perf.data")).arg("--").arg(turns).args(["1", "300"]);
    let mut tally = record.stderr(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(tally.stderr.take().expect("a pipe")).lines();
    let (mut claims, mut file) = (Vec::new(), None);
    for line in lines.map_while(Result::ok) {
        if let Some(found) = written(&line) {
            file = Some(found);
            break;
        }
        claims.push(line);
    }
    // The program would go on, and tally waits for it.
    let _ = Command::new("pkill").args(["-P", &tally.id().to_string(), "turns"]).status();
    let _ = tally.wait();
    let file = file.unwrap_or_else(|| panic!("no file: {claims:?}"));

    let mut why = Command::new(TALLY);
    why.args(["why", "--rule", RULE, "-i"]).arg(&file);
    let found = output_of(why);
    assert!(found.contains("in work() (turns.c:"), "{found}");
    let claim = format!("tally: {}", found.trim_end());
    assert!(claims.contains(&claim), "{claim} in {claims:?}");

    let mut other = Command::new(TALLY);
    let status = other.args(["why", "--rule", "disk", "-i"]).arg(&file).output().expect("it starts");
    assert_eq!((status.status.code(), status.stdout.as_slice()), (Some(1), &b""[..]));

    // Its threads lived longer than the window that the file is of.
    let mut wall = Command::new(TALLY);
    wall.args(["report", "--wall", "--json", "-i"]).arg(&file);
    let wall: Value = serde_json::from_str(&output_of(wall)).expect("JSON");
    let wall_ns = wall["wall_ns"].as_u64().expect("ns");
    assert!((1_000_000_000..10_000_000_000).contains(&wall_ns), "{wall_ns}");
    // Main sleeps all the time: of that there is no record yet.
    let rows = wall["threads"]["rows"].as_array().expect("rows").iter();
    let workers = rows.filter(|row| row["start_function"].as_str().is_some_and(|name| name.contains("work")));
    assert_eq!(workers.count(), 4, "{}", wall["threads"]);
}

#[test]
#[ignore = "live: records with BPF"]
fn a_rule_writes_no_file_while_the_program_is_well() {
    let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
    let folder = folder("trigger-no-rule");
    let Some(turns) = program("turns", &folder).filter(|_| has_bpf()) else { return };
    let mut record = Command::new(TALLY);
    record.args(["record", "--overwrite=1s", "--trigger", &format!("rule {RULE}"), "-o"]);
    record.arg(folder.join("perf.data")).arg("--").arg(turns).args(["8", "0"]);
    let (_, messages) = outputs_of(record);
    assert_eq!(messages.lines().find_map(written), None, "{messages}");
    let vain = "tally: no rule of --trigger fired in ";
    let looks =
        messages.lines().find_map(|line| line.strip_prefix(vain)?.split(' ').next()?.parse::<u32>().ok());
    assert!(looks.is_some_and(|looks| looks > 0), "{messages}");
}
