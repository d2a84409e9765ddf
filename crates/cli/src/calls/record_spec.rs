//! Specification of a recording of calls: the flags of `tally calls record` without clap.

use calls::selection::TraceSpec;
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use crate::terminal::out::harmless;

/// A recording to be made.
#[derive(Clone, Debug)]
pub struct RecordSpec {
    /// The folder to record into.
    pub output: PathBuf,
    /// Calls nested at most this deep.
    pub depth: Option<u32>,
    /// Only functions that these words match.
    pub patch: Vec<String>,
    /// Drop calls that took less, ns.
    pub min_ns: Option<u64>,
    /// Keep only the last bytes of each thread.
    pub max_bytes: Option<u64>,
    /// For programs that record themselves.
    pub trace: TraceSpec,
    /// For uprobes.
    pub probes: ProbeSpec,
    /// Don't record context switches.
    pub no_switches: bool,
    /// No lines about what was recorded.
    pub quiet: bool,
    /// The program and its arguments; empty when attached only.
    pub command: Vec<OsString>,
}

impl RecordSpec {
    /// Recorded command line, or processes.
    #[must_use]
    pub fn command_text(&self) -> String {
        if self.command.is_empty() {
            let pids: Vec<String> = self.probes.pid.iter().map(u32::to_string).collect();
            return format!("process {}", pids.join(", "));
        }
        let words: Vec<_> = self.command.iter().map(|word| word.to_string_lossy()).collect();
        // A script of `sh -c` has line ends; `info` is read by lines.
        harmless(&words.join(" ")).into_owned()
    }
}

/// Functions chosen by who calls them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callees {
    /// Callers to record, besides those that -P matches.
    pub of: Option<String>,
    /// How deep.
    pub depth: u32,
}

impl FromStr for Callees {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(depth) = text.parse() {
            return Ok(Self { of: None, depth });
        }
        // Not every colon begins a depth: C++ names have pairs of them.
        let (of, depth) = match text.rsplit_once(':') {
            Some((of, depth)) if !of.ends_with(':') => {
                let depth = depth.parse().map_err(|_| format!("'{depth}' is not a depth: FUNC:2"))?;
                (of, depth)
            }
            _ => (text, 1),
        };
        if of.is_empty() {
            return Err("no function: FUNC:2".to_owned());
        }
        Ok(Self { of: Some(of.to_owned()), depth })
    }
}

/// Settings that only uprobes have.
#[derive(Clone, Debug)]
pub struct ProbeSpec {
    /// Processes to attach to.
    pub pid: Vec<u32>,
    /// Stop after this many seconds.
    pub duration: Option<f64>,
    /// Use uprobes even if the program is instrumented.
    pub uprobes: bool,
    /// Also the functions that the selected ones call.
    pub callees: Option<Callees>,
    /// Only sums by function, made in the kernel.
    pub counts: bool,
    /// Only how often functions are called.
    pub entries: bool,
    /// Take the probes off a function called more often per second; 0: never.
    pub max_rate: Option<u64>,
    /// See returns by return probes.
    pub return_probes: bool,
    /// Also the kernel's part of each call, this deep.
    pub kernel_depth: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::Callees;

    #[test]
    fn callees_are_of_what_is_chosen_or_of_a_function() {
        let parsed = |text: &str| text.parse::<Callees>().map(|callees| (callees.of, callees.depth));
        assert_eq!(parsed("2"), Ok((None, 2)));
        assert_eq!(parsed("main"), Ok((Some("main".to_owned()), 1)));
        assert_eq!(parsed("main:3"), Ok((Some("main".to_owned()), 3)));
        assert_eq!(parsed("app::Parser::run"), Ok((Some("app::Parser::run".to_owned()), 1)));
        assert!(parsed("main:x").is_err() && parsed(":2").is_err());
    }
}
