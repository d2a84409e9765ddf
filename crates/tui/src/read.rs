//! A file browsed while it is read.

use super::{App, Data, EndSignal, Error, ReadState, Theme, ViewUpdate, run};
use perfdata::PerfData;
use profile::view::report::ReportOpts;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};
use symbols::{LoadOpts, ReadProgress, Recording};

/// From one picture of the progress to the next.
const SHOWN: Duration = Duration::from_millis(100);

/// When the first part is shown; every further one takes twice as long, up to [`LONGEST`].
const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(8);

/// A file to be read while it is shown.
pub struct FileInput<'a> {
    /// Content.
    pub file: &'a PerfData<'a>,
    /// Size in bytes.
    pub bytes: u64,
    /// Parts of it to read.
    pub opts: LoadOpts,
    /// Called with the offset in bytes up to which the file has been read.
    pub on_read: &'a mut (dyn FnMut(u64) + Send),
}

/// Shows `input` from the first moment on, and more of it as it is read. Returns what was read, and the code to end
/// with.
///
/// # Errors
/// If the terminal can't be used.
pub fn read(
    input: FileInput<'_>,
    view: ReportOpts,
    signal: &EndSignal,
    theme: Theme,
) -> Result<(ExitCode, Arc<Recording>), Error> {
    let FileInput { file, bytes, opts, on_read } = input;
    let mut app = App::fed(Data::new(Arc::default(), view), theme, ReadState::Reading(0.0));
    let stop = app.stop();
    let (sender, updates) = sync_channel(4);
    std::thread::scope(|scope| {
        let reader = std::thread::Builder::new().spawn_scoped(scope, || {
            let mut teller = Teller::new(sender, bytes, &stop);
            let recording = symbols::load_watched(file, opts, &mut |reading| {
                on_read(reading.offset);
                teller.tell(reading)
            });
            teller.end(Arc::new(recording))
        });
        let reader = reader.map_err(Error::NoThread)?;
        let code = run(&mut app, Some(&updates), signal);
        stop.store(true, Ordering::Relaxed);
        drop(updates);
        let recording = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((code?, recording))
    })
}

/// Shows the progress of reading in the view.
struct Teller<'s> {
    sender: SyncSender<ViewUpdate>,
    bytes: u64,
    stop: &'s AtomicBool,
    progress_told: Instant,
    part_told: Instant,
    until_part: Duration,
}

impl<'s> Teller<'s> {
    fn new(sender: SyncSender<ViewUpdate>, bytes: u64, stop: &'s AtomicBool) -> Self {
        let now = Instant::now();
        Self { sender, bytes, stop, progress_told: now, part_told: now, until_part: FIRST }
    }

    fn tell(&mut self, reading: &ReadProgress<'_>) -> ControlFlow<()> {
        if self.stop.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        let now = Instant::now();
        if now - self.part_told >= self.until_part {
            // A view that is busy gets the next one.
            let _ = self.sender.try_send(ViewUpdate::Recording(Arc::new(reading.snapshot())));
            self.part_told = Instant::now();
            self.until_part = (self.until_part * 2).min(LONGEST);
        }
        if now - self.progress_told >= SHOWN {
            self.progress_told = now;
            let percent = reading.offset as f64 * 100.0 / self.bytes.max(1) as f64;
            let _ = self.sender.try_send(ViewUpdate::Progress(percent.min(100.0)));
        }
        ControlFlow::Continue(())
    }

    fn end(self, recording: Arc<Recording>) -> Arc<Recording> {
        // Nobody listens any more when the user has left.
        let _ = self.sender.send(ViewUpdate::Recording(Arc::clone(&recording)));
        let _ = self.sender.send(ViewUpdate::Whole);
        recording
    }
}
