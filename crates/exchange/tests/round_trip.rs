//! Exports lose nothing: the sum of each kind of value, read again from every format, is the recording's.

use exchange::export::samples::SampleSet;
use exchange::export::{callgrind, firefox, folded, otlp, parquet, pprof, speedscope};
use exchange::import;
use perfdata::PerfData;
use profile::Profile;
use profile::session::{Dimensions, SessionOpts};
use profile::view::flame::{Tree, TreeOpts};
use quick_protobuf::BytesReader;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use symbols::LoadOpts;

/// Shared recordings larger than this take too long here.
const MOST_BYTES: u64 = 16 << 20;

/// Recordings of this repository, and all shared ones that are read: of perf, and texts of other profilers. Those whose
/// names begin with `z` expand to more than a test may take.
fn recordings() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shared = std::env::var_os("TALLY_FIXTURES").map_or(root.join("../shared/fixtures"), PathBuf::from);
    let own = ["tests/recordings", "tests/golden/timeline"].map(|folder| root.join(folder));
    let others = ["perfdata", "truth", "folded", "hostile"].map(|folder| shared.join(folder));
    let mut files: Vec<PathBuf> = own
        .iter()
        .chain(&others)
        .filter_map(|folder| folder.read_dir().ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
        .filter(|path| path.metadata().is_ok_and(|meta| meta.is_file() && meta.len() < MOST_BYTES))
        .filter(|path| !path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"z")))
        .collect();
    files.sort();
    files
}

/// A recording, or what is read of another profiler's file; `None` for others.
fn recorded(path: &Path) -> Option<Vec<u8>> {
    let bytes = std::fs::read(path).ok()?;
    if bytes.starts_with(b"PERFILE2") {
        return Some(bytes);
    }
    import::gather(&bytes).ok()??.to_perf_data().ok()
}

/// `None` for a file that is damaged at its beginning.
fn load(bytes: &[u8]) -> Option<Profile> {
    let file = PerfData::open(bytes).ok()?;
    let dimensions = Dimensions { time_slice_ns: Some(1), ..Dimensions::default() };
    let session = SessionOpts { dimensions, ..SessionOpts::default() };
    Some(symbols::load(&file, LoadOpts { session, ..LoadOpts::default() }).profile)
}

fn read_again(file: &[u8]) -> Profile {
    let gathered = import::gather(file).expect("our own export").expect("a known format");
    load(&gathered.to_perf_data().expect("written to memory")).expect("a recording")
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
fn every_export_has_the_sums_and_stacks_of_the_recording() {
    let mut count = 0;
    for path in recordings() {
        let Some(bytes) = recorded(&path) else { continue };
        // Names of functions take most of the time: each recording is loaded once.
        let Some(profile) = load(&bytes) else {
            assert!(path.parent().is_some_and(|folder| folder.ends_with("hostile")), "{}", path.display());
            continue;
        };
        count += 1;
        let samples = SampleSet::of(&profile, true);
        check_folded(&path, &profile);
        if samples.stacks.is_empty() {
            continue;
        }
        check_read_again(&path, &samples);
        check_opentelemetry(&path, &samples);
        check_callgrind(&path, &samples);
        check_folded_values(&path, &samples);
    }
    assert!(count >= 5, "the recordings in the repository: {count}");
}

/// Formats that are read as well: sums of each kind, and each stack.
fn check_read_again(path: &Path, samples: &SampleSet<'_>) {
    let (recorded, recorded_stacks) = (sums(samples), stacks(samples));
    let source = parquet::RowSource::default();
    let formats = [
        ("pprof", written(|out| pprof::write(out, samples, "a command"))),
        ("speedscope", written(|out| speedscope::write(out, samples, "a command"))),
        ("firefox", written(|out| firefox::write(out, samples, "a command"))),
        ("parquet", written(|out| parquet::write(out, samples, &source, |_| "a service".to_owned()))),
    ];
    for (name, file) in &formats {
        let profile = read_again(file);
        let again = SampleSet::of(&profile, true);
        let mut found = sums(&again);
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
        let mut found = stacks(&again);
        found.retain(|(kind, _), _| kind != "off_cpu");
        let differing = recorded_stacks.iter().find(|(key, value)| found.get(key) != Some(value));
        assert!(differing.is_none(), "{name} of {}: {differing:?}", path.display());
        assert_eq!(found.len(), recorded_stacks.len(), "{name} of {}", path.display());
    }
}

/// The fields of a message: number, and the bytes of those that have a length.
fn fields(message: &[u8]) -> Vec<(u32, &[u8])> {
    let mut reader = BytesReader::from_bytes(message);
    let mut found = Vec::new();
    while !reader.is_eof() {
        let tag = reader.next_tag(message).expect("a tag");
        match tag & 7 {
            2 => found.push((tag >> 3, reader.read_bytes(message).expect("a field"))),
            _ => reader.read_unknown(message, tag).expect("a field"),
        }
    }
    found
}

fn of_number(message: &[u8], number: u32) -> Vec<&[u8]> {
    fields(message).into_iter().filter(|(field, _)| *field == number).map(|(_, bytes)| bytes).collect()
}

/// The number in a field of a message; 0 without it.
fn number(message: &[u8], wanted: u32) -> u64 {
    let mut reader = BytesReader::from_bytes(message);
    while !reader.is_eof() {
        let tag = reader.next_tag(message).expect("a tag");
        if tag == wanted << 3 {
            return reader.read_uint64(message).expect("a number");
        }
        reader.read_unknown(message, tag).expect("a field");
    }
    0
}

/// Sums by name of the sample type, of OpenTelemetry's `ProfilesData`.
//
// Source: opentelemetry/proto/profiles/v1development/profiles.proto.
fn sums_of_otlp(file: &[u8]) -> BTreeMap<String, u64> {
    let dictionary = of_number(file, 2)[0];
    let texts = of_number(dictionary, 5);
    let mut sums = BTreeMap::new();
    let scopes = of_number(file, 1).into_iter().flat_map(|resource| of_number(resource, 2));
    for profile in scopes.flat_map(|scope| of_number(scope, 2)) {
        let kind = of_number(profile, 1)[0];
        let name = String::from_utf8_lossy(texts[number(kind, 1) as usize]).into_owned();
        let sum: &mut u64 = sums.entry(name).or_default();
        for values in of_number(profile, 2).into_iter().flat_map(|sample| of_number(sample, 4)) {
            let mut reader = BytesReader::from_bytes(values);
            while !reader.is_eof() {
                *sum += reader.read_uint64(values).expect("a value");
            }
        }
    }
    sums
}

/// A profile of each kind with its sum.
fn check_opentelemetry(path: &Path, samples: &SampleSet<'_>) {
    let file = written(|out| otlp::write(out, samples, &otlp::OtlpSource::default()));
    let found = sums_of_otlp(&file);
    for (kind, (value, _)) in sums(samples).iter().filter(|(_, (value, _))| *value > 0) {
        assert_eq!(found.get(kind), Some(value), "{kind} of {}: {found:?}", path.display());
    }
}

/// The sum of each kind in the lines, and in the summary.
fn check_callgrind(path: &Path, samples: &SampleSet<'_>) {
    for (at, kind) in samples.kinds.iter().enumerate() {
        let file = written(|out| callgrind::write(out, samples, at, "a command"));
        let text = String::from_utf8(file).expect("text");
        let summary = text.lines().find_map(|line| line.strip_prefix("summary: "));
        assert_eq!(summary, Some(&*kind.total.to_string()), "{} of {}", kind.name, path.display());
        // A line after `calls=` has the cost of what is called.
        let (mut own, mut is_call) = (0, false);
        for line in text.lines() {
            let mut words = line.split(' ');
            let position = words.next().is_some_and(|word| word.parse::<u64>().is_ok());
            if let Some(cost) = words.next().filter(|_| position && !is_call) {
                own += cost.parse::<u64>().expect("a cost");
            }
            is_call = line.starts_with("calls=");
        }
        assert_eq!(own, kind.total, "lines of {} of {}", kind.name, path.display());
    }
}

/// The sum of each kind in the lines, and each line once.
fn check_folded_values(path: &Path, samples: &SampleSet<'_>) {
    for (at, kind) in samples.kinds.iter().enumerate() {
        let text = String::from_utf8(written(|out| folded::write_samples(out, samples, at))).expect("text");
        let lines = text.lines().map(|line| line.rsplit_once(' ').expect("a value"));
        let lines: Vec<(&str, u64)> =
            lines.map(|(stack, value)| (stack, value.parse().expect("a number"))).collect();
        let sum: u64 = lines.iter().map(|(_, value)| value).sum();
        assert_eq!(sum, kind.total, "{} of {}", kind.name, path.display());
        assert!(lines.is_sorted_by(|a, b| a.0 < b.0), "{} of {}", kind.name, path.display());
    }
}

/// Values by kind, thread and functions, leaf first.
fn stacks(samples: &SampleSet<'_>) -> BTreeMap<(String, Vec<String>), u64> {
    let mut stacks = BTreeMap::new();
    for stack in samples.stacks.iter().filter(|stack| stack.value > 0) {
        let lines = samples.path(stack).flat_map(|at| &samples.locations[at].lines);
        let names = lines.map(|line| samples.functions[line.function].name.clone()).collect();
        let sum: &mut u64 = stacks.entry((samples.kinds[stack.kind].name.clone(), names)).or_default();
        *sum += stack.value;
    }
    stacks
}

/// Folded stacks of each event.
fn check_folded(path: &Path, profile: &Profile) {
    for event in 0..profile.events.len() {
        let total = profile.total(event).period;
        let tree = Tree::of_profile(profile, TreeOpts { event, ..TreeOpts::default() });
        let text = folded::to_text(&tree);
        if text.is_empty() {
            continue;
        }
        let again = read_again(text.as_bytes());
        assert_eq!(again.total(0).period, total, "event {event} of {}", path.display());
    }
}
