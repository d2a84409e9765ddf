//! Files of the requests to disks, found while recording: which file is read or written, and who requested it.

mod engine;
mod layout;
mod paths;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use perfdata::appendix::disk_files::{DiskFile, DiskFiles, FileOwner, RequestPart};
use rustc_hash::FxHashMap;

use crate::accounting::system;
use crate::off_cpu::WaitDetail;
use crate::session::opts::{RecordOpts, SampleWatch, Watched};
use crate::sys::SignalReader;
use crate::sys::time::Clock;
use engine::DiskFileEngine;
use layout::{DiskRecord, FileKey, PartRecord};
use paths::Mounts;

/// The ring holds some ten thousand requests.
const TICK: Duration = Duration::from_millis(60);
/// The same where requests are shown at once.
const SHOWN_TICK: Duration = Duration::from_millis(20);
/// How often the ring, or before there is one the number of requests, is looked at while disks have nothing to do.
const IDLE_TICK: Duration = Duration::from_millis(100);
/// Disks without a request for so long have nothing to do.
const BUSY: Duration = Duration::from_millis(200);
/// Requests since the beginning that make the disks worth a look.
const WORTH_REQUESTS: u64 = 8;
/// Parts kept, 48 bytes each.
const MOST_PARTS: usize = 2_000_000;
/// Files kept.
const MOST_FILES: usize = 200_000;

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
        is_wanted.then(|| Self::start(begin, opts.observers.watch.clone())).flatten()
    }

    fn start(begin: Begin, watcher: Option<SampleWatch>) -> Option<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen_stop = stop.clone();
        let (send, attached) = sync_channel(1);
        let thread = std::thread::Builder::new().name("tally-files".to_owned());
        let thread = thread.spawn(move || watch(begin, &seen_stop, &send, watcher.as_ref())).ok()?;
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

fn watch(
    begin: Begin,
    stop: &AtomicBool,
    attached: &SyncSender<()>,
    watcher: Option<&SampleWatch>,
) -> DiskFiles {
    let _blocked = SignalReader::leave_to_recording();
    if begin == Begin::WithRequests {
        let _ = attached.send(());
        let before = system::disk_requests();
        while system::disk_requests().saturating_sub(before) < WORTH_REQUESTS {
            if stop.load(Ordering::Relaxed) {
                return DiskFiles::default();
            }
            std::thread::park_timeout(IDLE_TICK);
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
    let tick = if watcher.is_some() { SHOWN_TICK } else { TICK };
    while !stop.load(Ordering::Relaxed) {
        std::thread::park_timeout(if last_request.elapsed() < BUSY { tick } else { IDLE_TICK });
        let before = seen.parts.len();
        engine.poll(&mut |record| seen.take(record));
        if seen.parts.len() > before {
            last_request = Instant::now();
            hand_on(watcher, || seen.since(before));
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

/// Files and parts so far.
#[derive(Debug, Default)]
struct SeenFiles {
    names: FxHashMap<FileKey, String>,
    mounts: Mounts,
    index: FxHashMap<(u32, FileKey), u32>,
    files: Vec<DiskFile>,
    keys: Vec<FileKey>,
    parts: Vec<RequestPart>,
    lost: u64,
}

impl SeenFiles {
    fn take(&mut self, record: DiskRecord) {
        match record {
            DiskRecord::Name(name) => {
                if self.names.is_empty() {
                    self.mounts = Mounts::read();
                }
                self.names.insert(name.key, self.mounts.path(&name));
            }
            DiskRecord::Part(part) => self.take_part(&part),
        }
    }

    fn take_part(&mut self, part: &PartRecord) {
        if self.parts.len() >= MOST_PARTS || self.files.len() >= MOST_FILES {
            self.lost += 1;
            return;
        }
        let file = self.file_of(part);
        self.parts.push(RequestPart {
            time_ns: part.time_ns,
            sector: part.sector,
            device: part.device,
            bytes: part.bytes,
            file,
            tid: part.tid,
            by_kernel: part.by_kernel,
            is_direct: part.is_direct,
        });
    }

    fn file_of(&mut self, part: &PartRecord) -> u32 {
        let next = u32::try_from(self.files.len()).unwrap_or(u32::MAX);
        *self.index.entry((part.owner, part.key)).or_insert_with(|| {
            self.files.push(DiskFile {
                owner: FileOwner::of_number(part.owner).unwrap_or(FileOwner::Buffers),
                device: part.key.device,
                inode: part.key.inode,
                is_deleted: part.is_deleted,
                path: String::new(),
            });
            self.keys.push(part.key);
            next
        })
    }

    /// Parts from this one on, with their files as far as these have names by now.
    fn since(&self, first: usize) -> DiskFiles {
        let mut files: Vec<DiskFile> = Vec::new();
        let mut index: FxHashMap<u32, u32> = FxHashMap::default();
        let mut parts = self.parts.get(first..).unwrap_or_default().to_vec();
        for part in &mut parts {
            let all = part.file as usize;
            part.file = *index.entry(part.file).or_insert_with(|| {
                let mut file = self.files[all].clone();
                if file.owner == FileOwner::File {
                    file.path = self.names.get(&self.keys[all]).cloned().unwrap_or_default();
                }
                files.push(file);
                u32::try_from(files.len() - 1).unwrap_or(u32::MAX)
            });
        }
        DiskFiles::new(files, parts, 0)
    }

    fn finish(self) -> DiskFiles {
        let Self { names, mut files, keys, parts, lost, .. } = self;
        for (file, key) in files.iter_mut().zip(&keys).filter(|(file, _)| file.owner == FileOwner::File) {
            file.path = names.get(key).cloned().unwrap_or_default();
        }
        DiskFiles::new(files, parts, lost)
    }
}

#[cfg(test)]
mod tests {
    use super::layout::NameRecord;
    use super::*;

    #[test]
    fn a_name_that_comes_after_its_requests_still_names_them() {
        let key = FileKey { inode: 7, device: 4_095 << 20 | 5, generation: 1 };
        let part = PartRecord {
            owner: 1,
            time_ns: 50,
            sector: 8,
            device: 8 << 20,
            bytes: 4096,
            key,
            is_direct: false,
            by_kernel: false,
            is_deleted: false,
            tid: 3,
        };
        let mut seen = SeenFiles::default();
        seen.take(DiskRecord::Part(part));
        seen.take(DiskRecord::Name(NameRecord { key, is_whole: true, path: "a/b".to_owned() }));
        seen.take(DiskRecord::Part(PartRecord { owner: 2, sector: 16, ..part }));
        let newest = seen.since(1);
        assert_eq!((newest.parts_of(8 << 20, 16, 50).len(), newest.parts_of(8 << 20, 8, 50).len()), (1, 0));
        assert_eq!(seen.since(0).files[0].path, "/a/b");
        let files = seen.finish();
        let path = |sector| {
            let part = files.parts_of(8 << 20, sector, 50).first().expect("a part");
            files.files[part.file as usize].path.as_str()
        };
        assert_eq!((path(8), path(16)), ("/a/b", ""));
    }

    #[test]
    fn an_error_is_one_line() {
        let error = "BPF load of disk_issue: Argument list too long (os error 7): 552: (61) r3 | 553";
        assert_eq!(in_short(error), "BPF load of disk_issue: Argument list too long (os error 7)");
        assert_eq!(in_short("no BPF here"), "no BPF here");
    }
}
