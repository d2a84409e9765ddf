//! The moment at which a recording starts: its events are on, its clocks begun, or its command can't be run.

use std::io;
use std::sync::atomic::Ordering;

use super::Recording;
use crate::accounting::summary::{Notice, RunSummary};
use crate::error::Error;
use crate::files::output_file;
use crate::session::opts::Output;

impl<'o> Recording<'o> {
    /// From this moment on, time counts.
    pub(super) fn started(&self) {
        self.shared.started_ns.store(self.opts.clock.now_ns(), Ordering::Release);
    }

    /// The command could not be started. Removes the file.
    pub(super) fn not_run(self, source: io::Error) -> Result<RunSummary, Error> {
        let command =
            self.opts.target.command.first().map_or_else(String::new, |c| c.to_string_lossy().into_owned());
        self.shared.queue.close();
        let _ = self.worker.join();
        if let Output::File(path) = &self.opts.file.output {
            output_file::remove_recording(path);
        }
        Err(Error::Exec { command, source })
    }

    /// The clocks of time off the CPU begin; should they not, all else is recorded still.
    pub(super) fn begin_clocks(&mut self) {
        let Some(off_cpu) = &mut self.sources.off_cpu else { return };
        let mut bytes = Vec::new();
        if let Err(error) = off_cpu.begin(&mut bytes) {
            self.setup.notices.push(Notice::NoOffCpu(error.to_string()));
        }
        self.shared.queue.push(bytes);
    }

    pub(super) fn enable(&mut self) -> Result<(), Error> {
        self.phase.has_enabled = true;
        self.begin_clocks();
        self.started();
        self.sources.totals.enable();
        self.setup
            .opened
            .enable(&self.setup.plan, self.phase.step)
            .map_err(Error::system("PERF_EVENT_IOC_ENABLE"))
    }
}
