//! Requests to a running recording: `--control`'s commands, `SIGUSR2`, the time for another file.

use std::sync::atomic::Ordering;

use super::Recording;
use crate::error::Error;
use crate::session::control::{Command, Control};

impl Recording<'_> {
    /// The newest part of a processor's trace is kept; or what was recorded until now becomes a file.
    pub(super) fn keep_now(&mut self) -> Result<(), Error> {
        if self.opts.takes_snapshots() {
            return self.snapshot();
        }
        self.next_file();
        Ok(())
    }

    /// Completes a file with the records until now.
    pub(super) fn next_file(&mut self) {
        if self.opts.file.switch_output.is_none() {
            return (self.opts.observers.on_notice)(
                "tally: snapshot: files are written one after another with --switch-output only",
            );
        }
        self.drain(false);
        self.shared.snapshot.store(true, Ordering::Relaxed);
        // Wakes the worker, should nothing have come.
        self.shared.queue.push(Vec::new());
    }

    /// Carries out the commands that have come; true if the recording shall end.
    pub(super) fn obey(&mut self) -> Result<bool, Error> {
        let commands = self.control.as_mut().map(Control::commands).unwrap_or_default();
        for command in commands {
            match command {
                Command::Enable(name) => self.switch(true, name.as_deref())?,
                Command::Disable(name) => self.switch(false, name.as_deref())?,
                Command::Snapshot => self.keep_now()?,
                Command::List => {
                    self.setup.plan.file.iter().for_each(|event| (self.opts.observers.on_notice)(&event.name))
                }
                Command::Ping => {}
                Command::Stop => {
                    self.control.iter_mut().for_each(Control::answer);
                    return Ok(true);
                }
                Command::Unknown(text) => {
                    (self.opts.observers.on_notice)(&format!("tally: --control: '{text}' is not a command"));
                    continue;
                }
            }
            self.control.iter_mut().for_each(Control::answer);
        }
        Ok(false)
    }

    /// Switches sampling on or off, of all events or one; the first time all of the recording begins.
    fn switch(&mut self, on: bool, name: Option<&str>) -> Result<(), Error> {
        if on && name.is_none() && !self.phase.has_enabled {
            return self.enable();
        }
        let file = &self.setup.plan.file;
        if name.is_some_and(|name| file.iter().all(|event| event.name != name)) {
            let name = name.unwrap_or_default();
            (self.opts.observers.on_notice)(&format!("tally: --control: no event '{name}' is recorded"));
        }
        let chosen = |event: usize| name.is_none_or(|name| file[event].name == name);
        if on && !self.phase.has_enabled {
            self.phase.has_enabled = true;
            self.started();
        }
        self.phase.is_paused = !on && name.is_none();
        let step = on.then_some(self.phase.step);
        let (opened, plan) = (&self.setup.opened, &self.setup.plan);
        opened.switch(plan, step, chosen).map_err(Error::system("PERF_EVENT_IOC_ENABLE or DISABLE"))
    }
}
