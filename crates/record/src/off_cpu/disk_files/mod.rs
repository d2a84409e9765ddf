//! Files of the requests to disks, found while recording: which file is read or written, and who requested it.

mod engine;
mod layout;
mod paths;
mod seen_files;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use perfdata::appendix::disk_files::DiskFiles;

use crate::accounting::system;
use crate::off_cpu::WaitDetail;
use crate::session::opts::{RecordOpts, SampleWatch, Watched};
use crate::sys::SignalReader;
use crate::sys::time::Clock;
use engine::DiskFileEngine;
use seen_files::SeenFiles;

/// The ring holds some ten thousand requests.
const TICK: Duration = Duration::from_millis(60);
/// The same where requests are shown at once.
const SHOWN_TICK: Duration = Duration::from_millis(20);
/// How often the ring, or before there is one the number of requests, is looked at while disks have nothing to do.
const IDLE_TICK: Duration = Duration::from_millis(100);
/// Both in a recording that goes on all the time.
const SELDOM_TICKS: [Duration; 2] = [Duration::from_millis(150), Duration::from_millis(400)];
/// Disks without a request for so long have nothing to do.
const BUSY: Duration = Duration::from_millis(200);
/// Requests since the beginning that make the disks worth a look.
const WORTH_REQUESTS: u64 = 8;
/// A recording that goes on all the time forgets requests of so long ago, or of twice its window.
const KEPT_NS: u64 = 120_000_000_000;

/// The search, going on.
#[derive(Debug)]
pub struct DiskFileWatch {
    stop: Arc<AtomicBool>,
    attached: Receiver<()>,
    thread: JoinHandle<DiskFiles>,
}

impl DiskFileWatch {
    /// Starts it where a recording can use it; `None` where not, or if the thread can't be started.
    #[must_use]
    pub fn begin(opts: &RecordOpts) -> Option<Self> {
        let has_requests = opts.events.iter().any(|event| event.name.contains("block_rq_issue"));
        let has_waits = opts.off_cpu.as_ref().is_some_and(|waits| waits.detail != WaitDetail::Few);
        let is_wanted = (has_requests || has_waits) && opts.clock == Clock::Monotonic;
        let begin = if has_requests { Begin::AtOnce } else { Begin::WithRequests };
        let window_ns = opts.file.window.map_or(0, |window| window.as_nanos() as u64);
        let kept_ns = opts.file.overwrite.then(|| KEPT_NS.max(window_ns.saturating_mul(2)));
        let plan = WatchPlan { begin, kept_ns, watcher: opts.observers.watch.clone() };
        is_wanted.then(|| Self::start(plan)).flatten()
    }

    fn start(plan: WatchPlan) -> Option<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen_stop = stop.clone();
        let (send, attached) = sync_channel(1);
        let thread = std::thread::Builder::new().name("tally-files".to_owned());
        let thread = thread.spawn(move || watch(&plan, &seen_stop, &send)).ok()?;
        Some(Self { stop, attached, thread })
    }

    /// Waits until requests are seen, or can't be, or are waited for.
    pub fn arrive(&self) {
        let _ = self.attached.recv();
    }

    /// Ends it.
    #[must_use]
    pub fn finish(self) -> DiskFiles {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_default()
    }
}

/// When the program is loaded: that takes CPU time, and most programs need no disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begin {
    /// Before the recording begins.
    AtOnce,
    /// As soon as disks have something to do.
    WithRequests,
}

/// How to watch.
#[derive(Debug)]
struct WatchPlan {
    begin: Begin,
    /// Requests of so long ago may be forgotten.
    kept_ns: Option<u64>,
    watcher: Option<SampleWatch>,
}

impl WatchPlan {
    /// Pauses while disks are busy, and while they have nothing to do.
    fn ticks(&self) -> [Duration; 2] {
        match (&self.watcher, self.kept_ns) {
            (Some(_), _) => [SHOWN_TICK, IDLE_TICK],
            (None, Some(_)) => SELDOM_TICKS,
            (None, None) => [TICK, IDLE_TICK],
        }
    }
}

fn watch(plan: &WatchPlan, stop: &AtomicBool, attached: &SyncSender<()>) -> DiskFiles {
    let _blocked = SignalReader::leave_to_recording();
    let (watcher, [tick, idle_tick]) = (plan.watcher.as_ref(), plan.ticks());
    if plan.begin == Begin::WithRequests {
        let _ = attached.send(());
        let before = system::disk_requests();
        while system::disk_requests().saturating_sub(before) < WORTH_REQUESTS {
            if stop.load(Ordering::Relaxed) {
                return DiskFiles::default();
            }
            std::thread::park_timeout(idle_tick);
        }
    }
    let engine = DiskFileEngine::start();
    let _ = attached.try_send(());
    let mut engine = match engine {
        Ok(engine) => engine,
        Err(error) => {
            let refused = DiskFiles::refused(in_short(&error.to_string()));
            hand_on(watcher, || refused.clone());
            return refused;
        }
    };
    let mut seen = SeenFiles::default();
    let mut last_request = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        std::thread::park_timeout(if last_request.elapsed() < BUSY { tick } else { idle_tick });
        let before = seen.parts.len();
        engine.poll(&mut |record| seen.take(record));
        if seen.parts.len() > before {
            last_request = Instant::now();
            hand_on(watcher, || seen.since(before));
            seen.forget_old(plan.kept_ns);
        }
    }
    engine.stop();
    engine.poll(&mut |record| seen.take(record));
    seen.lost += engine.lost();
    seen.finish()
}

/// For those who show requests at once. If nobody listens any more, the recording ends anyway.
fn hand_on(watcher: Option<&SampleWatch>, files: impl FnOnce() -> DiskFiles) {
    if let Some(SampleWatch(to)) = watcher {
        let _ = to.send(Watched::Files(files()));
    }
}

/// The error without what the kernel's verifier wrote about the program.
fn in_short(error: &str) -> String {
    let number = error.find("(os error").and_then(|at| Some(at + error[at..].find(')')? + 1));
    error[..number.unwrap_or(error.len())].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line() {
        let error = "BPF load of disk_issue: Argument list too long (os error 7): 552: (61) r3 | 553";
        assert_eq!(in_short(error), "BPF load of disk_issue: Argument list too long (os error 7)");
        assert_eq!(in_short("no BPF here"), "no BPF here");
    }
}
