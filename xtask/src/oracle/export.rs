//! `export`: what other programs read from tally's files has the sums that perf counts in the recording, and its stacks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::read_stacks::ReadStacks;
use super::{Case, Pair, viewers};
use crate::process;
use crate::score::{Score, skip};

const NOT_THERE: &str = "not on this machine, or not ready in time";

/// Compares the sums and stacks of one file's events, read by `go tool pprof`, OpenTelemetry's own protocol buffers,
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
    let recorded = Recorded { name: &name, pair, file: &file, counted: &counted };
    score += recorded.check("go tool pprof", by_pprof(pair, &file)?)?;
    score += recorded.check("duckdb", viewers::by_duckdb(pair, &case.file)?)?;
    // One format of rows and one of trees are enough for files that no change here can alter.
    if case.foreign && !pair.effort.is_whole() {
        return Ok(score);
    }
    score += recorded.check("opentelemetry-proto", by_otlp(pair, &file)?)?;
    // The file has one event: one of the sums.
    let total = by_callgrind(pair, &file)?;
    let wanted: Vec<u64> = counted.iter().copied().filter(|sum| total.as_deref() == Some(&[*sum])).collect();
    let wanted = if wanted.is_empty() { &counted } else { &wanted[..1] };
    score += check_sums(&format!("{name} callgrind_annotate"), wanted, total.as_deref());
    // Starting a browser for each file takes minutes.
    if !case.foreign {
        score += recorded.check("speedscope", viewers::by_speedscope(pair, &case.file)?)?;
        score += recorded.check("profiler-cli", viewers::by_firefox(pair, &case.file)?)?;
    }
    Ok(score)
}

/// Compares what readers of each format find of a recording with waits: the stacks of both clocks.
pub fn compare_waits(pair: &Pair) -> Result<Score> {
    let path = pair.dir.join("export-waits.data");
    let file = path.to_string_lossy().into_owned();
    let program = pair.programs.join("convoy").to_string_lossy().into_owned();
    let record = ["record", "-q", "-e", "cpu-clock", "-F", "499", "--off-cpu", "-o", &file, "--", &program];
    if !pair.tally(&[&record[..], &["4", "200"]].concat())?.ok() {
        return Ok(skip("oracle export of waits", "time off the CPU can't be recorded here"));
    }
    let recorded = Recorded { name: "oracle export of waits", pair, file: &file, counted: &[] };
    let readers = [
        ("go tool pprof", by_pprof(pair, &file)?),
        ("duckdb", viewers::by_duckdb(pair, &path)?),
        ("opentelemetry-proto", by_otlp(pair, &file)?),
        ("speedscope", viewers::by_speedscope(pair, &path)?),
        ("profiler-cli", viewers::by_firefox(pair, &path)?),
    ];
    let mut score = Score::default();
    for (reader, read) in readers {
        let what = format!("{} {reader}", recorded.name);
        score += match read {
            None => skip(&what, NOT_THERE),
            Some(read) if !["cpu", "wall"].iter().all(|kind| read.kinds().contains(kind)) => {
                println!("{what}: reads only {:?}", read.kinds());
                Score::FAIL
            }
            Some(read) => recorded.check_stacks(&what, &read)?,
        };
    }
    Ok(score)
}

/// A recording, and the sums that perf counts in it.
struct Recorded<'a> {
    name: &'a str,
    pair: &'a Pair,
    file: &'a str,
    counted: &'a [u64],
}

impl Recorded<'_> {
    /// Compares what a program has read, its sums with perf's.
    fn check(&self, reader: &str, read: Option<ReadStacks>) -> Result<Score> {
        let what = format!("{} {reader}", self.name);
        let score = check_sums(&what, self.counted, read.as_ref().map(ReadStacks::sums_of_events).as_deref());
        match read {
            Some(read) if score.failed == 0 => self.check_stacks(&what, &read),
            _ => Ok(score),
        }
    }

    /// Compares each stack with the folded ones, which `collapse` compares with perf's.
    fn check_stacks(&self, what: &str, read: &ReadStacks) -> Result<Score> {
        let out = scratch(self.pair, self.file, "folded");
        let path = out.to_string_lossy();
        let mut differences = Vec::new();
        for kind in read.kinds() {
            let words = ["export", "--to", "folded", "--event", kind, "-i", self.file, "-o", &path];
            let folded = match self.pair.tally(&words)?.ok() {
                true => ReadStacks::of_folded(kind, &std::fs::read_to_string(&out)?),
                false => ReadStacks::default(),
            };
            differences.extend(read.clone().without(|other| other != kind).first_difference(&folded));
        }
        differences.iter().for_each(|difference| println!("{what}: {difference}"));
        Ok(Score::of(differences.is_empty()))
    }
}

fn check_sums(what: &str, counted: &[u64], read: Option<&[u64]>) -> Score {
    let Some(read) = read else { return skip(what, NOT_THERE) };
    let is_same = read == counted;
    if !is_same {
        println!("{what}: reads {read:?}, perf counts {counted:?}");
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

/// Every second value: the ones between them count samples. The time off the CPU is a part of the wall clock's.
fn by_pprof(pair: &Pair, file: &str) -> Result<Option<ReadStacks>> {
    let Some(go) = process::find("go") else { return Ok(None) };
    let out = scratch(pair, file, "pb.gz").to_string_lossy().into_owned();
    pair.tally(&["export", "--to", "pprof", "-i", file, "-o", &out])?;
    let raw = pair.run(&go, &["tool", "pprof", "-symbolize=none", "-raw", &out])?;
    Ok(Some(stacks_of_raw(&String::from_utf8_lossy(&raw.stdout))))
}

/// Reads what `pprof -raw` prints.
fn stacks_of_raw(text: &str) -> ReadStacks {
    let functions = functions_of_raw(text);
    let mut lines = text.lines().skip_while(|line| *line != "Samples:").skip(1);
    let types: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    let mut read = ReadStacks::default();
    for line in lines.take_while(|line| *line != "Locations") {
        let Some((values, path)) = line.split_once(':') else { continue };
        let values: Vec<u64> = values.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        if values.len() != types.len() {
            continue;
        }
        let path: Vec<&str> =
            path.split_whitespace().rev().filter_map(|id| functions.get(id)).flatten().copied().collect();
        for (kind, value) in types.iter().zip(values).skip(1).step_by(2) {
            // A unit comes last; names of events have slashes, too.
            let kind = kind.rsplit_once('/').map_or(*kind, |(name, _)| name);
            read.add_path(kind, path.iter().copied(), value);
        }
    }
    read.without(|kind| kind == "off_cpu")
}

/// The functions of each location, outermost first: lines `ID: ADDRESS M=1 FUNCTION FILE:LINE:COLUMN s=LINE`, in which
/// functions that hold the first one are on lines of their own.
fn functions_of_raw(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let lines = text.lines().skip_while(|line| *line != "Locations").skip(1);
    let mut functions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut location = "";
    for line in lines.take_while(|line| *line != "Mappings") {
        let mut rest = line.trim_start();
        if let Some((id, after)) = rest.split_once(": 0x") {
            location = id;
            rest = after.split_once(' ').map_or("", |(_, after)| after.trim_start());
            rest = rest
                .strip_prefix("M=")
                .and_then(|after| after.split_once(' '))
                .map_or(rest, |(_, name)| name);
        }
        let (before, _) = rest.rsplit_once(" s=").unwrap_or((rest, ""));
        let name = before.rsplit_once(' ').map_or(before, |(name, _)| name);
        functions.entry(location).or_default().insert(0, name);
    }
    functions
}

/// Prints value, name and stack of each sample, if the empty entries that begin the tables are there.
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
            kind = texts[profile.sample_type.type_strindex]
            for sample in profile.samples:
                names = []
                for at in tables.stack_table[sample.stack_index].location_indices:
                    assert tables.location_table[at].lines
                    for line in tables.location_table[at].lines:
                        name = texts[tables.function_table[line.function_index].name_strindex]
                        names.append(name.replace(';', ':'))
                print(sum(sample.values), kind, ';'.join(reversed(names)), sep='\t')
";

/// The profiles of OpenTelemetry, without numbers of samples and time off the CPU.
fn by_otlp(pair: &Pair, file: &str) -> Result<Option<ReadStacks>> {
    let Some(python) = viewers::python() else { return Ok(None) };
    let has = pair.run(&python, &["-c", "import opentelemetry.proto.profiles.v1development.profiles_pb2"])?;
    if !has.ok() {
        return Ok(None);
    }
    let out = scratch(pair, file, "otlp").to_string_lossy().into_owned();
    pair.tally(&["export", "--to", "otlp", "-i", file, "-o", &out])?;
    let read = pair.run(&python, &["-c", READ_OTLP, &out])?;
    let stacks = ReadStacks::of_lines(&String::from_utf8_lossy(&read.stdout));
    Ok(Some(stacks.without(|kind| kind.ends_with("samples") || kind == "off_cpu")))
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
