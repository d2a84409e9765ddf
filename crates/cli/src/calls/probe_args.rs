//! The flags of recording by uprobes.

use std::str::FromStr;

use super::record_spec::ProbeSpec;

/// Functions chosen by who calls them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callees {
    /// Who calls them, besides what -P means.
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
                let depth = depth.parse().map_err(|_| format!("'{depth}' is no depth: FUNC:2"))?;
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

/// What only uprobes can do.
#[derive(clap::Args)]
#[command(next_help_heading = "Uprobes: any program, and running ones")]
pub struct ProbeArgs {
    /// Attach to this process (can be repeated)
    #[arg(short, long, value_name = "PID", conflicts_with = "command")]
    pub pid: Vec<u32>,
    /// Stop after this many seconds
    #[arg(short, long, value_name = "SECONDS", value_parser = crate::recording::parse_seconds)]
    pub duration: Option<f64>,
    /// Use uprobes even if the program is instrumented
    #[arg(long)]
    pub uprobes: bool,
    /// Also what the functions of -P call, N deep; with FUNC, as with -P FUNC, 1 deep by default (direct
    /// calls, read off the code)
    #[arg(long, value_name = "N|FUNC[:N]")]
    pub callees: Option<Callees>,
    /// No single calls, only counts and times by function, summed up in the kernel
    #[arg(long)]
    pub counts: bool,
    /// Only how often functions are called, no times: about half the price, and nothing is done where they end
    #[arg(long, conflicts_with_all = ["return_probes", "kernel_depth"])]
    pub entries: bool,
    /// Take the probes off a function called more often per second (0: never) [default: as often as takes half a CPU
    /// here, at most 50000]
    #[arg(long, value_name = "N")]
    pub max_rate: Option<u64>,
    /// See returns by return probes instead of at the return instructions (never with exceptions)
    #[arg(long)]
    pub return_probes: bool,
    /// Also the kernel's part of each call, as deep as can be: system calls, page faults, waits
    #[arg(short = 'K', long, value_name = "DEPTH")]
    pub kernel_depth: Option<u32>,
}

impl ProbeArgs {
    /// The same without clap.
    #[must_use]
    pub fn spec(&self) -> ProbeSpec {
        ProbeSpec {
            pid: self.pid.clone(),
            duration: self.duration,
            uprobes: self.uprobes,
            callees: self.callees.clone(),
            counts: self.counts,
            entries: self.entries,
            max_rate: self.max_rate,
            return_probes: self.return_probes,
            kernel_depth: self.kernel_depth,
        }
    }
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
