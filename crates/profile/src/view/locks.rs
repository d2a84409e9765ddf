//! Locks: futexes by address, file locks by file or descriptor and kernel locks by name, with waiters, wait times and
//! lock holders.
//!
//! The waker of a wait for a lock is the thread that held it. Its stack shows where it released the lock.

use super::wall::{
    Classes, Classified, Histogram, NamedTarget, Part, WallOpts, kernel_frames, name_of, other_name,
    place_text, waker_frames,
};
use crate::grow::{Grow as _, GrownSum as _};
use crate::off_cpu::{Contention, WaitReason};
use crate::profile::{Profile, TaskId};
use crate::table::CallsiteId;
use crate::verdict::{NamedLock, latched_lock, lock_behind};
use crate::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// One lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockRow {
    /// Inside the kernel; else a futex.
    pub kernel: bool,
    /// Process of a futex, a descriptor or an address space; 0 for other kernel locks. Of a lock that several wait for,
    /// the first that waited.
    pub pid: i32,
    /// Descriptor of the locked file, in the process; `None` if processes have different ones.
    pub descriptor: Option<u64>,
    /// Processes that waited for the lock of a file, a server or the kernel.
    pub processes: BTreeSet<i32>,
    /// Path of the locked file; `None` if it was not named.
    pub file: Option<String>,
    /// Address of the lock; `None` if the source doesn't record it.
    pub address: Option<u64>,
    /// Kind of a kernel lock whose contention was recorded: `mutex`, `rwsem, to write` …
    pub kind: Option<&'static str>,
    /// Name of a lock whose waiters have a futex each: `lock taken in put() < work`; of a kernel lock, if it is known.
    pub words: Option<String>,
    /// ns waited.
    pub wait_ns: u64,
    /// Lengths of the waits.
    pub lengths: Histogram,
    /// Threads that waited.
    pub waiters: BTreeSet<i32>,
    /// The place most waited in.
    pub place: Option<CallsiteId>,
    /// All places, with the ns waited in each, most first.
    pub places: Vec<(CallsiteId, u64)>,
    /// Most frequent releaser: name, thread, the place of the release (leaf-first frames start there), share of the
    /// waits.
    pub holder: Option<LockHolder>,
}

/// A thread that ended waits for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// Name.
    pub name: String,
    /// Thread id.
    pub tid: u32,
    /// Stack at the wake-up, BPF's own frames left out; empty if it was not taken.
    pub frames: Vec<crate::table::FrameId>,
    /// Share of the lock's wait time that it ended, in percent.
    pub percent: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Key {
    Futex(i32, u64),
    /// Process (0: all), and number of a lock known by the function that takes it.
    Taken(i32, usize),
    /// Number of a file with a name: one lock for all its processes.
    NamedFile(usize),
    /// Process and descriptor; `None` if the source doesn't record which.
    File(i32, Option<u64>),
    /// Process of an address space, else 0; number of a kernel lock known by its name or by the function that takes it.
    Kernel(i32, usize),
}

/// Locks known by more than a number.
#[derive(Default)]
struct KnownLocks {
    /// By the function that takes them.
    taken: Vec<String>,
    /// Inside the kernel.
    kernel: Vec<Option<String>>,
    /// By their file.
    files: Vec<String>,
}

/// The number of what is there, or added.
fn number_of<T: PartialEq>(known: &mut Vec<T>, of: T) -> usize {
    known.iter().position(|known| *known == of).unwrap_or_else(|| {
        known.push(of);
        known.len() - 1
    })
}

#[derive(Default)]
struct Sums {
    row: LockRow,
    places: FxHashMap<CallsiteId, u64>,
    holders: FxHashMap<(u32, Option<CallsiteId>), (u64, String)>,
}

/// Locks inside the kernel by address, from contention events, most waited for first. Spinning counts.
#[must_use]
pub fn contended(profile: &Profile, opts: &WallOpts) -> Vec<LockRow> {
    let classes = Classes::of(profile, opts);
    let mut sums: FxHashMap<u64, Sums> = FxHashMap::default();
    let long = |wait: &&Contention| classes.shows(wait.task) && wait.length_ns >= opts.min_block_ns;
    for wait in profile.off_cpu.contentions.iter().filter(long) {
        let of = sums.entry(wait.address).or_default();
        let row = &mut of.row;
        (row.kernel, row.address, row.kind) = (true, Some(wait.address), Some(wait.kind()));
        row.wait_ns.grow(wait.length_ns);
        row.lengths.add(wait.length_ns, 1);
        row.waiters.insert(profile.task(wait.task).tid);
        if let Some(callsite) = wait.callsite {
            of.places.entry(callsite).or_default().grow(wait.length_ns);
        }
    }
    let mut rows: Vec<LockRow> = sums.into_values().map(|sums| sums.finish(profile)).collect();
    rows.rank_by_key(|row| (Reverse(row.wait_ns), row.address));
    rows
}

/// All locks that threads slept for, most waited for first.
#[must_use]
pub fn locks(profile: &Profile, opts: &WallOpts) -> Vec<LockRow> {
    let classes = Classes::of(profile, opts);
    let mut sums: FxHashMap<Key, Sums> = FxHashMap::default();
    let mut known = KnownLocks::default();
    for class in classes.named(profile) {
        let Some(key) = key_of(profile, &class, &mut known) else { continue };
        sums.entry(key).or_default().add(profile, key, &class);
    }
    let mut rows: Vec<(Key, LockRow)> =
        sums.into_iter().map(|(key, sums)| (key, sums.finish(profile))).collect();
    for (key, row) in &mut rows {
        row.words = match key {
            Key::Taken(_, at) => known.taken.get(*at).cloned(),
            Key::Kernel(_, at) => known.kernel.get(*at).cloned().flatten(),
            _ => None,
        };
    }
    rows.rank_by_key(|(key, row)| (Reverse(row.wait_ns), *key));
    rows.into_iter().map(|(_, row)| row).collect()
}

/// The function that wants a kernel lock and, where known, the lock: `munmap, the lock of the address space
/// (mmap_lock)`. `None` without kernel names.
#[must_use]
pub fn kernel_taker(profile: &Profile, callsite: CallsiteId) -> Option<String> {
    const LOCKING: [&str; 15] = [
        "rwsem_",
        "down_",
        "__down",
        "mutex_",
        "__mutex",
        "osq_",
        "native_queued",
        "queued_",
        "__pv_",
        "pv_",
        "_raw_",
        "__raw_",
        "rt_mutex",
        "__lock_text",
        "trace_",
    ];
    let names = || kernel_frames(profile, callsite).filter_map(|frame| name_of(profile, frame));
    let told = WaitReason::kernel_lock(names()).map(|(lock, by)| format!("{by}, {lock}"));
    told.or_else(|| {
        names().find(|name| !LOCKING.iter().any(|part| name.starts_with(part))).map(str::to_owned)
    })
}

/// Where threads wait for a lock, most time first. A kernel lock is taken in many places: the first three, each with its
/// share and the purpose if there are several, and the number of the others. Of other locks, the place with most time.
#[must_use]
pub fn lock_places(profile: &Profile, row: &LockRow) -> Vec<String> {
    const SHOWN: usize = 3;
    let mut texts: Vec<(String, u64)> = Vec::new();
    for &(callsite, ns) in row.places.iter().take(if row.kernel { usize::MAX } else { 1 }) {
        let text = place_text(profile, callsite);
        match texts.iter_mut().find(|(known, _)| *known == text) {
            Some((_, sum)) => sum.grow(ns),
            None => texts.push((text, ns)),
        }
    }
    if texts.len() < 2 {
        return texts.into_iter().map(|(text, _)| text).collect();
    }
    texts.rank_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
    let percent = |ns: u64| u128::from(ns) * 100 / u128::from(row.wait_ns.max(1));
    let rest = texts.len().saturating_sub(SHOWN);
    let rest_ns = texts.iter().skip(SHOWN).map(|(_, ns)| *ns).grown_sum();
    let shown = texts.iter().take(SHOWN).map(|(text, ns)| format!("{text} ({} %)", percent(*ns)));
    let others = (rest > 0).then(|| format!("{rest} more places ({} %)", percent(rest_ns)));
    shown.chain(others).collect()
}

/// The kernel lock of a wait: each process has an address space; other locks are one each, as far as their names show.
fn kernel_key(profile: &Profile, callsite: CallsiteId, pid: i32, known: &mut KnownLocks) -> Key {
    let names = kernel_frames(profile, callsite).filter_map(|frame| name_of(profile, frame));
    let (of, words) = match WaitReason::kernel_lock(names) {
        Some((lock, _)) if WaitReason::is_of_process(lock) => (pid, Some(lock.to_owned())),
        Some((lock, _)) => (0, Some(lock.to_owned())),
        None => (0, kernel_taker(profile, callsite)),
    };
    Key::Kernel(of, number_of(&mut known.kernel, words))
}

fn key_of(profile: &Profile, class: &Classified<'_>, known: &mut KnownLocks) -> Option<Key> {
    let wait = class.wait;
    let behind = || wait.callsite.and_then(|callsite| lock_behind(profile, callsite, wait.other));
    let mut taken = |lock: NamedLock| {
        let pid = if lock.is_shared { 0 } else { pid_of(profile, wait.task) };
        Key::Taken(pid, number_of(&mut known.taken, lock.words))
    };
    match class.part {
        Part::Blocked(WaitReason::Futex | WaitReason::Gil) => {
            let futex = || Key::Futex(pid_of(profile, wait.task), wait.args[0]);
            Some(behind().map_or_else(futex, taken))
        }
        Part::Blocked(WaitReason::Poll) => {
            let lock = wait.callsite.and_then(|callsite| latched_lock(profile, callsite));
            lock.map(&mut taken)
        }
        Part::Blocked(WaitReason::FileLock) => {
            if let Some(NamedTarget::One(file)) = NamedTarget::of(profile, wait, class.part)
                && file.starts_with('/')
            {
                return Some(Key::NamedFile(number_of(&mut known.files, file.into_owned())));
            }
            let descriptor = class.wait.syscall.map(|_| class.wait.args[0]);
            Some(Key::File(pid_of(profile, class.wait.task), descriptor))
        }
        Part::Blocked(WaitReason::KernelLock) => {
            wait.callsite.map(|callsite| kernel_key(profile, callsite, pid_of(profile, wait.task), known))
        }
        _ => None,
    }
}

fn pid_of(profile: &Profile, task: TaskId) -> i32 {
    profile.task(task).pid
}

impl Sums {
    fn add(&mut self, profile: &Profile, key: Key, class: &Classified<'_>) {
        let wait = class.wait;
        let row = &mut self.row;
        match key {
            Key::Futex(pid, address) => (row.pid, row.address) = (pid, (address != 0).then_some(address)),
            Key::NamedFile(_) | Key::File(..) => {
                let is_first = row.processes.is_empty();
                let (pid, descriptor) = (pid_of(profile, wait.task), wait.syscall.map(|_| wait.args[0]));
                row.processes.insert(pid);
                row.kind = Some(WaitReason::FileLock.name());
                if is_first {
                    (row.pid, row.descriptor) = (pid, descriptor);
                } else if (row.pid, row.descriptor) != (pid, descriptor) {
                    row.descriptor = None;
                }
                let file = || NamedTarget::of(profile, wait, class.part).and_then(NamedTarget::known);
                row.file = row.file.take().or_else(file);
            }
            Key::Taken(pid, _) => row.pid = pid,
            Key::Kernel(pid, _) => (row.kernel, row.pid) = (true, pid),
        }
        if matches!(key, Key::Taken(..) | Key::Kernel(..)) {
            row.processes.insert(pid_of(profile, wait.task));
        }
        row.wait_ns.grow(wait.weight_ns);
        row.lengths.add_wait(wait);
        row.waiters.insert(profile.task(wait.task).tid);
        if let Some(callsite) = wait.callsite {
            self.places.entry(callsite).or_default().grow(wait.weight_ns);
        }
        if let Some(other) = wait.other {
            let name = other_name(profile, other);
            // A wait that timed out was ended by the timer's interrupt, which holds no lock.
            if !name.starts_with("irq") {
                let entry = self.holders.entry((other.tid, other.callsite)).or_insert_with(|| (0, name));
                entry.0.grow(wait.weight_ns);
            }
        }
    }

    fn finish(self, profile: &Profile) -> LockRow {
        // For waits known as sums, only the threads that ended the last ones are known.
        let told_ns = self.holders.values().map(|(ns, _)| *ns).grown_sum().max(1);
        let mut places: Vec<(CallsiteId, u64)> = self.places.into_iter().collect();
        places.rank_by_key(|&(callsite, ns)| (Reverse(ns), callsite));
        let holder =
            self.holders.into_iter().max_by_key(|&((tid, callsite), (ns, _))| (ns, Reverse((tid, callsite))));
        let holder = holder.map(|((tid, callsite), (ns, name))| LockHolder {
            name,
            tid,
            frames: callsite.map_or_else(Vec::new, |callsite| waker_frames(profile, callsite)),
            percent: (u128::from(ns) * 100 / u128::from(told_ns)) as u64,
        });
        LockRow { place: places.first().map(|&(callsite, _)| callsite), places, holder, ..self.row }
    }
}
