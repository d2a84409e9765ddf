//! `tally archive`: a recording with the parts of object files that it needs, to be read on any machine.

use crate::flags::name_args::NameArgs;
use crate::reading::load::{self, Progress};
use crate::terminal::out;
use anyhow::{Context, bail};
use display::number::bytes;
use perfdata::appendix::archive;
use profile::session::{Dimensions, SessionOpts};
use profile::source::Want;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use symbols::archive::{PackedFile, pack};
use symbols::{LoadOpts, UnnamedCode};

/// Files without names that are listed.
const LISTED: usize = 5;

/// Write a recording and what is needed to read it elsewhere into one file
#[derive(clap::Args)]
#[command(after_help = "\
The file is the recording, followed by the used parts of each object file: functions
with their code, symbols, unwind tables and lines. All commands of tally read it like
any recording, without the programs it is about. perf reads the recording in it.

Examples:
  tally archive                            perf.data into perf.data.archive
  tally archive -i app.data -o app.tally   other names
  tally report -i perf.data.archive        on any machine")]
pub struct Args {
    /// The recording
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    pub input: PathBuf,
    /// File to write [default: the recording's name and .archive]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// List what is kept of each file
    #[arg(short, long)]
    pub verbose: bool,
    /// Sources of names.
    #[command(flatten, next_help_heading = "Files and symbols")]
    pub names: NameArgs,
}

/// # Errors
/// If the recording can't be read, or the archive not written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let output = args.output.unwrap_or_else(|| with_suffix(&args.input));
    if is_same_file(&args.input, &output) {
        bail!("{} is the recording itself: name another file with -o", output.display());
    }
    let map = load::open(&args.input)?;
    let file = load::parse(&args.input, &map)?;
    args.names.check()?;
    let read = |dimensions| {
        let progress = &mut Progress::on_stderr(&args.input, &map);
        load::load_file(&args.input, &file, opts(dimensions, &args.names), progress)
    };
    let plain = read(Dimensions::default())?;
    let has_branches = file.events().iter().any(|event| event.attr.branch_sample_type != 0);
    let branches = Dimensions { branches: true, ..Dimensions::default() };
    let branches = has_branches.then(|| read(branches)).transpose()?;
    let profiles: Vec<_> =
        [Some(&plain), branches.as_ref()].into_iter().flatten().map(|r| &r.profile).collect();
    let (archived, listed) = pack(&profiles, &plain.files);
    let block = archive::to_bytes(&archived)?;
    let write = || -> std::io::Result<()> {
        let mut out = record::output_file::create_export(&output)?;
        out.write_all(file.bytes())?;
        out.write_all(&block)
    };
    write().with_context(|| format!("can't write {}", output.display()))?;
    if args.verbose {
        list(&listed)?;
    }
    note_result(&output, &listed, [file.bytes().len(), block.len()].map(|len| len as u64));
    Ok(ExitCode::SUCCESS)
}

fn opts(dimensions: Dimensions, names: &NameArgs) -> LoadOpts {
    let session = SessionOpts { dimensions, runtime_frames: true, ..SessionOpts::default() };
    LoadOpts { session, want: Want::Names, names: names.opts(), unnamed: UnnamedCode::Addresses }
}

fn with_suffix(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".archive");
    name.into()
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

fn list(files: &[PackedFile]) -> anyhow::Result<()> {
    files.iter().try_for_each(|file| {
        let kept = match (file.missing, file.file_bytes) {
            (Some(why), _) => format!("nothing: {why}"),
            (None, 0) => "names".to_owned(),
            (None, whole) => format!("{} of {}", bytes(file.kept_bytes), bytes(whole)),
        };
        out::line(&format!("{kept:24} {}", out::harmless(&file.path)))
    })
}

fn note_result(output: &Path, files: &[PackedFile], [recording, block]: [u64; 2]) {
    let missing: Vec<&PackedFile> = files.iter().filter(|file| file.missing.is_some()).collect();
    out::note(&format!(
        "{}: {} ({} for parts of {} files); read it with: tally report -i {}",
        output.display(),
        bytes(recording + block),
        bytes(block),
        files.len() - missing.len(),
        output.display()
    ));
    for file in missing.iter().take(LISTED) {
        let why = file.missing.map(|why| why.to_string()).unwrap_or_default();
        out::note(&format!("without names: {}: {why}", file.path));
    }
    if let Some(more) = missing.len().checked_sub(LISTED).filter(|more| *more > 0) {
        out::note(&format!("without names: {more} more files (-v lists all)"));
    }
}
