//! `tally io` on a live disk: what was written is what is reported. What this machine can't do is skipped, visibly.

use std::path::PathBuf;
use std::process::{Command, Output};

const TALLY: &str = env!("CARGO_BIN_EXE_tally");
const BLOCKS: usize = 60;

/// A folder on a disk, not in memory, for one test.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder below target/");
    folder
}

/// Processes that keep every CPU from being idle: some kernels lose tracepoints that an idle CPU hits, and requests
/// complete on such.
struct Spinners(Vec<std::process::Child>);

impl Spinners {
    fn start() -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let spinner = |cpu: usize| {
            Command::new("taskset")
                .args(["-c", &cpu.to_string(), "nice", "-n", "19", "sh", "-c", "while :; do :; done"])
                .spawn()
                .ok()
        };
        Self((0..cpus).filter_map(spinner).collect())
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        for spinner in &mut self.0 {
            let _ = spinner.kill();
            let _ = spinner.wait();
        }
    }
}

/// Runs `tally io` around a program that writes blocks of 64 KiB past the page cache; `None` if that can't be here.
fn io_of_dd(folder: &PathBuf, flags: &[&str]) -> Option<Output> {
    let _spinners = Spinners::start();
    let root = std::fs::read_to_string("/proc/self/status").unwrap_or_default().contains("\nUid:\t0\t");
    let events = PathBuf::from("/sys/kernel/tracing/events/block/block_rq_issue/id");
    if !root || !events.exists() {
        println!("skipped: the block layer's events need root and tracefs");
        return None;
    }
    let _ = std::fs::remove_file(folder.join("blocks"));
    let output = Command::new(TALLY)
        .current_dir(folder)
        .arg("io")
        .args(flags)
        .args(["--", "dd", "if=/dev/zero", "of=blocks", "bs=64k", "oflag=direct"])
        .arg(format!("count={BLOCKS}"))
        .output()
        .expect("tally runs");
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    if messages.contains("Invalid argument") {
        println!("skipped: {} has no direct writes", folder.display());
        return None;
    }
    assert!(output.status.success(), "{messages}");
    Some(output)
}

/// Events that the kernel drops when one interrupts another may be missing; nothing may be made up.
fn is_nearly_all(count: usize) -> bool {
    (BLOCKS * 8 / 10..=BLOCKS).contains(&count)
}

#[test]
#[ignore = "live: records on this machine"]
fn requests_of_a_command_are_those_it_wrote() {
    let folder = folder("io-sums");
    let Some(output) = io_of_dd(&folder, &[]) else { return };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let row =
        text.lines().find(|line| line.ends_with("write 64K")).unwrap_or_else(|| panic!("no row: {text}"));
    let count: usize =
        row.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number of requests");
    assert!(is_nearly_all(count), "{text}");
    let who = text
        .lines()
        .find(|line| line.contains("write dd "))
        .unwrap_or_else(|| panic!("no submitter: {text}"));
    assert!(who.contains("direct"), "{who}");
    assert!(text.contains("OVER TIME"), "{text}");
}

#[test]
#[ignore = "live: records on this machine"]
fn each_request_is_a_line_while_it_is_recorded_and_afterwards() {
    let folder = folder("io-lines");
    let Some(output) = io_of_dd(&folder, &["--trace"]) else { return };
    let blocks =
        |text: &str| text.lines().filter(|line| line.contains("dd ") && line.contains("65.54 kB")).count();
    let live = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(is_nearly_all(blocks(&live)), "{live}");
    let again = Command::new(TALLY).current_dir(&folder).args(["io", "--trace", "-i", "perf.data"]).output();
    let again = String::from_utf8_lossy(&again.expect("tally runs").stdout).into_owned();
    // The whole machine is recorded: another test's requests are in the file as well.
    let pid = live.split("dd ").nth(1).and_then(|rest| rest.split_whitespace().next()).expect("a process id");
    let own: String = again
        .lines()
        .filter(|line| line.contains(&format!("dd {pid} ")))
        .fold(String::new(), |a, l| a + l + "\n");
    assert_eq!(blocks(&own), blocks(&live));
}

/// Bytes that were read of a file, by the rows of `tally io --json`; `None` if files can't be known here.
fn bytes_read_of(folder: &PathBuf, file: &str, dd: &[&str]) -> Option<u64> {
    let output = Command::new(TALLY)
        .current_dir(folder)
        .args(["io", "-o", "files.data", "--json", "--", "dd", "of=/dev/null"])
        .arg(format!("if={file}"))
        .args(dd)
        .output()
        .expect("tally runs");
    let view: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let files = view["files"].as_array().filter(|_| view["files_known"] == true)?;
    let path = folder.join(file).canonicalize().expect("it exists");
    let rows =
        files.iter().filter(|row| row["op"] == "read" && row["file"] == path.to_string_lossy().as_ref());
    Some(rows.filter_map(|row| row["bytes"].as_u64()).sum())
}

#[test]
#[ignore = "live: records on this machine"]
fn a_read_request_has_the_path_of_the_file_past_the_page_cache_and_through_it() {
    let folder = folder("io-files");
    if io_of_dd(&folder, &[]).is_none() {
        return;
    }
    let whole = (BLOCKS as u64) << 16;
    let Some(direct) = bytes_read_of(&folder, "blocks", &["bs=64k", "iflag=direct"]) else {
        println!("skipped: files of requests are not known here");
        return;
    };
    assert!((whole * 8 / 10..=whole).contains(&direct), "{direct} of {whole}");
    // With count=0 it only empties the page cache of the file.
    let emptied =
        Command::new("dd").current_dir(&folder).args(["if=blocks", "iflag=nocache", "count=0"]).output();
    assert!(emptied.expect("dd runs").status.success());
    let cached = bytes_read_of(&folder, "blocks", &["bs=64k"]).expect("it was known before");
    assert!((whole * 8 / 10..=whole).contains(&cached), "{cached} of {whole}");
}
