//! Disk activity during a recording: where requests spend their time, once disks have something to do.
//!
//! Until then it costs a look at /proc/diskstats twenty times a second; from then on the three events of a request's
//! life, without stacks, on the whole machine (another task ends a request than began it), up to a number.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Thread;
use std::time::Duration;

use perfdata::abi::{PERF_SAMPLE_RAW, PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_TYPE_TRACEPOINT};
use perfdata::record::live::LiveFormat;
use perfdata::{Attr, Record};

use crate::accounting::system;
use crate::event::{EventSource, SystemSource, tracefs};
use crate::machine::proc;
use crate::session::opts::Watched;
use crate::sys::{Counter, CounterPlace, Ring, RingSpan, SignalReader};

const TICK: Duration = Duration::from_millis(50);
/// While events come in: the rings hold this long of more requests than disks do.
const BUSY_TICK: Duration = Duration::from_millis(10);
/// Number of finished requests since the beginning that make the disks worth a look.
const WORTH_REQUESTS: u64 = 20;
/// Events looked at: some 20,000 requests, enough for a p99.
const MOST_EVENTS: usize = 60_000;
/// Pages of each CPU's ring.
const RING_PAGES: usize = 64;
/// The last one is the only one that a kernel may lack.
const EVENTS: [&str; 3] = ["block_rq_issue", "block_rq_complete", "block_rq_insert"];

/// Observations of the disks.
#[derive(Debug, Default)]
pub struct DiskState {
    /// The events of requests, in time order: all [`Watched::Sample`].
    pub events: Vec<Watched>,
    /// Events lost because a ring was full.
    pub lost: u64,
    /// Why there was nothing to see though disks were busy.
    pub refused: Option<String>,
}

/// The look, going on.
#[derive(Debug)]
pub struct DiskWatch {
    stop: Arc<AtomicBool>,
    thread: Thread,
    state: Receiver<DiskState>,
}

impl DiskWatch {
    /// Starts it; `None` if the thread can't be started.
    #[must_use]
    pub fn start() -> Option<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen_stop = stop.clone();
        let thread = std::thread::Builder::new().name("tally-disks".to_owned());
        let (send, state) = sync_channel(1);
        let thread = thread.spawn(move || watch(&seen_stop, &send)).ok()?.thread().clone();
        Some(Self { stop, thread, state })
    }

    /// Ends it: what was seen. The events are closed later: the kernel takes 0.1 s for that.
    #[must_use]
    pub fn finish(self) -> DiskState {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.unpark();
        self.state.recv().unwrap_or_default()
    }
}

fn watch(stop: &AtomicBool, send: &SyncSender<DiskState>) {
    // Nobody may want it any more.
    let hand_over = |state| drop(send.send(state));
    let _blocked = SignalReader::leave_to_recording();
    let before = system::disk_requests();
    while system::disk_requests().saturating_sub(before) < WORTH_REQUESTS {
        if stop.load(Ordering::Relaxed) {
            return hand_over(DiskState::default());
        }
        std::thread::park_timeout(TICK);
    }
    let mut events = match Events::open() {
        Ok(events) => events,
        Err(error) => {
            return hand_over(DiskState { refused: Some(error.to_string()), ..DiskState::default() });
        }
    };
    let mut seen = DiskState::default();
    while !stop.load(Ordering::Relaxed) && seen.events.len() < MOST_EVENTS {
        std::thread::park_timeout(BUSY_TICK);
        events.read(&mut seen);
    }
    events.read(&mut seen);
    seen.events.sort_by_key(|event| if let Watched::Sample { time_ns, .. } = event { *time_ns } else { 0 });
    hand_over(seen);
}

/// The open events, a ring for each CPU.
struct Events {
    rings: Vec<Ring>,
    /// Kept open.
    _counters: Vec<Counter>,
    format: LiveFormat,
}

impl Events {
    fn open() -> io::Result<Self> {
        let attrs = attrs()?;
        let (mut rings, mut counters) = (Vec::new(), Vec::new());
        for cpu in proc::online_cpus() {
            let first = counters.len();
            for attr in &attrs {
                let counter = Counter::open(&attr.to_bytes(), CounterPlace::cpu(cpu))?;
                match counters.get(first) {
                    Some(first) => counter.set_output(first)?,
                    None => rings.push(Ring::map(&counter, RING_PAGES)?),
                }
                counters.push(counter);
            }
        }
        Ok(Self { rings, _counters: counters, format: LiveFormat::new(&attrs[0]) })
    }

    fn read(&mut self, seen: &mut DiskState) {
        for ring in &mut self.rings {
            ring.read(|span| take(&self.format, &span, seen));
        }
    }
}

/// Whole records, one after the other.
fn take(format: &LiveFormat, span: &RingSpan<'_>, seen: &mut DiskState) {
    let (mut at, mut bytes) = (0, Vec::new());
    while let Some(header) = span.u64_at(at) {
        let (_, size) = LiveFormat::type_and_size(header);
        if size < 8 || at + size > span.len() {
            break;
        }
        bytes.clear();
        span.copy_to(at, size, &mut bytes);
        at += size;
        match format.parse(&bytes).map(|(record, _)| record) {
            Some(Record::Sample(sample)) => {
                let (pid, tid) = sample.pid_tid.unwrap_or_default();
                let raw = sample.raw.unwrap_or_default().to_vec();
                seen.events.push(Watched::Sample { time_ns: sample.time_ns.unwrap_or(0), pid, tid, raw });
            }
            Some(Record::Lost(lost)) => seen.lost += lost.lost,
            _ => {}
        }
    }
}

/// The events this kernel has.
fn attrs() -> io::Result<Vec<Attr>> {
    let source = SystemSource::new();
    let mut attrs = Vec::new();
    for (at, name) in EVENTS.into_iter().enumerate() {
        let path = format!("block/{name}/id");
        let config = match source.read_tracefs(&path) {
            Ok(text) => text.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?,
            Err(_) if at == EVENTS.len() - 1 => continue,
            Err(error) => {
                let place = tracefs().join("events").join(&path);
                return Err(io::Error::new(error.kind(), format!("{}: {error}", place.display())));
            }
        };
        attrs.push(Attr {
            type_: PERF_TYPE_TRACEPOINT,
            config,
            sample_period: 1,
            sample_type: PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_RAW,
            ..Attr::default()
        });
    }
    Ok(attrs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_look_ends_at_once_and_saw_nothing_it_did_not_look_at() {
        let seen = DiskWatch::start().expect("a thread").finish();
        let all_samples = seen.events.iter().all(|event| matches!(event, Watched::Sample { .. }));
        assert!(all_samples && seen.events.len() <= MOST_EVENTS + 4096);
    }

    #[test]
    fn records_cut_short_are_left() {
        let format = LiveFormat::new(&Attr { sample_type: PERF_SAMPLE_TIME, ..Attr::default() });
        let header = |size: u64| (size << 48 | 9).to_ne_bytes();
        let mut bytes = header(16).to_vec();
        bytes.extend(7u64.to_ne_bytes());
        bytes.extend(header(400));
        let mut seen = DiskState::default();
        take(&format, &RingSpan { first: &bytes[..12], second: &bytes[12..] }, &mut seen);
        take(&format, &RingSpan { first: &header(0), second: &[] }, &mut seen);
        assert_eq!(seen.events, [Watched::Sample { time_ns: 7, pid: 0, tid: 0, raw: Vec::new() }]);
    }
}
