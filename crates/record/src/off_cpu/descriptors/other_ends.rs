//! Other ends of sockets and pipes: a look at all processes, by a thread of its own.

mod found;
mod single_sockets;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::FxHashSet;

use crate::sys::open_socket::SocketEnds;
use crate::sys::time::thread_cpu_ns;
pub(super) use found::Found;
use single_sockets::SingleSockets;

/// From a socket's first wait to the look: a connection that is just being made is whole by then.
const FIRST_AFTER: Duration = Duration::from_millis(3);
/// Pauses before one looks again for other ends that were not found.
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LAST_RETRY: Duration = Duration::from_secs(2);

/// All looks together may take so much of a CPU at once, and one part of the time.
const FREE_NS: u64 = 30_000_000;
/// How long a file in the middle of a recording waits for a look.
const LONGEST_LOOK: Duration = Duration::from_millis(500);

/// Looks for the other ends of sockets and pipes that are wanted.
#[derive(Debug)]
pub(super) struct OtherEnds {
    shared: Arc<Shared>,
    looker: Option<std::thread::JoinHandle<()>>,
    wanted: FxHashSet<String>,
    /// Looks may take one part in this many of a CPU.
    one_part_in: u64,
}

/// The results of the looks, while they go on.
#[derive(Debug)]
pub(super) struct LookResults {
    shared: Arc<Shared>,
    is_looked_for: bool,
}

#[derive(Debug, Default)]
struct Shared {
    asked: Mutex<Asked>,
    changed: Condvar,
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
struct Asked {
    new: Vec<WantedEnd>,
    /// A look is wanted at once.
    is_urgent: bool,
    is_over: bool,
}

/// A descriptor whose other end is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WantedEnd {
    /// A process that has it.
    pub pid: u32,
    /// A link like `socket:[81925]`.
    pub link: String,
    /// Answer of the socket.
    pub ends: Option<SocketEnds>,
}

impl OtherEnds {
    /// Nothing is wanted yet.
    pub(super) fn new(one_part_in: u64) -> Self {
        Self { shared: Arc::default(), looker: None, wanted: FxHashSet::default(), one_part_in }
    }

    /// A descriptor is waited for.
    pub(super) fn want(&mut self, wanted: WantedEnd) {
        if inode_of(&wanted.link).is_none() || !self.wanted.insert(wanted.link.clone()) {
            return;
        }
        self.shared.asked().new.push(wanted);
        self.shared.changed.notify_all();
        if self.looker.is_none() {
            let (shared, one_part_in) = (Arc::clone(&self.shared), self.one_part_in);
            let looker = std::thread::Builder::new().name("tally-names".to_owned());
            // Without it they keep their kind as name.
            self.looker = looker.spawn(move || look_until_over(&shared, one_part_in)).ok();
        }
    }

    /// Results so far, for another thread.
    pub(super) fn results(&self) -> LookResults {
        LookResults { shared: Arc::clone(&self.shared), is_looked_for: self.looker.is_some() }
    }

    /// Results, after a last look at new descriptors.
    pub(super) fn finish(self) -> Found {
        self.shared.asked().is_over = true;
        self.shared.changed.notify_all();
        drop(self.looker.map(std::thread::JoinHandle::join));
        std::mem::take(&mut *self.shared.found())
    }

    /// Keeps only what is known of these.
    pub(super) fn keep(&mut self, links: &FxHashSet<&str>) {
        self.wanted.retain(|link| links.contains(link.as_str()));
        self.shared.found().keep(&links.iter().filter_map(|link| inode_of(link)).collect());
    }
}

impl LookResults {
    /// Results so far, after a look at new descriptors.
    pub(super) fn found(&self) -> Found {
        let Self { shared, is_looked_for } = self;
        let mut asked = shared.asked();
        asked.is_urgent = *is_looked_for;
        shared.changed.notify_all();
        drop(shared.changed.wait_timeout_while(asked, LONGEST_LOOK, |asked| asked.is_urgent));
        shared.found().clone()
    }
}

impl Shared {
    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn look_until_over(shared: &Shared, one_part_in: u64) {
    let begin = Instant::now();
    let mut single = SingleSockets::default();
    // A connection that nobody has accepted yet has no other end: it is looked for again, later and later.
    let mut again: Vec<WantedEnd> = Vec::new();
    let mut retry_after = FIRST_RETRY;
    loop {
        let retry = (!again.is_empty() && retry_after <= LAST_RETRY).then_some(retry_after);
        let pause = pause_after(thread_cpu_ns(), begin.elapsed(), one_part_in);
        let (new, is_over) = wait_for_new(shared, pause, retry);
        retry_after = if new.is_empty() { retry_after * 2 } else { FIRST_RETRY };
        again.extend(new);
        if !again.is_empty() {
            let mut found = shared.found();
            found.look_for(&again, &mut single);
            again.retain(|wanted| !found.is_settled(wanted));
        }
        shared.asked().is_urgent = false;
        shared.changed.notify_all();
        if is_over {
            return;
        }
    }
}

/// How long to wait with the next look when all so far took `spent_ns` of a CPU.
fn pause_after(spent_ns: u64, elapsed: Duration, one_part_in: u64) -> Duration {
    let due = Duration::from_nanos(spent_ns.saturating_sub(FREE_NS).saturating_mul(one_part_in));
    due.saturating_sub(elapsed).max(FIRST_AFTER)
}

/// Waits until something is wanted, or for `retry`, and then for the pause unless recording ends.
fn wait_for_new(shared: &Shared, pause: Duration, retry: Option<Duration>) -> (Vec<WantedEnd>, bool) {
    let is_hurried = |asked: &Asked| asked.is_over || asked.is_urgent;
    let is_idle = |asked: &mut Asked| asked.new.is_empty() && !is_hurried(asked);
    let forever = Duration::from_secs(1 << 30);
    let idle = shared.changed.wait_timeout_while(shared.asked(), retry.unwrap_or(forever), is_idle);
    let (asked, _) = idle.unwrap_or_else(PoisonError::into_inner);
    let waited = shared.changed.wait_timeout_while(asked, pause, |asked| !is_hurried(asked));
    let (mut asked, _) = waited.unwrap_or_else(PoisonError::into_inner);
    (std::mem::take(&mut asked.new), asked.is_over)
}

/// The number in `socket:[81925]` and `pipe:[81926]`.
pub(super) fn inode_of(link: &str) -> Option<u64> {
    let number = link.strip_prefix("socket:[").or_else(|| link.strip_prefix("pipe:["))?;
    number.strip_suffix(']')?.parse().ok()
}

impl WantedEnd {
    pub(super) fn is_unix(&self) -> bool {
        self.ends == Some(SocketEnds::Other(libc::AF_UNIX))
    }

    pub(super) fn may_be_unix(&self) -> bool {
        self.ends.is_none() || self.is_unix()
    }
}

#[cfg(test)]
mod tests;
