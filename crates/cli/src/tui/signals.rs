//! Signals that end a program, turned into an orderly end: the terminal shall be as it was before.

use anyhow::Context;
use record::sys::SignalReader;
use record::sys::poll::Poller;
use record::sys::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use std::io::IsTerminal;
use std::os::fd::AsFd;
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
        let reader =
            SignalReader::new(&[SIGHUP, SIGINT, SIGQUIT, SIGTERM]).context("can't wait for signals")?;
        let poller = Poller::new().context("can't wait for signals")?;
        poller.add(reader.as_fd(), 0).context("can't wait for signals")?;
        let came = Self(Arc::default());
        let told = came.clone();
        std::thread::spawn(move || told.watch(&reader, &poller));
        Ok(came)
    }

    /// The signal that wants the program to end.
    pub fn came(&self) -> Option<i32> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&number| number != 0)
    }

    fn watch(&self, reader: &SignalReader, poller: &Poller) {
        loop {
            let waited = poller.wait(Some(WATCH));
            let signal = reader.next().ok().flatten().map(|signal| signal.number);
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
