//! Idle waits: threads that wait for work, which holds nothing up.

use super::classes::Reasons;
use super::{NamedTarget, Part, is_thread_start};
use crate::grow::Grow as _;
use crate::off_cpu::event_loop::is_of_event_loop;
use crate::off_cpu::futex::{expected, is_lock_value};
use crate::off_cpu::wait_names::wait_names;
use crate::off_cpu::work_waits::{
    go_lock, is_idle_in_go, waits_for_all, waits_for_lock_by_condition, waits_for_work,
};
use crate::off_cpu::{ThreadTotals, Wait, WaitReason};
use crate::profile::{Profile, TaskId};
use crate::table::CallsiteId;
use perfdata::off_cpu::State;
use rustc_hash::{FxHashMap, FxHashSet};

/// User functions in which a thread waits for work, in addition to those of locking libraries.
const IDLE_FUNCTIONS: &[&str] = &[
    "epoll_wait",
    "epoll_pwait",
    "__poll",
    "poll",
    "ppoll",
    "select",
    "__select",
    "accept",
    "accept4",
    "sigwait",
    "sigtimedwait",
    "pause",
    "nanosleep",
    "__nanosleep",
    "clock_nanosleep",
    "__clock_nanosleep",
    "sleep",
    "usleep",
    "wait4",
    "__wait4",
    "waitpid",
    "__waitpid",
    "runtime.stopm",
    "runtime.findRunnable",
    "runtime.netpoll",
    "Unsafe_Park",
    "io_uring_wait",
    "__io_uring_get_cqe",
];

/// The same, of those that workers and servers wait in for what comes next.
const WAITS_FOR_NEXT: &[&str] = &["epoll_wait", "epoll_pwait", "accept", "accept4", "sigwait"];

/// libc's way into the kernel for those who ask it themselves.
const BARE_CALL: &str = "syscall";

/// Functions between a thread's start and the program's own functions.
const PLUMBING: &[&str] = &[
    "std::",
    "<std::",
    "core::",
    "<core::",
    "alloc::",
    "<alloc::",
    "__rust_",
    "execute_native_thread_routine",
    "thread_native_entry",
    "Thread::call_run",
    "JavaThread::thread_main_inner",
    "JavaThread::run",
    "runtime/cgo(",
    "runtime.mstart",
    "VMThread::run",
    "GangWorker::run",
    "WorkerThread::run",
    "ConcurrentGCThread::run",
];

/// Program's functions between a thread's start and its wait for what comes next: `take < worker`.
const TOP_LOOP: usize = 2;

/// An idle wait: the thread waits for work (not a lock, not a disk), and either spends nearly all its life in this one
/// place (waits for a CPU left out), or waits for the next job in the loop right at its start. In a recording of a whole machine also the waits of
/// threads that hardly ran.
pub(super) fn mark_idle(profile: &Profile, parts: &mut [Part], reasons: &mut Reasons) {
    const NEARLY_ALL_PCT: u64 = 80;
    // Without the time for which it waited for a CPU: what a thread is doesn't depend on other programs' load.
    let own_ns = |of: &ThreadTotals| {
        of.life_ns().saturating_sub(of.of(State::Runnable)).saturating_sub(of.of(State::Preempted))
    };
    let lives: FxHashMap<TaskId, u64> =
        profile.off_cpu.totals.iter().map(|totals| (totals.task, own_ns(totals))).collect();
    let mut places = Places { profile, by_callsite: FxHashMap::default(), by_names: FxHashMap::default() };
    let mut by_place: FxHashMap<(TaskId, usize), u64> = FxHashMap::default();
    let blocked = profile.off_cpu.waits.iter().zip(parts.iter());
    for (wait, _) in blocked.filter(|(_, part)| matches!(part, Part::Blocked(_))) {
        if let Some(callsite) = wait.callsite {
            by_place.entry((wait.task, places.of(callsite))).or_default().grow(wait.weight_ns);
        }
    }
    let bystanders = Bystanders::of(profile);
    let mut top_loops: FxHashMap<(CallsiteId, bool), bool> = FxHashMap::default();
    for (wait, part) in profile.off_cpu.waits.iter().zip(parts) {
        let (Part::Blocked(_), Some(callsite)) = (*part, wait.callsite) else { continue };
        let reason = reasons.reason(profile, wait);
        if reason == WaitReason::KernelThread {
            *part = Part::Idle;
            continue;
        }
        if is_for_lock(profile, wait, callsite) {
            continue;
        }
        if bystanders.is_idle(wait, reason) {
            *part = Part::Idle;
            continue;
        }
        let in_place = by_place.get(&(wait.task, places.of(callsite))).copied().unwrap_or(0);
        let life = lives.get(&wait.task).copied().unwrap_or(u64::MAX);
        let nearly_all = in_place.saturating_mul(100) >= life.saturating_mul(NEARLY_ALL_PCT);
        let may_be_next =
            matches!(reason, WaitReason::Futex | WaitReason::Poll | WaitReason::Socket | WaitReason::Signal);
        let no_lock = reason == WaitReason::Futex && is_no_lock(wait);
        let mut at_top = || {
            let is = || is_top_loop(profile, callsite, no_lock);
            may_be_next && *top_loops.entry((callsite, no_lock)).or_insert_with(is)
        };
        let for_work = || no_lock && is_bare(profile, callsite) || is_for_work(profile, callsite, reason);
        let in_loop = || is_in_loop(profile, callsite, reason) && !is_for_peer(profile, wait, *part);
        let is_client = || reason == WaitReason::Poll && is_for_answer(profile, wait, *part);
        if (nearly_all && for_work() && !is_client()) || at_top() || in_loop() {
            *part = Part::Idle;
        }
    }
}

/// Places of waits by the names of their functions: the same call may have another address the next time, as in code of
/// an interpreter or a JIT compiler.
struct Places<'p> {
    profile: &'p Profile,
    by_callsite: FxHashMap<CallsiteId, usize>,
    by_names: FxHashMap<Vec<&'p str>, usize>,
}

impl Places<'_> {
    fn of(&mut self, callsite: CallsiteId) -> usize {
        let Self { profile, by_callsite, by_names } = self;
        *by_callsite.entry(callsite).or_insert_with(|| {
            let names = wait_names(profile, callsite).into_iter().map(|(name, _)| name).collect();
            let next = by_names.len();
            *by_names.entry(names).or_insert(next)
        })
    }
}

/// Threads of a whole machine that hardly ran: the recording isn't about them, whatever they wait for.
struct Bystanders {
    threads: FxHashSet<TaskId>,
}

impl Bystanders {
    /// Those with less of their life on a CPU hardly ran: one in this many.
    const HARDLY: u64 = 200;

    fn of(profile: &Profile) -> Self {
        let hardly_ran =
            |totals: &&ThreadTotals| totals.of(State::On).saturating_mul(Self::HARDLY) < totals.life_ns();
        // Asked once: it looks through all threads.
        let all: &[ThreadTotals] = if profile.has_all_processes() { &profile.off_cpu.totals } else { &[] };
        Self { threads: all.iter().filter(hardly_ran).map(|totals| totals.task).collect() }
    }

    /// Waits for locks and disks show a trouble of any thread.
    fn is_idle(&self, wait: &Wait, reason: WaitReason) -> bool {
        let is_for_others = match reason {
            WaitReason::Futex => is_no_lock(wait),
            WaitReason::Poll
            | WaitReason::Socket
            | WaitReason::Pipe
            | WaitReason::Timer
            | WaitReason::Child
            | WaitReason::Signal
            | WaitReason::Tty
            | WaitReason::Ipc
            | WaitReason::Earlier
            | WaitReason::Other => true,
            _ => false,
        };
        is_for_others && self.threads.contains(&wait.task)
    }
}

fn is_for_work(profile: &Profile, callsite: CallsiteId, reason: WaitReason) -> bool {
    if matches!(reason, WaitReason::Poll | WaitReason::Timer | WaitReason::Child | WaitReason::Signal) {
        return true;
    }
    let may = matches!(reason, WaitReason::Futex | WaitReason::Socket | WaitReason::Aio | WaitReason::Ipc);
    let names: Vec<&str> = wait_names(profile, callsite).into_iter().take(12).map(|(name, _)| name).collect();
    let is_idle =
        |name: &&str| IDLE_FUNCTIONS.iter().any(|idle| name.starts_with(idle)) || name.contains("tokio::");
    may && !waits_for_all(names.iter().copied())
        && (waits_for_work(names.iter().copied()).is_some() || names.iter().any(is_idle))
}

/// True for a thread of a Go program that has no goroutine to run, and for an event loop of a language without an event,
/// however short.
fn is_in_loop(profile: &Profile, callsite: CallsiteId, reason: WaitReason) -> bool {
    let names = wait_names(profile, callsite);
    let names = || names.iter().map(|(name, _)| *name);
    match reason {
        WaitReason::Futex | WaitReason::Timer => is_idle_in_go(names()),
        WaitReason::Poll => is_idle_in_go(names()) || is_of_event_loop(names()),
        _ => false,
    }
}

/// True if an answer ended the wait, by a connection that this side made, or a child's output: something in the program
/// waited for it.
fn is_for_peer(profile: &Profile, wait: &Wait, part: Part) -> bool {
    const OF_PEERS: &[&str] = &["socket to ", "sockets to ", "pipe ", "pidfd"];
    NamedTarget::of(profile, wait, part).is_some_and(|target| {
        let name = target.text();
        let member =
            name.strip_prefix("epoll of ").or_else(|| name.strip_prefix("poll of ")).unwrap_or(&name);
        OF_PEERS.iter().any(|begin| member.starts_with(begin)) && !member.contains("the process itself")
    })
}

/// True if a TCP connection that this side made ended the wait, within a second on average: the answer to a request. A
/// connection that is open for events has longer waits.
fn is_for_answer(profile: &Profile, wait: &Wait, part: Part) -> bool {
    const MOST_NS: u64 = 1_000_000_000;
    let is_short = wait.weight_ns / wait.stands_for().max(1) < MOST_NS;
    let target = || NamedTarget::of(profile, wait, part);
    is_short && target().is_some_and(|target| is_tcp_to_peer(&target.text()))
}

/// True for `poll of socket to 10.0.0.5:5432 (postgres 812)`.
fn is_tcp_to_peer(name: &str) -> bool {
    let to = ["socket to ", "sockets to "].iter().find_map(|to| name.split_once(to));
    to.is_some_and(|(_, address)| address.starts_with(|c: char| c.is_ascii_digit() || c == '['))
        && !name.contains("the process itself")
}

/// True if the futex isn't a lock's, but the wait is for a lock all the same.
fn is_for_lock(profile: &Profile, wait: &Wait, callsite: CallsiteId) -> bool {
    let names = |callsite| wait_names(profile, callsite).into_iter().map(|(name, _)| name);
    let waker = || wait.other.and_then(|other| other.callsite);
    waits_for_lock_by_condition(names(callsite))
        || waker().is_some_and(|waker| go_lock(names(callsite), names(waker)).is_some())
}

/// True if the arguments are known and aren't those of a lock.
fn is_no_lock(wait: &Wait) -> bool {
    wait.args[0] != 0 && !is_lock_value(expected(&wait.args))
}

/// True if the program asks the kernel itself, or the compiler has put all libraries' code into its own.
fn is_bare(profile: &Profile, callsite: CallsiteId) -> bool {
    wait_names(profile, callsite).first().is_some_and(|(name, _)| *name == BARE_CALL)
}

/// True if the path is a thread's top loop, waiting for the next job. Always false for a path that doesn't reach the
/// thread's start. `no_lock`: a futex whose arguments show that it isn't a lock.
fn is_top_loop(profile: &Profile, callsite: CallsiteId, no_lock: bool) -> bool {
    let names: Vec<&str> = wait_names(profile, callsite).into_iter().map(|(name, _)| name).collect();
    is_top_loop_of(&names, no_lock)
}

/// True for functions between a thread's start and the program's own functions.
pub(super) fn is_plumbing(name: &str) -> bool {
    PLUMBING.iter().any(|prefix| name.starts_with(prefix))
}

/// [`is_top_loop`] by the names of the user functions, leaf first.
fn is_top_loop_of(names: &[&str], no_lock: bool) -> bool {
    if waits_for_all(names.iter().copied()) {
        return false;
    }
    let waits_for_next = |name: &&str| {
        WAITS_FOR_NEXT.iter().any(|prefix| name.starts_with(prefix)) || no_lock && **name == *BARE_CALL
    };
    let of_library = waits_for_work(names.iter().copied());
    let waits = of_library.max(names.iter().rposition(waits_for_next));
    let (Some(waits), Some(outermost)) = (waits, names.last()) else { return false };
    let program = names[waits + 1..].iter().filter(|name| !is_thread_start(name) && !is_plumbing(name));
    is_thread_start(outermost) && program.count() <= TOP_LOOP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_connection_that_this_side_made_brings_answers() {
        assert!(is_tcp_to_peer("socket to 127.0.0.1:7392 (postgres 25560)"));
        assert!(is_tcp_to_peer("poll of socket to [::1]:80 and other sockets"));
        assert!(!is_tcp_to_peer("socket 7392 from 127.0.0.1 (pgbench 18721)"));
        assert!(!is_tcp_to_peer("socket to /run/dbus/system_bus_socket (dbus-daemon 1)"));
        assert!(!is_tcp_to_peer("socket to 127.0.0.1:80 (the process itself)"));
    }

    #[test]
    fn a_worker_that_waits_for_its_next_job_is_idle() {
        let is = |names: &str| is_top_loop_of(&names.split(' ').collect::<Vec<_>>(), false);
        assert!(is(
            "__futex_abstimed_wait_common pthread_cond_wait@@GLIBC_2.3.2 take worker start_thread clone3"
        ));
        assert!(is("epoll_wait serve main __libc_start_call_main __libc_start_main@@GLIBC_2.34 _start"));
        assert!(is("syscall pthread_cond_wait run std::sys::thread::start start_thread clone3"));
        let hotspot = "__futex_abstimed_wait_common pthread_cond_timedwait@@GLIBC_2.3.2 os::PlatformMonitor::wait Monitor::wait";
        let started = "Thread::call_run thread_native_entry start_thread clone3";
        let compiler = "CompileQueue::get CompileBroker::compiler_thread_loop JavaThread::thread_main_inner";
        assert!(is(&format!("{hotspot} {compiler} {started}")));
        assert!(is(&format!(
            "{hotspot} VMThread::wait_for_operation VMThread::loop VMThread::run {started}"
        )));
        let worker = "__new_sem_wait_slow64 PosixSemaphore::wait GangWorker::loop GangWorker::run";
        assert!(is(&format!("{worker} {started}")));
        assert!(is(&format!("{hotspot} G1ServiceThread::run_service ConcurrentGCThread::run {started}")));
        let enter = "pthread_cond_wait os::PlatformEvent::park ObjectMonitor::EnterI ObjectMonitor::enter";
        assert!(!is(&format!("{enter} ObjectSynchronizer::enter run {started}")));
        // Deep in a job, fighting for a lock, or of a stack that was cut: not idle.
        assert!(!is("pthread_cond_wait pool_get query answer worker start_thread clone3"));
        assert!(!is("__lll_lock_wait pthread_mutex_lock take worker start_thread clone3"));
        assert!(!is("pthread_cond_wait take"));
        // Threads that wait for the slowest of them, or for a lock of any library, have work.
        assert!(!is("futex_wait pthread_barrier_wait@GLIBC_2.2.5 work start_thread clone3"));
        assert!(!is("syscall parking_lot::raw_mutex::RawMutex::lock_slow work start_thread clone3"));
        assert!(is("syscall <std::sync::mpmc::list::Channel<Job>>::recv work start_thread clone3"));
        assert!(is("syscall <std::sys::sync::condvar::futex::Condvar>::wait take start_thread clone3"));
        // All of Rust's library is inlined into the thread's own function: only the futex's value distinguishes the
        // two.
        let inlined = ["syscall", "serve", "<std::sys::thread::unix::Thread>::new::thread_start", "clone3"];
        assert!(is_top_loop_of(&inlined, true) && !is_top_loop_of(&inlined, false));
    }
}
