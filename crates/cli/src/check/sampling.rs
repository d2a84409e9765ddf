//! Functions of a command's runs by own time, from runs that are sampled besides the measured ones.

use crate::flags::recording::SamplingArgs;
use crate::reading::load::{self, Progress};
use crate::reading::{damage, wall};
use anyhow::bail;
use profile::profile::Profile;
use profile::view::check::{MachineFacts, RunCost, SampledRuns};
use record::opts::{Output, RecordOpts};
use record::scratch::ScratchFolder;
use record::{Target, features, record};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Sampled runs of a command.
const RUNS: std::ops::Range<u32> = 3..30;
/// Samples that show a function which grew by a tenth of the program's cost.
const ENOUGH_SAMPLES: u64 = 6000;
/// No further run is sampled after this time.
const LONGEST: Duration = Duration::from_secs(10);

/// Runs the command some times more, sampled: more often if it is short.
///
/// # Errors
/// It can't be sampled here, or nothing was.
pub fn sample(command: &[OsString]) -> anyhow::Result<SampledRuns> {
    let folder = ScratchFolder::private("check")?;
    let mut profiles: Vec<Profile> = Vec::new();
    let begun = Instant::now();
    let samples =
        |runs: &[Profile]| -> u64 { runs.iter().map(|run| run.diagnostics.samples_attributed).sum() };
    for run in 0..RUNS.end {
        let is_enough = samples(&profiles) >= ENOUGH_SAMPLES || begun.elapsed() > LONGEST;
        if run >= RUNS.start && is_enough {
            break;
        }
        let path = folder.path().join(format!("{run}.data"));
        let target = Target { command: command.to_vec(), ..Target::default() };
        let mut opts = RecordOpts { target, ..RecordOpts::default() };
        SamplingArgs::default().apply(&mut opts)?;
        opts.file.output = Output::File(path.clone());
        let summary = record(&opts)?;
        if let Some(code) = summary.exit.map(|exit| exit.shell_code()).filter(|code| *code != 0) {
            bail!("the sampled command ended with status {code}");
        }
        profiles.push(load::load(&path, wall::load_opts_with_runs())?.profile);
    }
    let runs = SampledRuns::of(&profiles);
    if runs.costs.samples == 0 {
        bail!("no samples: the command is too short");
    }
    Ok(runs)
}

/// One side made of recordings.
pub struct RecordedSide {
    /// One a recording.
    pub runs: Vec<RunCost>,
    /// Functions of all of them.
    pub sampled: SampledRuns,
    /// The machine of the first.
    pub machine: MachineFacts,
    /// False if a recording is damaged or unfinished.
    pub is_whole: bool,
}

impl RecordedSide {
    /// Reads the recordings.
    ///
    /// # Errors
    /// One can't be read or has no samples.
    pub fn load(files: &[PathBuf]) -> anyhow::Result<Self> {
        let mut machine = None;
        let mut profiles = Vec::new();
        for path in files {
            let map = load::open(path)?;
            let file = load::parse(path, &map)?;
            let progress = &mut Progress::on_stderr(path, &map);
            let recording = load::load_file(path, &file, wall::load_opts_with_runs(), progress)?;
            machine.get_or_insert_with(|| MachineFacts::of_features(&recording.features));
            if recording.profile.diagnostics.samples_attributed == 0 {
                let how = "nothing was sampled while it was recorded";
                return Err(damage::lacks(path, "no samples in it", how));
            }
            profiles.push(recording.profile);
        }
        Ok(Self {
            runs: profiles.iter().map(RunCost::of_profile).collect(),
            sampled: SampledRuns::of(&profiles),
            machine: machine.unwrap_or_default(),
            is_whole: !files.iter().any(|path| damage::is_named(path)),
        })
    }
}

/// The machine that tally runs on.
#[must_use]
pub fn this_machine() -> MachineFacts {
    MachineFacts::of_features(&features::of_machine(&RecordOpts::default(), &[]))
}

/// The path of a source file below this folder as a CI system knows it; others stay as they are.
#[must_use]
pub fn source_path(path: &str) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let below = Path::new(path).strip_prefix(here).ok();
    below.map_or_else(|| path.to_owned(), |below| below.display().to_string())
}
