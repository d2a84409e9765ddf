//! The runs of `tally stat`: one or several, or two commands by turns, and their sums.

use std::cell::Cell;
use std::io::Write;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, bail};
use record::event::EventSpec;
use record::stop_signals::StopSignals;
use record::sys::{Child, ExitKind};
use record::target::online_cpu_list;
use record::{Target, Whom};

use super::Args;
use crate::stat::compare::{run_pairs, split_command};
use crate::stat::outcome::{CountedCommand, Total, joined};
use crate::stat::run::{Outcome, RunOpts, run_once};
use crate::terminal::out;

impl Args {
    pub(super) fn run_opts(&self, events: Vec<EventSpec>) -> anyhow::Result<RunOpts> {
        let cpus = self.cpu.as_deref().map(online_cpu_list).transpose()?;
        let whom = if self.per_thread && self.all {
            Whom::Threads(every_thread())
        } else if self.is_system_wide()
            || (self.groups_by_cpu() && self.pid.is_empty() && self.command.is_empty())
        {
            Whom::System
        } else if !self.pid.is_empty() {
            Whom::Processes(self.pid.clone())
        } else if !self.tid.is_empty() {
            Whom::Threads(self.tid.clone())
        } else {
            Whom::Command
        };
        if whom == Whom::Command && self.command.is_empty() {
            bail!("nothing to count: give a command, -p PID, -t TID or -a");
        }
        if self.per_thread && !matches!(whom, Whom::Processes(_) | Whom::Threads(_)) {
            bail!("--per-thread needs -p PID, -t TID or -a: the threads must be there when counting begins");
        }
        Ok(RunOpts {
            events,
            target: Target { whom, cpus, command: self.command.clone(), cgroup: None },
            by: self.aggregation(),
            all_threads: self.per_thread && self.all,
            no_inherit: self.no_inherit || self.per_thread,
            delay: self.delay.unwrap_or_default(),
            unscaled: self.no_scale,
            control: self.control.clone(),
            timeout: self.timeout.map(Duration::from_millis),
            interval: self.interval_print.map(Duration::from_millis),
            interval_count: self.interval_count,
        })
    }

    pub(super) fn count(&self, opts: &RunOpts, signals: &mut StopSignals) -> anyhow::Result<ExitCode> {
        let has_failed = Rc::new(Cell::new(false));
        let mut out = self.open_output(Some(has_failed.clone()))?;
        let mut total = self.new_total();
        let whose = CountedCommand::of(opts);
        let mut to_file = self.to_file(opts)?;
        let mut printed_header = false;
        let mut runs = 0;
        loop {
            shell(self.sync.then_some("sync"), signals)?;
            shell(self.pre.as_deref(), signals)?;
            let outcome = run_once(opts, signals, &mut |interval: &Outcome| {
                to_file.push(interval, false)?;
                if self.interval_clear {
                    write!(out, "\x1b[H\x1b[2J")?;
                }
                if self.interval_clear || !std::mem::replace(&mut printed_header, true) {
                    total.style.interval_header(opts.by, &mut out)?;
                }
                total.print_interval(&interval.run, &mut out)
            })?;
            shell(self.post.as_deref(), signals)?;
            let interrupted = outcome.interrupted.is_some();
            if opts.interval.is_none() {
                to_file.push(&outcome, true)?;
            }
            total.push(outcome);
            runs += 1;
            let prints = opts.interval.is_none() || self.summary;
            if self.repeat == 0 && prints {
                // Endless runs have no mean: each is shown by itself.
                total.print(&whose, &mut out)?;
                out.flush()?;
            }
            if interrupted || runs == self.repeat {
                if self.repeat > 0 && prints {
                    total.print(&whose, &mut out)?;
                }
                break;
            }
            if self.repeat == 0 {
                total = self.new_total();
            }
        }
        out.flush()?;
        to_file.finish()?;
        // The command's own status, except for success.
        let code = total.exit_code();
        Ok(if has_failed.get() && code == ExitCode::SUCCESS { ExitCode::FAILURE } else { code })
    }

    pub(super) fn new_total(&self) -> Total {
        Total::new(self.style(), self.repeat > 1, self.table)
    }

    pub(super) fn compare(
        &self,
        a: &RunOpts,
        b: &str,
        signals: &mut StopSignals,
    ) -> anyhow::Result<ExitCode> {
        let command = split_command(b);
        if command.is_empty() || a.target.command.is_empty() {
            bail!("--vs compares two commands: tally stat --vs 'COMMAND B' -- COMMAND A");
        }
        let mut b_opts = a.clone();
        b_opts.target.command = command;
        let pairs = if self.repeat > 1 { self.repeat } else { 10 };
        let (comparison, whole) = run_pairs(a, &b_opts, pairs, signals)?;
        let mut out = self.open_output(None)?;
        let a_name = joined(&a.target.command);
        comparison.print((&out::harmless(&a_name), &out::harmless(b)), self.style().big_num, &mut out)?;
        out.flush()?;
        Ok(if whole { ExitCode::SUCCESS } else { ExitCode::from(130) })
    }
}

fn shell(command: Option<&str>, signals: &StopSignals) -> anyhow::Result<()> {
    let Some(command) = command else { return Ok(()) };
    let mut shell = Child::fork(&["sh", "-c", command], signals.reader()).context("cannot run sh")?;
    shell.exec().context("cannot run sh")?;
    match shell.wait().context("cannot run sh")? {
        ExitKind::Code(0) => Ok(()),
        ExitKind::Code(code) => bail!("'{command}' failed: exit status: {code}"),
        ExitKind::Signal(number) => bail!("'{command}' failed: signal: {number}"),
    }
}

/// All threads that run now, but our own.
fn every_thread() -> Vec<u32> {
    let own = std::process::id();
    let pids = record::proc::pids().into_iter().filter(|&pid| pid != own);
    pids.flat_map(|pid| record::proc::threads(pid).unwrap_or_default()).collect()
}
