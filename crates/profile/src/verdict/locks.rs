//! Which lock: waits on futexes, grouped by the function that took the lock and the one that called it.

use crate::off_cpu::Reason;
use crate::profile::Profile;
use crate::table::CallsiteId;
use crate::view::wall::{Part, is_kernel, is_thread_start, name_of};
use rustc_hash::FxHashMap;

/// A place in the program where threads wait for a lock, or for another thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockSite {
    /// The function that takes the lock: the innermost that is no part of a locking library.
    pub taker: String,
    /// The function that called it, from the program itself where there is one; empty at a thread's start.
    pub caller: String,
    /// ns waited.
    pub wait_ns: u64,
    /// Waits sampled.
    pub waits: u64,
    /// True for condition variables and joins: waiting for another thread's work, not for a lock.
    pub for_work: bool,
    /// The function that takes it lies in a shared library: the program does not see the lock.
    pub in_library: bool,
}

/// Parts of locking libraries, by how their names begin.
const LOCKING: &[&str] = &[
    "__lll_lock",
    "__GI___lll_lock",
    "lll_",
    "pthread_mutex_",
    "__pthread_mutex_",
    "___pthread_mutex_",
    "__GI___pthread_mutex",
    "pthread_rwlock_",
    "__pthread_rwlock_",
    "___pthread_rwlock_",
    "pthread_spin_",
    "pthread_cond_",
    "__pthread_cond_",
    "___pthread_cond_",
    "__futex_abstimed",
    "__GI___futex_abstimed",
    "futex_wait",
    "__internal_syscall",
    "syscall",
    "std::sys::",
    "std::sync::",
    "<std::sync::",
    "core::sync::",
    "parking_lot",
    "lock_api::",
    "std::mutex::",
    "std::lock_guard",
    "std::unique_lock",
    "__gthread_",
    "sem_wait",
    "__new_sem_wait",
    "pthread_join",
    "__pthread_clockjoin",
    "runtime.futex",
    "runtime.lock",
    "sync.(*Mutex)",
];

const FOR_WORK: &[&str] = &["cond_wait", "cond_timedwait", "clockjoin", "pthread_join", "sem_wait", "park"];

/// Lock sites, most waiting first.
pub(super) fn sites(profile: &Profile, waits: &[(CallsiteId, Part, u64)]) -> Vec<LockSite> {
    let mut index: FxHashMap<Place, usize> = FxHashMap::default();
    let mut sites: Vec<LockSite> = Vec::new();
    for &(callsite, _, ns) in waits.iter().filter(|(_, part, _)| *part == Part::Blocked(Reason::Futex)) {
        let place = place_of(profile, callsite);
        let at = *index.entry(place.clone()).or_insert_with(|| {
            let Place { taker, caller, for_work, in_library } = place;
            sites.push(LockSite { taker, caller, wait_ns: 0, waits: 0, for_work, in_library });
            sites.len() - 1
        });
        sites[at].wait_ns += ns;
        sites[at].waits += 1;
    }
    sites.sort_by_key(|site| std::cmp::Reverse(site.wait_ns));
    sites
}

/// What sites are kept apart by.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Place {
    taker: String,
    caller: String,
    for_work: bool,
    in_library: bool,
}

fn place_of(profile: &Profile, callsite: CallsiteId) -> Place {
    let frames = profile.callsites.leaf_first(callsite).filter(|&frame| !is_kernel(profile, frame));
    let names: Vec<(&str, bool)> = frames
        .filter_map(|frame| {
            let library = profile.dsos.of(profile.frames.of(frame).dso).short_name.contains(".so");
            name_of(profile, frame).map(|name| (name, library))
        })
        .collect();
    let is_locking = |name: &str| LOCKING.iter().any(|part| name.starts_with(part));
    let for_work = names
        .iter()
        .take_while(|(name, _)| is_locking(name))
        .any(|(name, _)| FOR_WORK.iter().any(|part| name.contains(part)));
    let taker = names.iter().position(|(name, _)| !is_locking(name));
    let own = |at: usize| {
        let own = names[at + 1..].iter().find(|(_, library)| !library).or_else(|| names.get(at + 1));
        own.filter(|(name, _)| !is_thread_start(name))
    };
    let name_at = |at: usize| names[at].0.trim_start_matches("__GI_").to_owned();
    match taker {
        Some(at) => {
            // A library function called through its own inner parts: the outermost is the one the program calls.
            let inner = names[at..].iter().take_while(|(_, library)| *library).count();
            let taker = if inner > 0 && at + inner < names.len() { at + inner - 1 } else { at };
            let caller = own(taker).map_or_else(String::new, |(name, _)| (*name).to_owned());
            Place { taker: name_at(taker), caller, for_work, in_library: names[taker].1 }
        }
        None => {
            let taker = names.first().map_or("[unknown]", |(name, _)| name).to_owned();
            Place { taker, caller: String::new(), for_work, in_library: false }
        }
    }
}
