//! Orders that come while events are counted: begin late, enable, disable.

use anyhow::Context;
use record::control::{Command, Control};
use record::sys::time::Clock;

use super::{Outcome, Run};
use crate::terminal::out;

impl<'a> Run<'a> {
    /// Switches on what was to wait so long; from then on time counts.
    pub(super) fn start_late(&mut self, now: u64) -> anyhow::Result<()> {
        if self.starts_at.is_some_and(|at| now >= at) {
            self.starts_at = None;
            self.counters.enable().context("cannot switch the counters on")?;
            (self.start_ns, self.last_ns) = (now, now);
        }
        Ok(())
    }

    /// Carries out what came by --control; true if the run shall end.
    pub(super) fn obey(
        &mut self,
        on_interval: &mut dyn FnMut(&Outcome) -> anyhow::Result<()>,
    ) -> anyhow::Result<bool> {
        for command in self.control.as_mut().map(Control::commands).unwrap_or_default() {
            match &command {
                Command::Enable(name) => self.switch(true, name.as_deref())?,
                Command::Disable(name) => self.switch(false, name.as_deref())?,
                Command::List => self.infos.iter().for_each(|info| out::note(&info.name)),
                Command::Unknown(text) => {
                    out::complain(&format!("--control: '{text}' is not a command"));
                    continue;
                }
                Command::Stop => return self.end_child().map(|()| true),
                Command::Ping | Command::Snapshot => {}
            }
            if matches!(command, Command::Enable(_) | Command::Disable(_)) && self.opts.interval.is_some() {
                // So that an interval is all on or all off, as in perf.
                on_interval(&self.interval(Clock::Monotonic.now_ns())?)?;
            }
            self.control.iter_mut().for_each(Control::answer);
        }
        Ok(false)
    }

    pub(super) fn switch(&self, on: bool, name: Option<&str>) -> anyhow::Result<()> {
        let chosen = |event: usize| name.is_none_or(|name| self.opts.events[event].name == name);
        if !(0..self.opts.events.len()).any(chosen) {
            out::complain(&format!("--control: no event '{}'", name.unwrap_or_default()));
        }
        self.counters.switch(on, chosen).context("cannot switch the counters")
    }
}
