//! The cost of runs: instructions where a PMU counts them, CPU time, wall-clock time.

use crate::stat::outcome::joined;
use crate::stat::run::{Outcome, RunOpts, run_once};
use anyhow::bail;
use counts::{Aggregation, Support};
use profile::view::check::RunCost;
use record::event::{self, EventSpec, SystemSource};
use record::opts::Delay;
use record::stop_signals::StopSignals;
use record::{Target, count};
use std::ffi::OsString;

/// Instructions of user code: their number varies less than time does.
const INSTRUCTIONS: &str = "instructions:u";

/// Measures a command, or two by turns.
pub struct Stopwatch {
    events: Vec<EventSpec>,
    signals: StopSignals,
}

/// Why no costs came of it.
pub enum NotMeasured {
    /// A signal ended it.
    Interrupted,
    /// The command can't be run, or failed.
    Failed(anyhow::Error),
}

impl Stopwatch {
    /// Finds out what this machine can count.
    ///
    /// # Errors
    /// The kernel's, if signals can't be waited for.
    pub fn new() -> anyhow::Result<Self> {
        let mut events = event::parse(INSTRUCTIONS, &SystemSource::new()).unwrap_or_default();
        events.retain(|event| matches!(count::probe(event), Ok(Support::Full | Support::UserOnly)));
        Ok(Self { events, signals: StopSignals::new(&[])? })
    }

    /// Runs each command `repeat` times after one run that isn't counted. Several commands alternate, and each second
    /// round is in the opposite order.
    ///
    /// # Errors
    /// A command can't be run, fails, or a signal comes.
    pub fn measure(
        &mut self,
        commands: &[&[OsString]],
        repeat: u32,
    ) -> Result<Vec<Vec<RunCost>>, NotMeasured> {
        let mut costs = vec![Vec::new(); commands.len()];
        for round in 0..=repeat {
            let mut order: Vec<usize> = (0..commands.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for side in order {
                let cost = self.run(commands[side])?;
                if round > 0 {
                    costs[side].push(cost);
                }
            }
        }
        Ok(costs)
    }

    fn run(&mut self, command: &[OsString]) -> Result<RunCost, NotMeasured> {
        let opts = opts_of(command, self.events.clone());
        let outcome = run_once(&opts, &mut self.signals, &mut |_| Ok(())).map_err(NotMeasured::Failed)?;
        if outcome.interrupted.is_some() {
            return Err(NotMeasured::Interrupted);
        }
        refuse_failure(command, &outcome).map_err(NotMeasured::Failed)?;
        let used = outcome.used.unwrap_or_default();
        Ok(RunCost {
            instructions: outcome.values().first().copied().flatten(),
            cpu: used.user_ns.saturating_add(used.system_ns) as f64,
            wall_ns: outcome.run.wall_ns as f64,
        })
    }
}

/// A failing command does other work than one that succeeds.
fn refuse_failure(command: &[OsString], outcome: &Outcome) -> anyhow::Result<()> {
    match outcome.exit.map(|exit| exit.shell_code()) {
        Some(0) | None => Ok(()),
        Some(code) => bail!("the command failed, status {code}: {}", joined(command)),
    }
}

fn opts_of(command: &[OsString], events: Vec<EventSpec>) -> RunOpts {
    RunOpts {
        events,
        target: Target { command: command.to_vec(), ..Target::default() },
        by: Aggregation::Global,
        all_threads: false,
        no_inherit: false,
        delay: Delay::None,
        unscaled: false,
        control: None,
        timeout: None,
        interval: None,
        interval_count: None,
    }
}
