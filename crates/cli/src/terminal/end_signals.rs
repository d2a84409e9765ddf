//! Signals that end a program while a view is shown, turned into an orderly end: the terminal is left as it was before.

use anyhow::Context;
use record::stop_signals::StopSignals;
use record::sys::signal::SIGHUP;
use std::io::IsTerminal;
use std::time::Duration;
use tui::EndSignal;

/// How often the program looks whether its terminal is still there.
const WATCH: Duration = Duration::from_millis(500);

/// How long the program has to end by itself.
const PATIENCE: Duration = Duration::from_secs(2);

/// Waits for signals from now on. To be called before any other thread starts: threads inherit that the signals wait.
///
/// # Errors
/// If the kernel refuses, also a thread.
pub fn wait() -> anyhow::Result<EndSignal> {
    let stops = StopSignals::new(&[]).context("can't wait for signals")?;
    let signal = EndSignal::default();
    let noted = signal.clone();
    let watcher = std::thread::Builder::new().spawn(move || watch(stops, &noted));
    watcher.context("can't start a thread that watches the terminal")?;
    Ok(signal)
}

fn watch(mut stops: StopSignals, signal: &EndSignal) {
    loop {
        let waited = stops.wait(WATCH).and_then(|()| stops.take(None));
        let came = stops.came();
        // isatty fails on a terminal whose other side is closed: reading from it would return at once, forever.
        let gone = !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal();
        if let Some(number) = came.or(gone.then_some(SIGHUP)) {
            signal.note(number);
            std::thread::sleep(PATIENCE);
            // The program is busy, or blocked by its terminal: restore what can be restored without waiting.
            tui::restore_within(PATIENCE);
            std::process::exit(128 + number);
        }
        if waited.is_err() {
            return;
        }
    }
}
