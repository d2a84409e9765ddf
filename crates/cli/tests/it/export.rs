//! Samples for other profilers: nothing is lost on the way.

use super::TALLY;
use quick_protobuf::BytesReader;
use record::scratch::ScratchFolder;
use serde_json::Value;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;

fn tally(folder: &Path, args: &[&str]) -> String {
    let run = Command::new(TALLY).args(args).current_dir(folder).output().expect("tally runs");
    String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr)
}

fn unpacked(path: &Path) -> Vec<u8> {
    let file = std::fs::File::open(path).expect("was written");
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).expect("gzip");
    bytes
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("JSON")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// Sums of each value of all samples of a pprof file.
fn sums_of_pprof(bytes: &[u8]) -> Vec<u64> {
    const SAMPLE: u32 = 2 << 3 | 2;
    const VALUES: u32 = 2 << 3 | 2;
    let mut sums: Vec<u64> = Vec::new();
    let mut reader = BytesReader::from_bytes(bytes);
    while !reader.is_eof() {
        let tag = reader.next_tag(bytes).expect("a tag");
        if tag != SAMPLE {
            reader.read_unknown(bytes, tag).expect("a field");
            continue;
        }
        let sample = reader.read_bytes(bytes).expect("a sample");
        let mut fields = BytesReader::from_bytes(sample);
        while !fields.is_eof() {
            let tag = fields.next_tag(sample).expect("a tag");
            if tag != VALUES {
                fields.read_unknown(sample, tag).expect("a field");
                continue;
            }
            let values = fields.read_packed(sample, |r, b| r.read_uint64(b)).expect("numbers");
            sums.resize(values.len(), 0);
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
    }
    sums
}

/// Sums by kind: the word in parentheses at the end of a name.
fn sum_of_named(rows: &[(String, f64)], kind: &str) -> f64 {
    rows.iter().filter(|(name, _)| name.ends_with(&format!("({kind})"))).map(|(_, sum)| sum).sum()
}

#[test]
fn every_format_has_the_sums_of_the_recording() {
    let folder = ScratchFolder::private("export").expect("a folder");
    let folder = folder.path();
    tally(
        folder,
        // One clock for all machines: where there are cycles, formats name them and not CPU time.
        &[
            "run",
            "-e",
            "cpu-clock",
            "-o",
            "perf.data",
            "--",
            "sh",
            "-c",
            "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done",
        ],
    );
    let callgrind = tally(folder, &["export", "--to", "callgrind", "-o", "callgrind.out", "--event", "wall"]);
    if !callgrind.contains("wall") {
        return println!("skipped: can't record here");
    }
    for (format, file) in [("pprof", "p.pb.gz"), ("speedscope", "p.json"), ("firefox", "f.json.gz")] {
        let note = tally(folder, &["export", "--to", format, "-o", file]);
        assert!(note.contains(&format!("in {file}")), "{note}");
    }
    let [samples, cpu_ns, off_cpu_ns, wall_ns] = sums_of_pprof(&unpacked(&folder.join("p.pb.gz")))[..] else {
        panic!("pprof has two values for the clock and two for the wall clock");
    };
    assert!(samples > 0 && cpu_ns > 0 && off_cpu_ns < wall_ns, "{samples} {cpu_ns} {off_cpu_ns} {wall_ns}");

    let speedscope = json(&std::fs::read(folder.join("p.json")).expect("was written"));
    let row = |profile: &Value, sum: f64| (profile["name"].as_str().expect("a name").to_owned(), sum);
    let numbers = |values: &Value| list(values).iter().filter_map(Value::as_f64).sum::<f64>();
    let profiles: Vec<_> = list(&speedscope["profiles"])
        .iter()
        .map(|profile| row(profile, numbers(&profile["weights"])))
        .collect();
    assert_eq!(sum_of_named(&profiles, "cpu") as u64, cpu_ns);
    assert_eq!(sum_of_named(&profiles, "wall") as u64, wall_ns);

    let firefox = json(&unpacked(&folder.join("f.json.gz")));
    let threads: Vec<_> = list(&firefox["threads"])
        .iter()
        .map(|thread| row(thread, numbers(&thread["samples"]["weight"]) * 1e6))
        .collect();
    assert!((sum_of_named(&threads, "cpu") - cpu_ns as f64).abs() < 1.0, "{threads:?}");
    assert!((sum_of_named(&threads, "wall") - wall_ns as f64).abs() < 1.0, "{threads:?}");

    let callgrind = std::fs::read_to_string(folder.join("callgrind.out")).expect("was written");
    assert!(callgrind.contains(&format!("\nsummary: {wall_ns}\n")), "{wall_ns}: {callgrind}");
}
