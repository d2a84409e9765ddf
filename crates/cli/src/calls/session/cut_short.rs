//! A recording that can't go on, of a program that can.

use record::stop_signals::{RunningCommand, SignalRole};

use super::{PAUSE, ProbeSession};
use crate::terminal::out;

impl ProbeSession {
    /// The command's end is waited for although nothing is recorded any more: its exit status, but for 0. Without a
    /// command, and where nobody reads what is shown, the error is all.
    ///
    /// # Errors
    /// `why`, or the kernel's.
    pub fn go_on_without(&mut self, why: anyhow::Error) -> anyhow::Result<u8> {
        self.engine.stop();
        let Some(child) = self.child.as_mut().filter(|_| !out::is_closed_pipe(&why)) else { return Err(why) };
        if self.cut_short.is_none() {
            let told = format!("recording stopped early: {why:#}");
            out::complain(&format!("{told}; everything until then is kept"));
            self.cut_short = Some(told);
        }
        loop {
            if let Some(end) = child.try_wait()? {
                return Ok(end.shell_code().max(1));
            }
            self.signals.take(Some(RunningCommand::of(child, SignalRole::Recorded)))?;
            self.engine.poll(&mut |_| {});
            std::thread::sleep(PAUSE);
        }
    }
}
