//! The two sides of a comparison: which recordings they are, read with the same options.

use std::path::PathBuf;

use anyhow::bail;
use profile::Profile;
use profile::session::{Dimensions, SampleFilter, SessionOpts};
use profile::source::Want;
use profile::view::diff::{Diff, DiffOpts, Norm};
use profile::view::report::{ReportField, ReportOpts, RowFilter};
use symbols::{LoadOpts, UnnamedCode};

use super::super::report::{cpus_of, parse_fields, parse_times};
use super::Args;
use crate::flags::name_args::NameArgs;
use crate::reading::load::Progress;
use crate::reading::{damage, load};

pub(super) fn options(args: &Args) -> anyhow::Result<DiffOpts> {
    let norm = match (&args.per, args.norm.as_str()) {
        (Some(event), _) => Norm::Work(event.clone()),
        (None, "share") => Norm::Share,
        (None, "time") => Norm::Time,
        (None, "run") => Norm::Run,
        (None, other) => bail!("--norm {other}: it is one of share, time, run"),
    };
    let filter = RowFilter {
        comms: args.comms.clone(),
        dsos: args.dsos.clone(),
        symbols: args.symbols.clone(),
        pids: args.pid.clone(),
        tids: args.tid.clone(),
        ..RowFilter::default()
    };
    let mut sort = Vec::new();
    // The page has one frame for a function, whichever file it is in: programs of two versions have two names.
    let keys = if args.html.is_some() { "symbol" } else { &args.sort };
    for field in parse_fields("--sort", keys, &|_| false)? {
        match field {
            ReportField::Key(key) => sort.push(key),
            number => bail!("--sort {}: a number, not a key", number.heading().to_lowercase()),
        }
    }
    Ok(DiffOpts { report: ReportOpts { sort, filter, ..ReportOpts::default() }, norm, paths: args.paths })
}

/// The files of both sides: `A B`, `A1,A2 B1,B2` or `A1 A2 : B1 B2`.
pub(crate) fn sides(words: &[String]) -> anyhow::Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let list = |words: &[String]| -> Vec<PathBuf> {
        words.iter().flat_map(|word| word.split(',')).filter(|w| !w.is_empty()).map(PathBuf::from).collect()
    };
    let (baseline, current) = match words.iter().position(|word| word == ":") {
        Some(colon) => (list(&words[..colon]), list(&words[colon + 1..])),
        None => match words {
            [] => (vec!["perf.data.old".into()], vec!["perf.data".into()]),
            [one] => (list(std::slice::from_ref(one)), vec!["perf.data".into()]),
            [a, b] => (list(std::slice::from_ref(a)), list(std::slice::from_ref(b))),
            _ => bail!("more than two files: separate the baseline from the current ones: A1 A2 : B1 B2"),
        },
    };
    if baseline.is_empty() || current.is_empty() {
        bail!("no files on one side of the `:`");
    }
    Ok((baseline, current))
}

pub(super) fn load_all(files: &[PathBuf], args: &Args) -> anyhow::Result<Vec<Profile>> {
    let load = |path: &PathBuf| -> anyhow::Result<Profile> {
        // Slices of 1 ms are joined to what the bootstrap wants, whatever the length of the recording.
        let dimensions = Dimensions { time_slice_ns: Some(1_000_000), ..Dimensions::default() };
        let map = load::open(path)?;
        let file = load::parse(path, &map)?;
        let times_ns = args.time.as_deref().map(|text| parse_times(text, file.features().sample_time_ns));
        let cpus = cpus_of(args.cpu.as_deref(), &file)?;
        let filter = SampleFilter {
            times_ns: times_ns.transpose()?.unwrap_or_default(),
            cpus,
            ..SampleFilter::default()
        };
        let session = SessionOpts {
            dimensions,
            filter,
            callchains: args.paths || args.html.is_some(),
            ..SessionOpts::default()
        };
        let opts = LoadOpts {
            session,
            want: Want::Names,
            names: NameArgs { symfs: args.symfs.clone(), force: args.force, ..NameArgs::default() }.opts(),
            unnamed: UnnamedCode::Functions,
        };
        let profile = load::load_file(path, &file, opts, &mut Progress::on_stderr(path, &map))?.profile;
        if profile.diagnostics.samples_attributed == 0 {
            return Err(damage::lacks(path, "no samples in it", "nothing was sampled while it was recorded"));
        }
        Ok(profile)
    };
    files.iter().map(load).collect()
}

pub(super) fn names_of(diff: &Diff) -> String {
    let names = diff.sections.iter().map(|section| section.event.as_str());
    names.chain(diff.unmatched_events.iter().map(String::as_str)).collect::<Vec<_>>().join(", ")
}
