//! Which lock: waits on futexes, grouped by the function that took the lock and the one that called it; and what
//! running threads spend on it: asking the kernel, taking it, passing it on.

use super::called;
use super::hot_code::{line_of, line_of_named};
use crate::grow::Grow as _;
use crate::off_cpu::futex::{expected, is_lock_value};
use crate::off_cpu::known_lock::{KnownLock, lock_by_latch, needs_latched_lock};
use crate::off_cpu::wait_names::{UNNAMED, wait_names};
use crate::off_cpu::work_waits::{
    go_lock, is_locking, java_method, waits_for_lock_by_condition, waits_for_work,
};
use crate::off_cpu::{RelatedThread, Wait, WaitReason};
use crate::profile::Profile;
use crate::table::{CallsiteId, FrameId};
use crate::view::ranking::RankRows as _;
use crate::view::wall::{Part, PlacedWait, is_kernel, is_thread_start, kernel_frames, name_of};
use rustc_hash::{FxHashMap, FxHashSet};

/// A place in the program where threads wait for a lock, or for another thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockSite {
    /// The function that takes the lock: the innermost outside of locking libraries.
    pub taker: String,
    /// The function that called it, from the program itself where there is one; empty at a thread's start.
    pub caller: String,
    /// ns asleep for it.
    pub wait_ns: u64,
    /// Part of it in an event loop that a latch wakes, ns.
    pub polled_ns: u64,
    /// ns woken after that, waiting for a CPU.
    pub queued_ns: u64,
    /// ns running to take it and to pass it on; without the work done while it is held.
    pub run_ns: u64,
    /// Waits, estimated from samples.
    pub waits: u64,
    /// True for condition variables and joins: waiting for another thread's work, not for a lock.
    pub for_work: bool,
    /// The function that takes it is in a shared library, so the program doesn't see the lock.
    pub in_library: bool,
    /// It calls the kernel directly, without a locking library. The program alone defines the meaning of the futex.
    pub is_bare: bool,
    /// Line of the innermost function of the program itself on the way to the lock, `rand.c:14`; empty if unknown.
    pub line: String,
    /// Common name and cure of this lock, if it is a well-known one.
    pub known: Option<KnownLock>,
}

impl LockSite {
    /// All that the lock takes of thread time, ns.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.wait_ns.saturating_add(self.queued_ns).saturating_add(self.run_ns)
    }

    /// Adds the time and waits of another site.
    pub(super) fn add(&mut self, other: &Self) {
        self.wait_ns.grow(other.wait_ns);
        self.polled_ns.grow(other.polled_ns);
        self.queued_ns.grow(other.queued_ns);
        self.run_ns.grow(other.run_ns);
        self.waits.grow(other.waits);
    }
}

/// Lock sites, those that take most time first. `running` is running time by path.
pub(super) fn sites(profile: &Profile, waits: &[PlacedWait], running: &[(CallsiteId, u64)]) -> Vec<LockSite> {
    let mut sites = Sites::default();
    for wait in waits {
        match (wait.part, wait.after) {
            (Part::Blocked(WaitReason::Futex | WaitReason::Gil), _) => {
                let site = sites.of_wait(profile, wait);
                if site.line.is_empty() {
                    site.line = taking_line(profile, wait, &site.taker).unwrap_or_default();
                }
                site.wait_ns.grow(wait.ns);
                site.waits.grow(wait.waits);
            }
            (Part::Runnable, Some(WaitReason::Futex | WaitReason::Gil)) => {
                sites.of_wait(profile, wait).queued_ns.grow(wait.ns);
            }
            (Part::Blocked(WaitReason::Poll), _) => {
                if let Some(place) = latched_place(profile, wait.callsite) {
                    let site = sites.at(place);
                    site.wait_ns.grow(wait.ns);
                    site.polled_ns.grow(wait.ns);
                    site.waits.grow(wait.waits);
                }
            }
            (Part::Runnable, Some(WaitReason::Poll)) => {
                if let Some(place) = latched_place(profile, wait.callsite) {
                    sites.at(place).queued_ns.grow(wait.ns);
                }
            }
            _ => {}
        }
    }
    for &(callsite, ns) in running {
        let names = Names::of(profile, callsite).without_helpers();
        let asks_kernel =
            || kernel_frames(profile, callsite).any(|f| name_of(profile, f).is_some_and(is_futex));
        if names.begin_in_locking() || sites.takes_itself(&names) || asks_kernel() {
            sites.of(names, None).run_ns.grow(ns);
        }
    }
    // A lock that nobody ever slept for is none to speak of: taking it costs what it costs.
    let mut sites: Vec<LockSite> = sites.list.into_iter().filter(|site| site.wait_ns > 0).collect();
    sites.rank_by_key(|site| std::cmp::Reverse(site.total_ns()));
    sites
}

/// The line in which the wait's lock is taken, `rand.c:14`. The stack of a Go program's idle thread has nothing of it:
/// there it is where the waker gave the lock back, in the function that takes it.
fn taking_line(profile: &Profile, wait: &PlacedWait, taker: &str) -> Option<String> {
    if go_place(profile, wait.callsite, wait.other).is_none() {
        return own_line(profile, wait.callsite);
    }
    let mut frames = profile.callsites.leaf_first(wait.other?.callsite?);
    frames.find_map(|frame| line_of_named(profile, frame, taker))
}

/// The line of the innermost function outside of shared libraries, `rand.c:14`.
fn own_line(profile: &Profile, callsite: CallsiteId) -> Option<String> {
    let is_own = |frame: &FrameId| {
        !is_kernel(profile, *frame)
            && !profile.dsos.of(profile.frames.of(*frame).dso).short_name.contains(".so")
    };
    line_of(profile, profile.callsites.leaf_first(callsite).find(is_own)?)
}

/// True for waits for a lock in user space; false for all else, and for waits for another thread's work.
pub(super) fn is_for_lock(profile: &Profile, wait: &PlacedWait) -> bool {
    match wait.part {
        Part::Blocked(WaitReason::Gil) => true,
        Part::Blocked(WaitReason::Poll) => latched_place(profile, wait.callsite).is_some(),
        Part::Blocked(WaitReason::Futex) => {
            go_place(profile, wait.callsite, wait.other).is_some()
                || !Names::of(profile, wait.callsite).place(Some(expected(&wait.args))).for_work
        }
        _ => false,
    }
}

/// The same where the thread that ends the wait held the lock: a Go thread without work is woken for any of them.
pub(super) fn is_for_thread_lock(profile: &Profile, wait: &PlacedWait) -> bool {
    is_for_lock(profile, wait) && go_place(profile, wait.callsite, wait.other).is_none()
}

/// The lock of a server that waits for it in its event loop.
fn latched_place(profile: &Profile, callsite: CallsiteId) -> Option<LockSiteKey> {
    let names = || wait_names(profile, callsite).into_iter().map(|(name, _)| name);
    let known = lock_by_latch(names())?;
    let (taker, caller) = (known.name.to_owned(), needs_latched_lock(names()).unwrap_or("").to_owned());
    Some(LockSiteKey {
        taker,
        caller,
        for_work: false,
        in_library: false,
        is_bare: false,
        known: Some(known),
    })
}

/// The lock of a Go program for which a thread had nothing to do.
fn go_place(profile: &Profile, callsite: CallsiteId, other: Option<RelatedThread>) -> Option<LockSiteKey> {
    let waker = Names::of(profile, other?.callsite?);
    let names = Names::of(profile, callsite);
    let (holder, caller) = go_lock(names.leaf_first(), waker.leaf_first())?;
    let (taker, caller) = (holder.to_owned(), caller.to_owned());
    Some(LockSiteKey { taker, caller, for_work: false, in_library: false, is_bare: false, known: None })
}

/// A lock that has a name, but no address of its own.
pub(crate) struct NamedLock {
    /// The words of a finding about it, without a line: `lock taken in put() < work`.
    pub words: String,
    /// A server's, between its processes.
    pub is_shared: bool,
}

impl NamedLock {
    fn of(place: &LockSiteKey) -> Option<Self> {
        let is_shared = place.known.is_some_and(KnownLock::is_between_processes);
        Some(Self { words: place.words()?, is_shared })
    }
}

/// The lock that a wait is for, if its futex is the waiter's and not the lock's.
pub(crate) fn lock_behind(
    profile: &Profile,
    callsite: CallsiteId,
    other: Option<RelatedThread>,
) -> Option<NamedLock> {
    let place = go_place(profile, callsite, other).or_else(|| {
        let names = Names::of(profile, callsite);
        waits_for_lock_by_condition(names.leaf_first()).then(|| names.place(None))
    })?;
    NamedLock::of(&place)
}

/// The same of a server's lock that is waited for in its event loop.
pub(crate) fn latched_lock(profile: &Profile, callsite: CallsiteId) -> Option<NamedLock> {
    NamedLock::of(&latched_place(profile, callsite)?)
}

/// Name of the lock that a thread waits for at this place: `lock taken in put() < work`; `None` where it waits for another
/// thread's work, or nothing has a name.
#[must_use]
pub fn lock_words(profile: &Profile, callsite: CallsiteId) -> Option<String> {
    Names::of(profile, callsite).place(None).words()
}

/// Purpose of a wait on a futex: `lock in put()`, `another thread in take()`. `None` without a stack.
pub(crate) fn futex_words(profile: &Profile, wait: &Wait) -> Option<String> {
    let callsite = wait.callsite?;
    let names = Names::of(profile, callsite);
    let place =
        go_place(profile, callsite, wait.other).unwrap_or_else(|| names.place(Some(expected(&wait.args))));
    Some(match place.known {
        Some(known) => known.name.to_owned(),
        None if place.for_work => format!("another thread in {}", called(&place.taker)),
        None if place.taker == UNNAMED => "a lock".to_owned(),
        None => format!("lock in {}", called(&place.taker)),
    })
}

fn is_futex(kernel_function: &str) -> bool {
    ["do_futex", "__x64_sys_futex", "__arm64_sys_futex"].contains(&kernel_function)
}

#[derive(Default)]
struct Sites {
    index: FxHashMap<LockSiteKey, usize>,
    list: Vec<LockSite>,
    /// Functions of libraries that took a lock without calling one to do it: they do it themselves, on their own time.
    takers: FxHashSet<(LockSiteKey, String)>,
}

impl Sites {
    /// Finds or adds a path's site. `waits`: for a wait, the value it expects in the futex.
    fn of(&mut self, names: Names<'_>, waits: Option<u32>) -> &mut LockSite {
        let place = names.place(waits);
        if waits.is_some() && place.in_library {
            let inner = names.inner_taker().map(str::to_owned);
            self.takers.extend(inner.map(|inner| (place.clone(), inner)));
        }
        self.at(place)
    }

    fn at(&mut self, place: LockSiteKey) -> &mut LockSite {
        let at = *self.index.entry(place.clone()).or_insert_with(|| {
            let LockSiteKey { taker, caller, for_work, in_library, is_bare, known } = place;
            let site =
                LockSite { taker, caller, for_work, in_library, is_bare, known, ..LockSite::default() };
            self.list.push(site);
            self.list.len() - 1
        });
        &mut self.list[at]
    }

    fn of_wait(&mut self, profile: &Profile, wait: &PlacedWait) -> &mut LockSite {
        match go_place(profile, wait.callsite, wait.other) {
            Some(place) => self.at(place),
            None => self.of(Names::of(profile, wait.callsite), Some(expected(&wait.args))),
        }
    }

    /// True if the path ends in a library's function in which threads were seen to wait for its lock.
    fn takes_itself(&self, names: &Names<'_>) -> bool {
        let Some((leaf, true)) = names.0.first() else { return false };
        self.takers.contains(&(names.place(None), (*leaf).to_owned()))
    }
}

/// Names that HotSpot's perf map gives methods that are not compiled.
const INTERPRETED: &str = "Interpreter";

/// Identity of a site.
#[derive(Clone, PartialEq, Eq, Hash)]
struct LockSiteKey {
    taker: String,
    caller: String,
    for_work: bool,
    in_library: bool,
    is_bare: bool,
    known: Option<KnownLock>,
}

impl LockSiteKey {
    /// The lock's name, as findings have it; `None` where it waits for another thread's work, or nothing has a name.
    fn words(&self) -> Option<String> {
        if let Some(known) = self.known {
            let taken = if self.caller.is_empty() { "" } else { ", taken in " };
            let caller = if self.caller.is_empty() { String::new() } else { called(&self.caller) };
            return Some(format!("{}{taken}{caller}", known.name));
        }
        if self.for_work || self.is_bare || self.taker == UNNAMED || self.taker.starts_with('[') {
            return None;
        }
        let caller = if self.caller.is_empty() { String::new() } else { format!(" < {}", self.caller) };
        let how = if self.in_library { "inside" } else { "taken in" };
        Some(format!("lock {how} {}{caller}", called(&self.taker)))
    }
}

/// User functions of a path, leaf first, each with whether it is in a shared library.
struct Names<'p>(Vec<(&'p str, bool)>);

impl<'p> Names<'p> {
    fn of(profile: &'p Profile, callsite: CallsiteId) -> Self {
        let mut named = wait_names(profile, callsite);
        named.dedup();
        Self(named)
    }

    fn leaf_first(&self) -> impl Iterator<Item = &'p str> + '_ {
        self.0.iter().map(|(name, _)| *name)
    }

    /// Without the functions that a well-known lock's code calls: their time is the lock's. The code of other locks calls
    /// none, and may be on the way to anything (`pthread_once`).
    fn without_helpers(self) -> Self {
        let are_helpers = |&at: &usize| at > 0 && self.0[..at].iter().all(|(_, library)| *library);
        let locking = self.0.iter().position(|(name, _)| is_locking(name)).filter(are_helpers);
        let locking = locking.map(|at| Self(self.0[at..].to_vec()));
        locking.filter(|names| names.place(None).known.is_some()).unwrap_or(self)
    }

    fn begin_in_locking(&self) -> bool {
        self.0.first().is_some_and(|(name, _)| is_locking(name))
    }

    /// The innermost function outside of locking libraries.
    fn inner_taker(&self) -> Option<&'p str> {
        self.0.iter().map(|(name, _)| *name).find(|name| !is_locking(name))
    }

    /// `expects`: of a wait, the value in the futex that it waits upon.
    fn place(&self, expects: Option<u32>) -> LockSiteKey {
        let names = &self.0;
        let locking = || names.iter().take_while(|(name, _)| is_locking(name));
        let named = waits_for_work(names.iter().map(|(name, _)| *name)).is_some();
        // If the compiler inlined all locking code into its caller, only the system call is left.
        let is_bare =
            !names.is_empty() && locking().count() > 0 && locking().all(|(name, _)| *name == "syscall");
        let for_work = named || is_bare && expects.is_some_and(|value| !is_lock_value(value));
        let Some(at) = names.iter().position(|(name, _)| !is_locking(name)) else {
            let taker = names.first().map_or("[unknown]", |(name, _)| name).to_owned();
            let caller = String::new();
            return LockSiteKey { taker, caller, for_work, in_library: false, is_bare, known: None };
        };
        if let Some(known) = KnownLock::of(names[at].0) {
            let java = names[at..].iter().find_map(|(name, _)| java_method(name));
            // By its name: the runtime has several functions that take it.
            let (taker, caller) = (known.name.to_owned(), java.unwrap_or_default().to_owned());
            let known = Some(known);
            return LockSiteKey { taker, caller, for_work: false, in_library: true, is_bare: false, known };
        }
        // Java methods that aren't compiled are without a name.
        let interpreted = names[at..].iter().take_while(|(name, _)| *name == INTERPRETED).count();
        let at = if names.get(at + interpreted).is_some_and(|(name, _)| java_method(name).is_some()) {
            at + interpreted
        } else {
            at
        };
        // A library function called through its own inner parts: the outermost is the one the program calls.
        let is_inner = |(name, library): &&(&str, bool)| *library && !is_thread_start(name);
        let inner = names[at..].iter().take_while(is_inner).count();
        let taker = if inner > 0 && at + inner < names.len() { at + inner - 1 } else { at };
        let name = names[taker].0.trim_start_matches("__GI_");
        let name = java_method(name).unwrap_or(name).to_owned();
        LockSiteKey {
            taker: name,
            caller: self.caller_of(taker),
            for_work,
            in_library: names[taker].1,
            is_bare,
            known: None,
        }
    }

    /// Caller of that function: from the program itself where there is one; empty at a thread's start.
    fn caller_of(&self, taker: usize) -> String {
        let outer = &self.0[taker + 1..];
        let own = outer.iter().find(|(name, library)| !library && *name != UNNAMED).or_else(|| outer.first());
        own.filter(|(name, _)| !is_thread_start(name) && *name != INTERPRETED)
            .map_or_else(String::new, |(name, _)| java_method(name).unwrap_or(name).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::off_cpu::known_lock::{JAVA, POSTGRES, PYTHON};

    /// Functions leaf first, those of libraries with a star.
    fn names(names: &'static str) -> Names<'static> {
        let name = |name: &'static str| (name.trim_end_matches('*'), name.ends_with('*'));
        Names(names.split(' ').map(name).collect())
    }

    fn place(path: &'static str) -> LockSiteKey {
        names(path).place(Some(2))
    }

    #[test]
    fn a_lock_is_named_by_what_the_program_calls() {
        let rand = place("__lll_lock_wait_private* __random* rand* draw work start_thread* clone3*");
        assert_eq!((&rand.taker[..], &rand.caller[..], rand.in_library), ("rand", "draw", true));
        let own = place("__lll_lock_wait* pthread_mutex_lock@@GLIBC_2.2.5* work start_thread* clone3*");
        assert_eq!((&own.taker[..], &own.caller[..], own.in_library), ("work", "", false));
        assert!(!rand.is_bare && !own.is_bare && place("syscall* spin work start_thread*").is_bare);
        let stripped = place("__lll_lock_wait* pthread_mutex_lock* [no] __libc_start_call_main* _start");
        assert_eq!((&stripped.taker[..], stripped.in_library), ("[no]", false));
        // A thread all in libraries: not the function that started it.
        let library = place("__lll_lock_wait* pthread_mutex_lock* put* run* start_thread* clone3*");
        assert_eq!((&library.taker[..], library.in_library), ("run", true));
    }

    #[test]
    fn what_a_known_locks_code_calls_is_the_locks_time() {
        let begins = |path| names(path).without_helpers().begin_in_locking();
        let spins = "SafeFetch32_impl* ObjectMonitor::TrySpin* ObjectMonitor::enter* \
                     SharedRuntime::complete_monitor_locking_C* M.put()";
        assert!(begins(spins));
        // Not the work of the program below a function that locks once, nor inside of a lock without a name.
        assert!(!begins("work ObjectMonitor::enter* SharedRuntime::monitor_enter_helper* M.put()"));
        assert!(!begins("inflate* pthread_once* uncompress* main"));
    }

    #[test]
    fn waiting_for_work_is_no_lock_but_for_known_ones() {
        assert!(place("__futex_abstimed_wait_common* pthread_cond_wait* take worker start_thread*").for_work);
        let rust = "syscall <std::sys::sync::condvar::futex::Condvar>::wait_optional_timeout drain main";
        assert!(
            place(rust).for_work
                && !place("syscall <std::sys::sync::mutex::futex::Mutex>::lock_contended f").for_work
        );
        assert!(place("syscall <std::sync::mpmc::list::Channel<Job>>::recv::{closure#1} work").for_work);
        // If the compiler inlined everything into the caller, only the value in the futex distinguishes a lock from a
        // condition.
        let bare = |expects| Names(vec![("syscall", true), ("work", false)]).place(Some(expects)).for_work;
        assert!(bare(7) && bare(u32::MAX) && !bare(2));
        let postgres = place("__new_sem_wait_slow64* PGSemaphoreLock LWLockAcquireOrWait XLogFlush main");
        assert_eq!((postgres.for_work, postgres.known), (false, Some(POSTGRES)));
        let java = place(
            "pthread_cond_wait* os::PlatformEvent::park* ObjectMonitor::EnterI* ObjectMonitor::enter* \
             ObjectSynchronizer::enter* SharedRuntime::monitor_enter_helper* Runtime1::monitorenter* [no]",
        );
        assert_eq!((java.for_work, java.known), (false, Some(JAVA)));
        let jdk_25 = place(
            "pthread_cond_wait* PlatformEvent::park* ObjectMonitor::enter_internal* ObjectMonitor::enter* \
             LightweightSynchronizer::inflate_and_enter* LightweightSynchronizer::enter* \
             SharedRuntime::monitor_enter_helper* Runtime1::monitorenter* M.mon()",
        );
        assert_eq!((&jdk_25.caller[..], jdk_25.known), ("M.mon", Some(JAVA)));
        let gil = place("__futex_abstimed_wait_common* pthread_cond_timedwait* take_gil* eval* main");
        assert_eq!((gil.for_work, gil.known), (false, Some(PYTHON)));
    }
}
