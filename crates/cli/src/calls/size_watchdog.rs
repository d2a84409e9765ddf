//! Recordings that grow large: reported while the program runs and at its end, with lines that record less.

use record::sys::mem;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::record_spec::RecordSpec;
use calls::recording::folder::Folder;
use calls::view::limits::CallsLeft;
use display::number;

/// Recordings of this many bytes are large.
const LARGE_BYTES: u64 = 256 << 20;
/// How long a program runs before the note that its recording grows.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often it is looked.
const EVERY: Duration = Duration::from_secs(1);
/// A disk that will be full within this is reported, however small the recording is.
const SOON_S: f64 = 120.0;

/// Watches a recording while it is made; reports once.
pub struct SizeWatchdog {
    begun: Instant,
    looked: Instant,
    told: bool,
}

impl SizeWatchdog {
    /// From now on; silent if that is wanted.
    #[must_use]
    pub fn new(silent: bool) -> Self {
        let now = Instant::now();
        Self { begun: now, looked: now, told: silent }
    }

    /// The line to report, once, when there is reason to.
    pub fn look(&mut self, dir: &Path, args: &RecordSpec) -> Option<String> {
        if self.told || self.begun.elapsed() < PATIENCE || self.looked.elapsed() < EVERY {
            return None;
        }
        self.looked = Instant::now();
        let line = line(bytes_on_disk(dir), self.begun.elapsed(), mem::free_disk_bytes(dir).ok(), args)?;
        self.told = true;
        Some(line)
    }
}

fn line(bytes: u64, elapsed: Duration, free: Option<u64>, args: &RecordSpec) -> Option<String> {
    let per_s = bytes as f64 / elapsed.as_secs_f64();
    let left_s = free.filter(|_| per_s > 0.0).map(|free| free as f64 / per_s);
    if args.max_bytes.is_some() || bytes < LARGE_BYTES && left_s.is_none_or(|left| left > SOON_S) {
        return None;
    }
    let left = left_s.map_or(String::new(), |left| {
        format!(", the disk will be full in {}", number::duration_ns((left * 1e9) as u64))
    });
    Some(format!(
        "tally calls: the recording has grown to {} in {}, {}/s{left}; -t 10us keeps only longer calls, -D 5 those less deep, \
         --max-bytes 64M the last, -P FUNC some functions'",
        number::bytes(bytes),
        number::duration_ns(elapsed.as_millis() as u64 * 1_000_000),
        number::bytes(per_s as u64)
    ))
}

/// Disk use of the threads' files; space given back to the file system does not count.
fn bytes_on_disk(dir: &Path) -> u64 {
    const BLOCK_BYTES: u64 = 512;
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let is_thread = |path: &Path| path.extension().is_some_and(|ending| ending == "calls");
    let files = entries.filter(|entry| is_thread(&entry.path())).filter_map(|entry| entry.metadata().ok());
    files.map(|file| file.blocks() * BLOCK_BYTES).sum()
}

/// Lines that make a smaller recording of the same command, if this one is large.
#[must_use]
pub fn smaller(folder: &Folder, bytes: u64, args: &RecordSpec) -> Vec<String> {
    if bytes < LARGE_BYTES || args.max_bytes.is_some() {
        return Vec::new();
    }
    let Some(left) = CallsLeft::of_recording(folder) else { return Vec::new() };
    let command: Vec<OsString> = std::env::args_os().collect();
    let mut lines = Vec::new();
    if let Some((time, calls)) = left.time().filter(|_| args.min_ns.is_none()) {
        lines.push((format!("-t {time}"), format!("{} calls", number::grouped(calls))));
    }
    if let Some((depth, calls)) = left.depth().filter(|_| args.depth.is_none()) {
        lines.push((format!("-D {depth}"), format!("{} calls", number::grouped(calls))));
    }
    lines.push(("--max-bytes 64M".to_owned(), "the last calls of each thread".to_owned()));
    let lines = lines.iter().filter_map(|(option, what)| Some((with_option(&command, option)?, what)));
    let lines: Vec<_> = lines.map(|(line, what)| format!("  {line}    # {what}")).collect();
    if lines.is_empty() { lines } else { [vec!["smaller recordings:".to_owned()], lines].concat() }
}

/// The command line once more, with an option after `record`.
fn with_option(command: &[OsString], option: &str) -> Option<String> {
    let verb = command.iter().position(|word| word == "record")?;
    let words =
        |from: &[OsString]| from.iter().map(|word| shell_word(&word.to_string_lossy())).collect::<Vec<_>>();
    let mut line = words(&command[..=verb]);
    line.push(option.to_owned());
    line.extend(words(&command[verb + 1..]));
    Some(line.join(" "))
}

/// A word as a shell reads it back.
fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=,:@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_to_run_is_the_same_with_one_option_more() {
        let words = ["tally", "calls", "record", "--", "./a b", "it's"].map(OsString::from);
        let line = with_option(&words, "-t 10us").expect("a line");
        assert_eq!(line, "tally calls record -t 10us -- './a b' 'it'\\''s'");
    }
}
