//! Where the records go.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::open::spans::{FileTrigger, SpanTrigger, parse_time};

/// The file that is written, or the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOpts {
    /// Where the records go.
    pub output: Output,
    /// zstd level of the data section; `None` writes it plain.
    pub compression: Option<i32>,
    /// Stop after this many bytes of output.
    pub max_size_bytes: Option<u64>,
    /// One file after another; `None`: a single one.
    pub switch_output: Option<SwitchOutput>,
    /// Only the newest records are kept, as much as the rings hold together, until the end or a snapshot.
    pub overwrite: bool,
    /// Only records of this last time are kept, where only the newest are.
    pub window: Option<Duration>,
    /// A file is written when one of these fires, and not before.
    pub triggers: Vec<SpanTrigger>,
    /// Judges the window now and then, and has a file written where it fires.
    pub judge: Option<WindowJudge>,
    /// The name of the output ends with the time it was completed.
    pub timestamp_filename: bool,
    /// Don't write build-ids of the files seen.
    pub no_build_ids: bool,
    /// Which of the files seen are copied into the build-id cache (`~/.debug`).
    pub keep_files: KeepFiles,
    /// The command line to store in the file, program first.
    pub command_line: Vec<String>,
}

impl Default for FileOpts {
    fn default() -> Self {
        Self {
            output: Output::File(PathBuf::from("perf.data")),
            compression: None,
            max_size_bytes: None,
            switch_output: None,
            overwrite: false,
            window: None,
            triggers: Vec::new(),
            judge: None,
            timestamp_filename: false,
            no_build_ids: false,
            keep_files: KeepFiles::All,
            command_line: Vec::new(),
        }
    }
}

impl FileOpts {
    /// Makes it a flight recorder: each trigger completes a file, of the last ten seconds unless a window is set; the
    /// newest ten are kept, or `most_files`.
    pub fn fire_at(&mut self, triggers: &[FileTrigger], most_files: Option<usize>) {
        const MOST_FILES: usize = 10;
        const WINDOW: Duration = Duration::from_secs(10);
        self.window.get_or_insert(WINDOW);
        self.switch_output.get_or_insert_default().most_files = Some(most_files.unwrap_or(MOST_FILES));
        self.triggers = FileTrigger::spans(triggers);
        self.judge = WindowJudge::by_rules(FileTrigger::rules(triggers));
    }
}

/// A command that judges a file: its path is added as the last argument. Status 0 fires, with lines for the user on
/// its standard output; 1 doesn't; any other is an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowJudge {
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// Variables of its environment.
    pub environment: Vec<(String, String)>,
}

impl WindowJudge {
    /// This program: `tally why --rule … -i FILE`, on one CPU; `None` without rules.
    fn by_rules<'r>(rules: impl Iterator<Item = &'r String>) -> Option<Self> {
        let mut command: Vec<OsString> = vec!["/proc/self/exe".into(), "why".into()];
        command.extend(rules.flat_map(|rule| ["--rule".into(), rule.into()]));
        if command.len() == 2 {
            return None;
        }
        command.push("-i".into());
        Some(Self { command, environment: vec![("RAYON_NUM_THREADS".to_owned(), "1".to_owned())] })
    }
}

/// Amount that `--overwrite` keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptWindow(
    /// Only what came in this last time; `None`: as much as there is room for.
    pub Option<Duration>,
);

/// Text that is no time of a window.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}': want a time as 500ms or 10s")]
pub struct WindowError(String);

impl KeptWindow {
    /// Nothing, or a time as `10s`.
    ///
    /// # Errors
    /// Text that is no such time.
    pub fn parse(text: &str) -> Result<Self, WindowError> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        let ns = parse_time(text).filter(|&ns| ns > 0).ok_or_else(|| WindowError(text.to_owned()))?;
        Ok(Self(Some(Duration::from_nanos(ns))))
    }
}

/// Where the records go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// A file; an existing one is kept as FILE.old.
    File(PathBuf),
    /// Standard output, in pipe mode.
    Stdout,
    /// Nowhere: only the summary is wanted.
    Discard,
}

/// Which of the files seen are kept for later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeepFiles {
    /// All.
    #[default]
    All,
    /// Those that can't be opened under their name: of containers, deleted, in memory only.
    Unreachable,
    /// None.
    None,
}

/// When a recording goes on in another file: on `SIGUSR2` and the command `snapshot`, and
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SwitchOutput {
    /// at this size, in bytes;
    pub size_bytes: Option<u64>,
    /// after this time.
    pub every: Option<Duration>,
    /// Number of the newest files that are kept.
    pub most_files: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_judges_has_all_rules_and_then_the_file() {
        let mut opts = FileOpts::default();
        let span = SpanTrigger::parse("span f > 1ms").expect("a trigger");
        opts.fire_at(&[FileTrigger::Span(span.clone())], None);
        assert_eq!((opts.judge.clone(), opts.triggers.clone()), (None, vec![span]));
        opts.fire_at(&["disk > 5%", "convoy"].map(|rule| FileTrigger::Rule(rule.to_owned())), Some(3));
        let judge = opts.judge.expect("two rules");
        assert_eq!(judge.command[1..], ["why", "--rule", "disk > 5%", "--rule", "convoy", "-i"]);
        assert_eq!(opts.switch_output.and_then(|of| of.most_files), Some(3));
    }
}
