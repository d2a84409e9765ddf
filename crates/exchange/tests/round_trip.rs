//! Exports lose nothing: the sum of each kind of value, read again from every format, is the recording's.

use exchange::export::samples::SampleSet;
use exchange::export::{firefox, folded, parquet, pprof, speedscope};
use exchange::import;
use perfdata::PerfData;
use profile::Profile;
use profile::session::{Dimensions, SessionOpts};
use profile::view::flame::{Tree, TreeOpts};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use symbols::LoadOpts;

/// Shared recordings larger than this take too long here.
const MOST_BYTES: u64 = 2 << 20;

fn recordings() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shared = std::env::var_os("TALLY_FIXTURES").map_or(root.join("../shared/fixtures"), PathBuf::from);
    let folders =
        [root.join("tests/recordings"), root.join("tests/golden/timeline"), shared.join("perfdata")];
    let mut files: Vec<PathBuf> = folders
        .iter()
        .filter_map(|folder| folder.read_dir().ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
        .filter(|path| path.metadata().is_ok_and(|meta| meta.is_file() && meta.len() < MOST_BYTES))
        .filter(|path| std::fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"PERFILE2")))
        .collect();
    files.sort();
    files
}

fn load(bytes: &[u8]) -> Profile {
    let file = PerfData::open(bytes).expect("a recording");
    let dimensions = Dimensions { time_slice_ns: Some(1), ..Dimensions::default() };
    let session = SessionOpts { dimensions, ..SessionOpts::default() };
    symbols::load(&file, LoadOpts { session, ..LoadOpts::default() }).profile
}

fn read_again(file: &[u8]) -> Profile {
    let gathered = import::gather(file).expect("our own export").expect("a known format");
    load(&gathered.to_perf_data().expect("written to memory"))
}

fn written(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> Vec<u8> {
    let mut file = Vec::new();
    write(&mut file).expect("written to memory");
    file
}

/// Value and number of samples of each kind with a value.
fn sums(samples: &SampleSet<'_>) -> BTreeMap<String, (u64, u64)> {
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for stack in &samples.stacks {
        let sum = sums.entry(samples.kinds[stack.kind].name.clone()).or_default();
        *sum = (sum.0 + stack.value, sum.1 + stack.samples);
    }
    sums
}

fn values(sums: &BTreeMap<String, (u64, u64)>) -> BTreeMap<&str, u64> {
    let with_value = sums.iter().filter(|(_, (value, _))| *value > 0);
    with_value.map(|(name, (value, _))| (name.as_str(), *value)).collect()
}

#[test]
fn every_export_read_again_has_the_sums_of_the_recording() {
    let files = recordings();
    assert!(files.len() >= 5, "the recordings in the repository");
    for path in files {
        let bytes = std::fs::read(&path).expect("listed above");
        let profile = load(&bytes);
        let samples = SampleSet::of(&profile, true);
        let recorded = sums(&samples);
        let source = parquet::RowSource::default();
        let formats = [
            ("pprof", written(|out| pprof::write(out, &samples, "a command"))),
            ("speedscope", written(|out| speedscope::write(out, &samples, "a command"))),
            ("firefox", written(|out| firefox::write(out, &samples, "a command"))),
            ("parquet", written(|out| parquet::write(out, &samples, &source, |_| "a service".to_owned()))),
        ];
        for (name, file) in formats.iter().filter(|_| !samples.stacks.is_empty()) {
            let profile = read_again(file);
            let mut found = sums(&SampleSet::of(&profile, true));
            // The part of the wall clock off the CPU is a kind of its own in pprof.
            found.remove("off_cpu").filter(|_| *name == "pprof");
            assert_eq!(values(&found), values(&recorded), "{name} of {}", path.display());
            if ["pprof", "parquet"].contains(name) {
                let events = |sums: &BTreeMap<String, (u64, u64)>| {
                    let mut sums = sums.clone();
                    sums.remove("wall");
                    sums.retain(|_, (value, _)| *value > 0);
                    sums
                };
                assert_eq!(events(&found), events(&recorded), "samples of {}", path.display());
            }
        }
    }
}

#[test]
fn folded_stacks_read_again_have_the_sums_of_each_event() {
    for path in recordings() {
        let profile = load(&std::fs::read(&path).expect("listed above"));
        for event in 0..profile.events.len() {
            let total = profile.total(event).period;
            let tree = Tree::of_profile(&profile, TreeOpts { event, ..TreeOpts::default() });
            let text = folded::to_text(&tree);
            if text.is_empty() {
                continue;
            }
            let again = read_again(text.as_bytes());
            assert_eq!(again.total(0).period, total, "event {event} of {}", path.display());
        }
    }
}
