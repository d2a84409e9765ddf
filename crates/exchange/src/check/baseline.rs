//! The stored baseline: costs of each run, functions, and the machine, as JSON.

use profile::view::check::{FunctionCost, MachineFacts, RunCost, SampledCosts, SampledRuns};
use serde_json::{Map, Value, json};
use std::fmt;

/// Value of `format`.
const FORMAT: &str = "tally check baseline";
/// The version written. A reader refuses greater ones.
const VERSION: u64 = 1;
/// Size of the largest file worth reading.
pub const MAX_BYTES: u64 = 16 << 20;

/// Why a text isn't a baseline.
#[derive(Debug)]
pub enum BaselineError {
    /// It isn't JSON; the parser's error has line and column.
    NotJson(serde_json::Error),
    /// It is other JSON.
    OtherFormat,
    /// It was written by a later version of tally.
    LaterVersion(u64),
    /// A run lacks its times, or there are no runs; the index of that run.
    NoCost(usize),
}

impl std::error::Error for BaselineError {}

impl fmt::Display for BaselineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson(error) => write!(f, "{error}"),
            Self::OtherFormat => f.write_str("write one with: tally check --save FILE -- COMMAND"),
            Self::LaterVersion(version) => {
                write!(f, "version {version}: this tally reads up to {VERSION}")
            }
            Self::NoCost(run) => write!(f, "run {run} lacks cpu_ns or wall_ns"),
        }
    }
}

/// Runs of a command, to be compared with later ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Baseline {
    /// The command's words.
    pub command: Vec<String>,
    /// Where it ran.
    pub machine: MachineFacts,
    /// One a run.
    pub runs: Vec<RunCost>,
    /// Functions by own time; `None` if the runs couldn't be sampled.
    pub sampled: Option<SampledRuns>,
}

impl Baseline {
    /// Reads the text of a stored baseline.
    ///
    /// # Errors
    /// See [`BaselineError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, BaselineError> {
        let value: Value = serde_json::from_slice(bytes).map_err(BaselineError::NotJson)?;
        if value["format"] != FORMAT {
            return Err(BaselineError::OtherFormat);
        }
        match value["version"].as_u64() {
            Some(1..=VERSION) => {}
            other => return Err(BaselineError::LaterVersion(other.unwrap_or(0))),
        }
        let runs = value["runs"].as_array().filter(|runs| !runs.is_empty());
        let runs = runs.ok_or(BaselineError::NoCost(0))?.iter().enumerate();
        let words = value["command"].as_array().into_iter().flatten().filter_map(Value::as_str);
        Ok(Self {
            command: words.map(str::to_owned).collect(),
            machine: machine_of_json(&value["machine"]),
            runs: runs
                .map(|(at, run)| run_of_json(run).ok_or(BaselineError::NoCost(at)))
                .collect::<Result<_, _>>()?,
            sampled: sampled_of_json(&value["sampled"]),
        })
    }

    /// The text to store.
    #[must_use]
    pub fn to_text(&self) -> String {
        format!("{:#}\n", self.to_json())
    }

    fn to_json(&self) -> Value {
        json!({
            "format": FORMAT,
            "version": VERSION,
            "command": self.command,
            "machine": machine_to_json(&self.machine),
            "runs": self.runs.iter().map(run_to_json).collect::<Vec<_>>(),
            "sampled": self.sampled.as_ref().map(sampled_to_json),
        })
    }
}

fn machine_to_json(machine: &MachineFacts) -> Value {
    json!({ "cpu": machine.cpu, "kernel": machine.kernel, "cpus": machine.cpus })
}

/// Missing values are unknown.
fn machine_of_json(value: &Value) -> MachineFacts {
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let cpus = value["cpus"].as_u64().and_then(|cpus| u32::try_from(cpus).ok()).unwrap_or(0);
    MachineFacts { cpu: text("cpu"), kernel: text("kernel"), cpus }
}

fn run_to_json(run: &RunCost) -> Value {
    json!({ "instructions": run.instructions, "cpu_ns": run.cpu, "wall_ns": run.wall_ns })
}

fn run_of_json(value: &Value) -> Option<RunCost> {
    Some(RunCost {
        instructions: value["instructions"].as_f64(),
        cpu: value["cpu_ns"].as_f64()?,
        wall_ns: value["wall_ns"].as_f64()?,
    })
}

fn sampled_to_json(sampled: &SampledRuns) -> Value {
    let function = |function: &FunctionCost| {
        let mut fields = Map::new();
        fields.insert("name".into(), function.name.clone().into());
        fields.insert("dso".into(), function.dso.clone().into());
        if let Some((file, line)) = &function.source {
            fields.insert("file".into(), file.clone().into());
            fields.insert("line".into(), (*line).into());
        }
        fields.insert("cost".into(), function.cost.round().into());
        Value::Object(fields)
    };
    json!({
        "event": sampled.event,
        "samples": sampled.costs.samples,
        "total": sampled.costs.total,
        "functions": sampled.costs.functions.iter().map(function).collect::<Vec<_>>(),
    })
}

fn sampled_of_json(value: &Value) -> Option<SampledRuns> {
    let function = |value: &Value| {
        let line = value["line"].as_u64().and_then(|line| u32::try_from(line).ok());
        Some(FunctionCost {
            name: value["name"].as_str()?.to_owned(),
            dso: value["dso"].as_str().unwrap_or_default().to_owned(),
            source: value["file"].as_str().map(str::to_owned).zip(line),
            cost: value["cost"].as_f64()?,
        })
    };
    Some(SampledRuns {
        event: value["event"].as_str()?.to_owned(),
        costs: SampledCosts {
            samples: value["samples"].as_u64()?,
            total: value["total"].as_f64()?,
            functions: value["functions"].as_array()?.iter().filter_map(function).collect(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baseline() -> Baseline {
        let function = FunctionCost {
            name: "parse".into(),
            dso: "app".into(),
            source: Some(("src/parse.c".into(), 14)),
            cost: 61_000_000.0,
        };
        let costs = SampledCosts { samples: 812, total: 81_250_000.0, functions: vec![function] };
        Baseline {
            command: vec!["./app".into(), "in put".into()],
            machine: MachineFacts { cpu: "CPU".into(), kernel: "6.1".into(), cpus: 2 },
            runs: vec![RunCost { instructions: Some(1e9), cpu: 5e8, wall_ns: 6e8 }; 3],
            sampled: Some(SampledRuns { event: "cpu-clock".into(), costs }),
        }
    }

    #[test]
    fn a_baseline_is_read_as_it_was_written() {
        let before = baseline();
        assert_eq!(Baseline::parse(before.to_text().as_bytes()).expect("a baseline"), before);
        let unsampled = Baseline { sampled: None, ..before };
        assert_eq!(Baseline::parse(unsampled.to_json().to_string().as_bytes()).expect("one"), unsampled);
    }

    #[test]
    fn files_of_another_kind_are_refused_with_the_reason() {
        let why = |text: &str| {
            let error = Baseline::parse(text.as_bytes()).expect_err("no baseline");
            error.to_string()
        };
        assert!(why("{").contains("line 1"));
        assert!(why("{}").contains("tally check --save"));
        let later = baseline().to_json().to_string().replace("\"version\":1", "\"version\":9");
        assert_eq!(why(&later), "version 9: this tally reads up to 1");
        let empty = baseline().to_json().to_string().replace("cpu_ns", "cpu");
        assert_eq!(why(&empty), "run 0 lacks cpu_ns or wall_ns");
    }
}
