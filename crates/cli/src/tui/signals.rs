//! Signals that end a program, turned into an orderly end: the terminal shall be as it was before.

use anyhow::Context;
use record::stop_signals::StopSignals;
use record::sys::signal::SIGHUP;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// How often the program looks whether its terminal is still there.
const WATCH: Duration = Duration::from_millis(500);

/// How long the program has to end by itself.
const PATIENCE: Duration = Duration::from_secs(2);

/// The signal that came, 0 before.
#[derive(Clone)]
pub struct Signals(Arc<AtomicI32>);

impl Signals {
    /// Waits for signals from now on. To be made before any other thread: threads inherit that the signals wait.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn wait() -> anyhow::Result<Self> {
        let stops = StopSignals::new(&[]).context("can't wait for signals")?;
        let came = Self(Arc::default());
        let told = came.clone();
        std::thread::spawn(move || told.watch(stops));
        Ok(came)
    }

    /// The signal that wants the program to end.
    pub fn came(&self) -> Option<i32> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&number| number != 0)
    }

    fn watch(&self, mut stops: StopSignals) {
        loop {
            let waited = stops.wait(WATCH).and_then(|()| stops.take(None));
            let signal = stops.came();
            // isatty fails on a terminal whose other side is closed: reading from it would return at once, forever.
            let gone = !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal();
            if let Some(number) = signal.or(gone.then_some(SIGHUP)) {
                self.0.store(number, Ordering::Relaxed);
                std::thread::sleep(PATIENCE);
                end(number);
            }
            if waited.is_err() {
                return;
            }
        }
    }
}

/// The end of a program that is busy, or blocked by its terminal: what can be restored without waiting is.
fn end(number: i32) {
    let _ = crossterm::terminal::disable_raw_mode();
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        ratatui::restore();
        done.send(())
    });
    let _ = ended.recv_timeout(PATIENCE);
    std::process::exit(128 + number);
}
