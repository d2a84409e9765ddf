//! `tally buildid-list`: the build-ids of the files a recording hit, or of one object file.

use crate::reading::damage;
use crate::reading::load::{self, Progress};
use crate::terminal::{out, pager};
use anyhow::bail;
use perfdata::PerfData;
use profile::session::SessionOpts;
use profile::source::Want;
use profile::table::{Dso, DsoId};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use symbols::{LoadOpts, NameOpts, UnnamedCode};

/// List the build-ids of the files a recording hit, in perf's form
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tally buildid-list                     the perf.data here
  tally buildid-list -i /usr/bin/bash    of one object file
  tally buildid-list --with-hits         only files that samples fell into
  tally buildid-list --kernel            of the running kernel")]
pub struct Args {
    /// A recording, or an object file
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    pub input: PathBuf,
    /// The running kernel's
    #[arg(short, long)]
    pub kernel: bool,
    /// perf's flag: where the running kernel and its modules are
    #[arg(short = 'm', long, hide = true)]
    pub kernel_maps: bool,
    /// Only files that samples fell into
    #[arg(short = 'H', long)]
    pub with_hits: bool,
    /// perf's flag; files of others are read anyway
    #[arg(short, long, hide = true)]
    pub force: bool,
    /// perf's flag; all notes are printed anyway
    #[arg(short, long, hide = true)]
    pub verbose: bool,
}

/// # Errors
/// If the file can't be read, or has no build-id.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.kernel_maps {
        bail!(
            "-m is not for tally buildid-list: `tally report --mmaps` shows the addresses of a recording's kernel and modules"
        );
    }
    if args.kernel {
        let notes = dso::system_file::read("/sys/kernel/notes")?;
        let Some(id) = dso::elf::build_id::parse_notes(&notes) else {
            bail!("/sys/kernel/notes has no build-id")
        };
        out::line(&hex(id.as_bytes()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let map = load::open(&args.input)?;
    if map.starts_with(b"\x7fELF") {
        let object = dso::ObjectFile::parse(dso::Bytes::new(map))?;
        let Some(id) = object.build_id() else { bail!("{} has no build-id", args.input.display()) };
        out::line(&hex(id.as_bytes()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let file = load::parse(&args.input, &map)?;
    damage::warn_of_features(&args.input, &file);
    let has_table = !file.features().build_ids.is_empty();
    let hit = (args.with_hits || !has_table).then(|| hit_files(&args.input, &file)).transpose()?;
    pager::start();
    out::text(&match hit {
        Some(hit) if !has_table => list_hit(&hit),
        hit => list(&file, hit.as_deref()),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A file that samples fell into.
struct HitFile {
    build_id: Vec<u8>,
    path: String,
}

/// As perf without a table of build-ids: the files hit, with the build-ids of their mappings if those have them.
fn list_hit(hit: &[HitFile]) -> String {
    hit.iter().map(|file| format!("{:40} {}\n", hex(&file.build_id), out::harmless(&file.path))).collect()
}

/// The build-ids in the file's header, each file once; only those of `hit` if there is such a list.
fn list(file: &PerfData<'_>, hit: Option<&[HitFile]>) -> String {
    let mut text = String::new();
    let mut listed = BTreeSet::new();
    let is_hit = |id: &[u8]| hit.is_none_or(|hit| hit.iter().any(|file| file.build_id == id));
    for entry in file.features().build_ids.iter().filter(|entry| is_hit(&entry.build_id)) {
        if listed.insert((&entry.build_id, &entry.filename)) {
            let name = String::from_utf8_lossy(&entry.filename);
            let _ = writeln!(text, "{} {}", hex(&entry.build_id), out::harmless(&name));
        }
    }
    text
}

/// Files that samples themselves fell into; their callers don't count, as in perf.
fn hit_files(path: &Path, file: &PerfData<'_>) -> anyhow::Result<Vec<HitFile>> {
    let session = SessionOpts { callchains: false, ..SessionOpts::default() };
    let opts =
        LoadOpts { session, want: Want::Names, names: NameOpts::from_env(), unnamed: UnnamedCode::Addresses };
    let profile = load::load_file(path, file, opts, &mut Progress::silent())?.profile;
    let leaves = profile.cells().iter().map(|(key, _)| profile.callsites.of(key.callsite).frame);
    let ids: BTreeSet<DsoId> = leaves.map(|frame| profile.frames.of(frame).dso).collect();
    let dsos = ids.into_iter().map(|id| profile.dsos.of(id)).filter(|dso| !dso.is_unknown());
    let hit =
        |dso: &Dso| HitFile { build_id: dso.build_id.clone().unwrap_or_default(), path: dso.path.clone() };
    Ok(dsos.map(hit).collect())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
