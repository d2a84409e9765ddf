//! `export`: what other programs read from tally's files has the sums that perf counts in the recording.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Case, Pair, viewers};
use crate::process;
use crate::score::{Score, skip};

/// Compares the sums of one file's events, read by `go tool pprof`, OpenTelemetry's own protocol buffers,
/// callgrind_annotate, DuckDB, speedscope and the Firefox Profiler.
pub fn compare(pair: &Pair, case: &Case) -> Result<Score> {
    let name = format!("oracle export {}", case.name);
    if !pair.is_tally() {
        return Ok(skip(&name, "perf has no such command"));
    }
    let file = case.file.to_string_lossy().into_owned();
    let perf = pair.perf(&["script", "--no-itrace", "-F", "event,period", "-i", &file])?;
    let counted = counts_of_perf(&String::from_utf8_lossy(&perf.stdout));
    if !perf.ok() || counted.is_empty() {
        return Ok(skip(&name, "perf counts nothing in it"));
    }
    let mut score = Score::default();
    score += check(&name, "go tool pprof", &counted, by_pprof(pair, &file)?);
    score += check(&name, "duckdb", &counted, viewers::by_duckdb(pair, &case.file)?);
    // One format of rows and one of trees are enough for files that no change here can alter.
    if case.foreign && !pair.effort.is_whole() {
        return Ok(score);
    }
    score += check(&name, "opentelemetry-proto", &counted, by_otlp(pair, &file)?);
    // The file has one event: one of the sums.
    let total = by_callgrind(pair, &file)?;
    let wanted: Vec<u64> = counted.iter().copied().filter(|sum| total.as_deref() == Some(&[*sum])).collect();
    score +=
        check(&name, "callgrind_annotate", if wanted.is_empty() { &counted } else { &wanted[..1] }, total);
    // Starting a browser for each file takes minutes.
    if !case.foreign {
        score += check(&name, "speedscope", &counted, viewers::by_speedscope(pair, &case.file)?);
        score += check(&name, "profiler-cli", &counted, viewers::by_firefox(pair, &case.file)?);
    }
    Ok(score)
}

fn check(name: &str, reader: &str, counted: &[u64], read: Option<Vec<u64>>) -> Score {
    let Some(read) = read else {
        return skip(&format!("{name} {reader}"), "not on this machine, or not ready in time");
    };
    let is_same = read == counted;
    if !is_same {
        println!("{name}: {reader} reads {read:?}, perf counts {counted:?}");
    }
    Score::of(is_same)
}

/// The sums of the events that have samples, smallest first, from lines `PERIOD EVENT:`.
fn counts_of_perf(text: &str) -> Vec<u64> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if let (Some(Ok(period)), Some(event)) = (words.next().map(str::parse::<u64>), words.next()) {
            *sums.entry(event).or_default() += period;
        }
    }
    sorted(sums.into_values())
}

fn sorted(sums: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut sums: Vec<u64> = sums.filter(|sum| *sum > 0).collect();
    sums.sort_unstable();
    sums
}

/// Sums of every second value: the ones between them count samples. The wall clock's two are left out.
fn by_pprof(pair: &Pair, file: &str) -> Result<Option<Vec<u64>>> {
    let Some(go) = process::find("go") else { return Ok(None) };
    let out = scratch(pair, file, "pb.gz").to_string_lossy().into_owned();
    pair.tally(&["export", "--to", "pprof", "-i", file, "-o", &out])?;
    let raw = pair.run(&go, &["tool", "pprof", "-raw", &out])?;
    let text = String::from_utf8_lossy(&raw.stdout).into_owned();
    let mut lines = text.lines().skip_while(|line| *line != "Samples:").skip(1);
    let types: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    let mut sums = vec![0u64; types.len()];
    for line in lines.take_while(|line| *line != "Locations") {
        let Some((values, _)) = line.split_once(':') else { continue };
        let values: Vec<u64> = values.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        if values.len() == sums.len() {
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
    }
    let is_wall = |name: &str| name.starts_with("wall/") || name.starts_with("off_cpu/");
    let of_events = types.iter().zip(sums).skip(1).step_by(2).filter(|(name, _)| !is_wall(name));
    Ok(Some(sorted(of_events.map(|(_, sum)| sum))))
}

/// Prints name and sum of each profile, if the empty entries that begin the tables are there.
const READ_OTLP: &str = "
import sys
from opentelemetry.proto.profiles.v1development import profiles_pb2 as p
data = p.ProfilesData()
data.ParseFromString(open(sys.argv[1], 'rb').read())
tables = data.dictionary
texts = tables.string_table
firsts = [tables.mapping_table, tables.location_table, tables.function_table, tables.stack_table]
assert texts[0] == '' and all(not first[0].ByteSize() for first in firsts)
for resource in data.resource_profiles:
    for scope in resource.scope_profiles:
        for profile in scope.profiles:
            for sample in profile.samples:
                for at in tables.stack_table[sample.stack_index].location_indices:
                    assert tables.location_table[at].lines
            name = texts[profile.sample_type.type_strindex]
            print(name, sum(value for sample in profile.samples for value in sample.values))
";

/// Sums of the profiles of OpenTelemetry, without numbers of samples and the wall clock.
fn by_otlp(pair: &Pair, file: &str) -> Result<Option<Vec<u64>>> {
    let Some(python) = viewers::python() else { return Ok(None) };
    let has = pair.run(&python, &["-c", "import opentelemetry.proto.profiles.v1development.profiles_pb2"])?;
    if !has.ok() {
        return Ok(None);
    }
    let out = scratch(pair, file, "otlp").to_string_lossy().into_owned();
    pair.tally(&["export", "--to", "otlp", "-i", file, "-o", &out])?;
    let read = pair.run(&python, &["-c", READ_OTLP, &out])?;
    let text = String::from_utf8_lossy(&read.stdout).into_owned();
    let is_left_out = |name: &str| name.ends_with("samples") || ["wall", "off_cpu"].contains(&name);
    let sums = text.lines().filter_map(|line| line.split_once(' ')).filter(|(name, _)| !is_left_out(name));
    Ok(Some(sorted(sums.filter_map(|(_, sum)| sum.parse().ok()))))
}

/// The total of the first event, found among the sums.
fn by_callgrind(pair: &Pair, file: &str) -> Result<Option<Vec<u64>>> {
    let Some(annotate) = process::find("callgrind_annotate") else { return Ok(None) };
    let out = scratch(pair, file, "callgrind").to_string_lossy().into_owned();
    pair.tally(&["export", "--to", "callgrind", "-i", file, "-o", &out])?;
    let read = pair.run(&annotate, &[&out])?;
    let text = String::from_utf8_lossy(&read.stdout).into_owned();
    let total = text.lines().find(|line| line.ends_with("PROGRAM TOTALS")).unwrap_or_default();
    let digits = total.split_whitespace().next().unwrap_or_default().replace(',', "");
    Ok(Some(digits.parse().into_iter().collect()))
}

/// A file for what is exported of `file`: several recordings are compared at a time.
fn scratch(pair: &Pair, file: &str, ending: &str) -> PathBuf {
    let name = Path::new(file).file_name().unwrap_or_default().to_string_lossy().into_owned();
    pair.dir.join(format!("export-{name}.{ending}"))
}
