//! Flags of `tally record` about the file it writes.

use crate::flags::recording::{parse_bytes, parse_switch_output};
use profile::verdict::RuleLimit;
use record::open::spans::{FileTrigger, FileTriggerError};
use record::opts::{KeepFiles, KeptWindow, Output, RecordOpts, SwitchOutput};
use std::path::PathBuf;

/// The file, or several, and what is in it besides records.
#[derive(clap::Args)]
#[allow(clippy::struct_excessive_bools)]
pub struct RecordFileArgs {
    /// File to write; - is standard output (pipe mode). An existing file becomes FILE.old
    #[arg(short, long, value_name = "FILE", default_value = "perf.data", help_heading = "File")]
    pub output: PathBuf,
    /// Compress with zstd
    #[arg(short = 'z', long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    #[arg(help_heading = "File")]
    pub compression_level: Option<i32>,
    /// Stop after this many bytes (B, K, M, G)
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, help_heading = "File")]
    pub max_size: Option<u64>,
    /// Another file at each SIGUSR2, each SIZE or each TIME, named FILE.YYYYMMDDhhmmssNN
    #[arg(long, value_name = "signal|SIZE|TIME", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "signal", value_parser = parse_switch_output, help_heading = "File")]
    pub switch_output: Option<SwitchOutput>,
    /// With --switch-output: keep this many files, the newest
    #[arg(long, value_name = "N", help_heading = "File")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub switch_max_files: Option<u16>,
    /// Append the time to the file's name
    #[arg(long, help_heading = "File")]
    pub timestamp_filename: bool,
    /// Keep only the newest samples, in memory: of the last TIME
    ///
    /// and write them at the end, at each --switch-output or --trigger
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    #[arg(value_parser = KeptWindow::parse, help_heading = "File")]
    pub overwrite: Option<KeptWindow>,
    /// Write a file when a call took too long, or when the time kept has a finding of tally why
    ///
    /// 'span FUNC > 50ms' or 'rule lock-contention > 30%', with --overwrite; FUNC@FILE for a library; the newest 10
    /// files are kept (--switch-max-files)
    #[arg(long, value_name = "WHEN", requires = "overwrite", value_parser = parse_trigger, help_heading = "File")]
    pub trigger: Vec<FileTrigger>,
    /// Don't write build-ids
    #[arg(short = 'B', long, help_heading = "File")]
    pub no_buildid: bool,
    /// Don't put the files seen into the build-id cache
    #[arg(short = 'N', long, help_heading = "File")]
    pub no_buildid_cache: bool,
}

fn parse_trigger(text: &str) -> Result<FileTrigger, FileTriggerError> {
    FileTrigger::parse(text, |rule| RuleLimit::parse(rule).map(|limit| limit.text()))
}

impl RecordFileArgs {
    /// Puts the flags into `opts`, whose events are known already.
    ///
    /// # Errors
    /// Flags that contradict each other.
    pub fn apply(&self, opts: &mut RecordOpts) -> anyhow::Result<()> {
        opts.file.output =
            if self.output.as_os_str() == "-" { Output::Stdout } else { Output::File(self.output.clone()) };
        opts.file.compression = self.compression_level;
        opts.file.max_size_bytes = self.max_size;
        opts.file.no_build_ids = self.no_buildid;
        opts.file.keep_files = if self.no_buildid_cache { KeepFiles::None } else { KeepFiles::All };
        self.several_files(opts)
    }

    /// A flight recorder: each trigger completes a file, of a window and a number that are bounded.
    fn triggers(&self, opts: &mut RecordOpts) -> anyhow::Result<()> {
        if self.trigger.is_empty() {
            let is_unused = self.switch_max_files.is_some() && self.switch_output.is_none();
            anyhow::ensure!(!is_unused, "--switch-max-files needs --switch-output or --trigger");
            return Ok(());
        }
        opts.file.fire_at(&self.trigger, self.switch_max_files.map(usize::from));
        if opts.file.judge.is_some() {
            opts.off_cpu.get_or_insert_default();
        }
        Ok(())
    }

    /// The flags that make several files of one recording.
    fn several_files(&self, opts: &mut RecordOpts) -> anyhow::Result<()> {
        let splits = self.switch_output.is_some() || self.overwrite.is_some();
        if opts.file.output == Output::Stdout && splits {
            anyhow::bail!("--switch-output and --overwrite write files: name one by -o FILE");
        }
        if opts.traces() && splits {
            anyhow::bail!(
                "--switch-output and --overwrite are for samples; of a trace -S keeps the newest part"
            );
        }
        opts.file.overwrite = self.overwrite.is_some();
        opts.file.window = self.overwrite.and_then(|window| window.0);
        opts.file.timestamp_filename = self.timestamp_filename;
        opts.file.switch_output = self
            .switch_output
            .clone()
            .map(|several| SwitchOutput { most_files: self.switch_max_files.map(usize::from), ..several });
        self.triggers(opts).map(|()| opts.look_seldom_with_window())
    }
}
