//! Reasons for futex waits: a lock, or another thread's work (a condition, a join, a job from a channel), found from
//! the functions of locking libraries. All users share this list: idle threads, locks, verdict.

use super::collector::waits_for_collector;
use super::known_lock::{self, KnownLock};

/// The name given to functions of OpenMP's libraries that wait for a team: they export none of them.
pub(crate) const WAITS_FOR_TEAM: &str = "gomp_team_wait";

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
    "pthread_barrier_",
    "__pthread_barrier_",
    "___pthread_barrier_",
    "__futex_abstimed",
    "__futex_lock_pi",
    "__GI___futex_abstimed",
    "futex_wait",
    "do_futex_wait",
    "__internal_syscall",
    "syscall",
    "std::sys::sync::",
    "std::sys::pal::",
    "std::sys::futex",
    "std::sys_common::",
    "std::sync::",
    "std::thread::park",
    "std::thread::Thread::park",
    "std::thread::current::",
    "core::sync::",
    "parking_lot",
    "lock_api::",
    "crossbeam_channel::",
    "std::mutex::",
    "std::lock_guard",
    "std::unique_lock",
    "std::condition_variable",
    "std::__atomic_wait",
    "__gthread_",
    "sem_wait",
    "sem_timedwait",
    "sem_clockwait",
    "__new_sem_wait",
    "PGSemaphoreLock",
    WAITS_FOR_TEAM,
    "pthread_join",
    "pthread_timedjoin",
    "__pthread_clockjoin",
    "__pthread_timedjoin",
    // musl's, as of 1.2.
    "__timedwait",
    "__syscall_cp",
    "runtime.futex",
    "runtime.lock",
    "runtime.note",
    "sync.(*Mutex)",
    // HotSpot's own, as of JDK 17 to 25.
    "os::PlatformEvent::",
    "os::PlatformMonitor::",
    "PlatformEvent::",
    "PlatformMonitor::",
    "Monitor::wait",
    "PosixSemaphore::",
    "ObjectMonitor::",
    "ObjectSynchronizer::",
    "LightweightSynchronizer::",
    "Parker::park",
    "Unsafe_Park",
    // CPython's, with which Python's own locks are made, as of 3.8 to 3.14.
    "PyThread_acquire_lock",
    "acquire_timed",
    "lock_PyThread_acquire_lock",
    "rlock_acquire",
    "_PyMutex_Lock",
    "_PyParkingLot_Park",
    "_PySemaphore_",
    // CRuby's, as of 2.7 to 3.4.
    "rb_native_cond_",
    "native_cond_",
    "rb_native_mutex_",
    "do_gvl_timer",
    "native_sleep",
    "thread_sched_wait_",
    "thread_sched_to_waiting",
    "do_mutex_lock",
    "rb_mutex_lock",
    "rb_mutex_synchronize",
];

/// Further parts, by their whole names: musl's.
const LOCKING_EXACTLY: &[&str] = &["sccp", "__wait", "__lock"];

/// Java's, as a perf map names compiled methods: with types before and after.
const JAVA_LOCKING: &[&str] = &[
    "java.util.concurrent.locks.",
    "java.util.concurrent.CountDownLatch",
    "java.util.concurrent.Semaphore",
    "java.util.concurrent.CyclicBarrier",
    "java.util.concurrent.FutureTask",
    "java.util.concurrent.CompletableFuture",
    "java.util.concurrent.ForkJoinPool",
    "java.util.concurrent.ThreadPoolExecutor",
    "java.util.concurrent.ScheduledThreadPoolExecutor",
    "java.util.concurrent.SynchronousQueue",
    "java.util.concurrent.LinkedBlockingQueue",
    "java.util.concurrent.LinkedTransferQueue",
    "java.util.concurrent.ArrayBlockingQueue",
    "jdk.internal.misc.Unsafe.park",
    "sun.misc.Unsafe.park",
];

/// Functions from this list that wait for a lock on a condition of its own.
const FOR_LOCK: &[&str] = &[
    "ObjectMonitor::EnterI",
    "ObjectMonitor::enter",
    "ObjectMonitor::ReenterI",
    "AbstractQueuedSynchronizer.acquire(",
    "AbstractQueuedSynchronizer.acquireQueued(",
    "AbstractQueuedSynchronizer.doAcquireShared(",
    "AbstractQueuedLongSynchronizer.acquire(",
    "StampedLock.acquire",
    "do_mutex_lock",
];

/// Functions made of a lock's parts that are no lock: all wait until another thread is done.
const LATCHES: &[&str] = &["CountDownLatch"];

/// Functions by which a thread of Python takes a lock of the program, by how the names begin.
const PYTHON_TAKES: &[&str] = &["PyThread_acquire_lock", "_PyMutex_Lock", "_PySemaphore_Wait"];

/// Functions of Python's threading.py that take a lock only to be woken, without their classes.
const PYTHON_FOR_WORK: &[&str] = &["wait", "_wait_for_tstate_lock", "join", "_shutdown"];

/// Functions from this list that wait for another thread's work, by parts of names.
const FOR_WORK: &[&str] = &[
    "cond_wait",
    "cond_timedwait",
    "cond_clockwait",
    "condition_variable",
    "clockjoin",
    "timedjoin",
    "pthread_join",
    "sem_wait",
    "sem_timedwait",
    "sem_clockwait",
    "_PySemaphore_Wait",
    WAITS_FOR_TEAM,
    "Condvar",
    "mpsc::",
    "mpmc::",
    "crossbeam_channel::",
    "barrier_wait",
    "Barrier",
    "thread::park",
    "Thread::park",
    "Thread>::park",
    "Parker",
    "runtime.note",
];

/// Functions from this list in which threads wait until all have arrived. They have work left, so this isn't a wait for
/// work.
const FOR_ALL: &[&str] = &["barrier_wait", "Barrier"];

/// True for functions of locking libraries. Rust's names are `<std::sync::Mutex>::lock` or `std::sync::Mutex::lock`,
/// depending on the build.
pub(crate) fn is_locking(name: &str) -> bool {
    let plain = name.trim_start_matches('<');
    let of_java = || {
        let method = java_method(name);
        method.is_some_and(|method| JAVA_LOCKING.iter().any(|part| method.starts_with(part)))
    };
    LOCKING.iter().any(|part| plain.starts_with(part)) || LOCKING_EXACTLY.contains(&plain) || of_java()
}

/// The class and method that HotSpot's perf map names: `Shop.sell` of `void Shop.sell(int, long)`, which our own views
/// have without the type.
pub(crate) fn java_method(name: &str) -> Option<&str> {
    let (before, _) = name.strip_suffix(')')?.split_once('(')?;
    let method = before.rsplit_once(' ').map_or(before, |(_, method)| method);
    (method.contains('.') && !method.contains("::")).then_some(method)
}

/// True if the wait is for a lock that has a condition of its own for each waiter: the futex isn't the lock.
pub(crate) fn waits_for_lock_by_condition<'n>(names: impl IntoIterator<Item = &'n str>) -> bool {
    let (locking, caller) = locking_and_caller(names);
    is_for_lock(&locking, caller)
}

/// True if the wait is for the global lock of Python or Ruby.
pub(crate) fn waits_for_gil<'n>(names: impl IntoIterator<Item = &'n str>) -> bool {
    let (locking, caller) = locking_and_caller(names);
    !locking.is_empty() && is_in_gil_code(caller)
}

/// True if the first of these functions, leaf first, that is of no locking library takes that lock or passes it on.
pub(crate) fn is_in_gil_code<'n>(names: impl IntoIterator<Item = &'n str>) -> bool {
    let caller = locking_and_caller(names).1;
    let global = [known_lock::PYTHON, known_lock::RUBY];
    caller.and_then(KnownLock::of).is_some_and(|known| global.contains(&known))
}

/// The functions of locking libraries, leaf first, and the function that called them.
fn locking_and_caller<'n>(names: impl IntoIterator<Item = &'n str>) -> (Vec<&'n str>, Option<&'n str>) {
    let mut names = names.into_iter().peekable();
    let locking = std::iter::from_fn(|| names.next_if(|name| is_locking(name))).collect();
    (locking, names.next())
}

fn is_for_lock(locking: &[&str], caller: Option<&str>) -> bool {
    let is_known = !locking.is_empty() && caller.is_some_and(KnownLock::is_by_condition);
    is_known || has_part(locking, FOR_LOCK) && !has_part(locking, LATCHES)
}

/// True if a Python function takes a lock by itself: `with lock:`. C code that does (`queue.SimpleQueue`) waits for
/// work.
fn is_python_lock(locking: &[&str], caller: Option<&str>) -> bool {
    let takes = |name: &&str| PYTHON_TAKES.iter().any(|begin| name.starts_with(begin));
    let for_work = |caller: &str| {
        // Up to Python 3.10 a function's name is without its class.
        let method =
            caller.strip_suffix(" (threading.py)").map(|name| name.rsplit('.').next().unwrap_or(name));
        method.is_some_and(|method| PYTHON_FOR_WORK.contains(&method))
    };
    locking.iter().any(takes) && caller.is_some_and(|caller| caller.ends_with(".py)") && !for_work(caller))
}

/// Where a thread of a Go program is without a goroutine to run, and where it waits for one.
const GO_IDLE: &[&str] = &["runtime.stopm", "runtime.mPark"];

/// Functions of Go's scheduler in which a thread waits that has nothing to run, by how their names begin.
const GO_WITHOUT_WORK: &[&str] = &[
    "runtime.stopm",
    "runtime.stoplockedm",
    "runtime.stealWork",
    "runtime.netpoll",
    "runtime.sysmon",
    "runtime.templateThread",
];

/// True for a thread of a Go program's scheduler without work: goroutines wait elsewhere, and have no thread meanwhile.
/// One that is stopped for the collector may have had something to run.
pub(crate) fn is_idle_in_go<'n>(names: impl Iterator<Item = &'n str> + Clone) -> bool {
    names.clone().any(|name| GO_WITHOUT_WORK.iter().any(|begin| name.starts_with(begin)))
        && !waits_for_collector(names)
}

/// Functions with which a goroutine lets go of a lock, by how their names begin.
const GO_RELEASE: &[&str] = &["sync.(*Mutex).", "sync.(*RWMutex)."];

/// The function that lets go of a lock by which a thread of a Go program got a goroutine to run, and the one that
/// called it; from the names of the wait and of its waker, leaf first. A goroutine that waits for a lock has no thread:
/// the thread that would run it has nothing to do.
pub(crate) fn go_lock<'n>(
    names: impl IntoIterator<Item = &'n str>,
    waker: impl IntoIterator<Item = &'n str>,
) -> Option<(&'n str, &'n str)> {
    let begins = |name: &str, with: &[&str]| with.iter().any(|part| name.starts_with(part));
    if !names.into_iter().any(|name| begins(name, GO_IDLE)) {
        return None;
    }
    let is_release = |name: &str| begins(name.strip_prefix("internal/").unwrap_or(name), GO_RELEASE);
    let mut outer = waker.into_iter().skip_while(|name| !is_release(name));
    outer.next()?;
    let mut outer = outer.skip_while(|name| is_release(name) || name.contains(".deferwrap"));
    let holder = outer.next()?;
    Some((holder, outer.find(|name| !name.starts_with("runtime.")).unwrap_or("")))
}

/// Functions that sleep by waiting on a condition that nobody fulfils, or for events of no file of the program's, by how
/// their names begin.
const SLEEPS: &[&str] = &["JavaThread::sleep", RUBY_SLEEPS];
/// Ruby's sleeps, and waits for a condition with a time limit, which run in a function that [`RUBY_FOR_CONDITION`] calls.
const RUBY_SLEEPS: &str = "sleep_hrtime";
const RUBY_FOR_CONDITION: &str = "rb_ensure";
/// How Ruby's main thread sleeps, by how the functions' names begin.
const RUBY_POLLS: &[&str] = &["ppoll", "__ppoll", "poll", "__poll", "native_ppoll_sleep", "rb_sigwait_sleep"];

/// True if the wait is a sleep.
pub(crate) fn is_sleep<'n>(names: impl IntoIterator<Item = &'n str>) -> bool {
    let begins = |name: &str, with: &[&str]| with.iter().any(|begin| name.starts_with(begin));
    let mut names = names.into_iter().peekable();
    let mut waits = 0;
    while names.next_if(|name| is_locking(name) || begins(name, RUBY_POLLS)).is_some() {
        waits += 1;
    }
    let sleeps = waits > 0 && names.next().is_some_and(|name| begins(name, SLEEPS));
    sleeps && names.nth(1) != Some(RUBY_FOR_CONDITION)
}

/// Position of the function, innermost first, in which the wait for another thread's work begins: the outermost
/// function of a locking library, called by the program. `None` if the wait is for a lock, or if these functions don't
/// show the reason.
pub(crate) fn waits_for_work<'n>(names: impl IntoIterator<Item = &'n str>) -> Option<usize> {
    let (locking, caller) = locking_and_caller(names);
    let is_lock = is_for_lock(&locking, caller) || is_python_lock(&locking, caller);
    let is_for_work = has_part(&locking, FOR_WORK) && !is_lock;
    is_for_work.then(|| locking.len() - 1)
}

/// True if it is all others that are waited for.
pub(crate) fn waits_for_all<'n>(names: impl IntoIterator<Item = &'n str>) -> bool {
    has_part(&names.into_iter().take_while(|name| is_locking(name)).collect::<Vec<_>>(), FOR_ALL)
}

fn has_part(names: &[&str], parts: &[&str]) -> bool {
    names.iter().any(|name| parts.iter().any(|part| name.contains(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(names: &str) -> Option<usize> {
        waits_for_work(names.split('|'))
    }

    #[test]
    fn entering_a_java_monitor_is_a_wait_for_a_lock_and_being_notified_is_one_for_work() {
        let park = "__futex_abstimed_wait_common|pthread_cond_wait@@GLIBC_2.3.2|os::PlatformEvent::park";
        let enter = "ObjectMonitor::EnterI|ObjectMonitor::enter|ObjectSynchronizer::enter";
        assert_eq!(work(&format!("{park}|{enter}|SharedRuntime::monitor_enter_helper|[JIT]")), None);
        assert_eq!(
            work(&format!("{park}|ObjectMonitor::wait|ObjectSynchronizer::wait|JVM_MonitorWait")),
            Some(4)
        );
        // After Object.wait() the lock is to be had again.
        assert_eq!(
            work(&format!("{park}|ObjectMonitor::ReenterI|ObjectMonitor::wait|JVM_MonitorWait")),
            None
        );
        assert!(is_sleep(format!("{park}|JavaThread::sleep(long)|JVM_Sleep").split('|')));
        assert!(!is_sleep(format!("{park}|ObjectMonitor::wait|JVM_MonitorWait").split('|')));
        let inside = "pthread_cond_timedwait|os::PlatformMonitor::wait|Monitor::wait|CompileQueue::get";
        assert_eq!(work(inside), Some(2));
    }

    #[test]
    fn parking_for_a_java_lock_is_a_wait_for_a_lock_and_parking_for_a_queue_is_one_for_work() {
        let park = "pthread_cond_wait@@GLIBC_2.3.2|Parker::park|Unsafe_Park|void jdk.internal.misc.Unsafe.park(boolean, long)|\
                    void java.util.concurrent.locks.LockSupport.park(java.lang.Object)";
        let queued = "int java.util.concurrent.locks.AbstractQueuedSynchronizer.acquire(java.util.Node, int)";
        let condition = "void java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject.await()";
        let latch = "void java.util.concurrent.CountDownLatch.await()";
        assert_eq!(work(&format!("{park}|{queued}|void Shop.sell(int)")), None);
        assert_eq!(work(&format!("{park}|{condition}|void Shop.take(int)")), Some(5));
        assert_eq!(work(&format!("{park}|{queued}|{condition}|void Shop.take(int)")), None);
        assert_eq!(work(&format!("{park}|{queued}|{latch}|void Shop.main(int)")), Some(6));
        assert_eq!(work("pthread_cond_wait@@GLIBC_2.3.2|Parker::park|Unsafe_Park|[JIT]"), Some(2));
        assert_eq!(java_method("void Shop.sell(int, long)"), Some("Shop.sell"));
        assert_eq!(java_method("Shop.sell(int, long)"), Some("Shop.sell"));
        assert_eq!(java_method("void std::sort(int *, long)"), None);
        assert_eq!(java_method("Condition.wait (threading.py)"), None);
        assert!(waits_for_lock_by_condition(format!("{park}|{queued}|Interpreter").split('|')));
    }

    #[test]
    fn a_thread_of_go_without_a_goroutine_is_idle_unless_the_collector_stopped_it() {
        let idle = |names: &str| is_idle_in_go(names.split('|'));
        let park = "runtime.futex.abi0|runtime.notesleep|runtime.mPark|runtime.stopm";
        assert!(idle(&format!("{park}|runtime.findRunnable|runtime.schedule|runtime.mcall")));
        assert!(idle("runtime.usleep.abi0|runtime.sysmon|runtime.mstart1"));
        assert!(!idle(&format!("{park}|runtime.gcstopm|runtime.schedule")));
        assert!(!idle("runtime.futex.abi0|runtime.lock2|runtime.schedule"));
    }

    #[test]
    fn the_interpreter_s_lock_is_none_of_the_program_s_conditions() {
        let wait = "__futex_abstimed_wait_common|pthread_cond_timedwait@@GLIBC_2.3.2";
        assert_eq!(work(&format!("{wait}|take_gil|spin (gil.py)|start_thread")), None);
        assert!(waits_for_lock_by_condition(format!("{wait}|take_gil|spin (gil.py)").split('|')));
        let queue = "__new_sem_wait_slow64|PyThread_acquire_lock_timed|Condition.wait (threading.py)";
        assert!(!waits_for_lock_by_condition(queue.split('|')));
        assert_eq!(work(queue), Some(1));
        assert!(!waits_for_lock_by_condition("take_gil|spin (gil.py)".split('|')));
        let for_gil = |names: &str| waits_for_gil(names.split('|'));
        assert!(for_gil(&format!("{wait}|take_gil|spin (gil.py)")) && !for_gil("take_gil|spin (gil.py)"));
        assert!(!for_gil("__new_sem_wait_slow64|PyThread_acquire_lock_timed|put (queue.py)"));
    }

    /// Source: Ruby 3.1 and 3.3 thread_pthread.c.
    #[test]
    fn threads_of_ruby_wait_for_its_global_lock_unless_they_sleep_or_take_a_mutex() {
        let wait = "__futex_abstimed_wait_common|pthread_cond_wait@@GLIBC_2.3.2|rb_native_cond_wait";
        let for_gil = |names: &str| waits_for_gil(format!("{wait}|{names}").split('|'));
        assert!(for_gil("gvl_acquire_common|native_sleep|sleep_forever"));
        assert!(for_gil("gvl_yield|rb_threadptr_execute_interrupts|rb_vm_exec"));
        assert!(for_gil("thread_sched_wait_running_turn|thread_sched_to_running_common"));
        let timed = "pthread_cond_timedwait|native_cond_timedwait|do_gvl_timer|gvl_acquire_common";
        assert!(waits_for_gil(timed.split('|')));
        let mutex = "native_sleep|do_mutex_lock|rb_mutex_lock|hold";
        assert!(!for_gil(mutex) && !for_gil("queue_sleep|rb_ensure"));
        assert!(waits_for_lock_by_condition(format!("{wait}|{mutex}").split('|')));
        // From 3.3 on, threads that sleep wait for their turn in the same function.
        assert!(for_gil("thread_sched_wait_running_turn|thread_sched_yield|rb_thread_schedule"));
        assert!(!for_gil("thread_sched_wait_running_turn|thread_sched_to_waiting_until_wakeup|native_sleep"));
        assert_eq!(work(&format!("{wait}|gvl_acquire_common|gvl_yield")), None);
    }

    #[test]
    fn ruby_sleeps_on_a_condition_or_by_polling_its_own_pipe() {
        let sleeps = |names: &str| is_sleep(names.split('|'));
        let by_condition = "pthread_cond_timedwait|native_cond_timedwait|native_cond_sleep|native_sleep";
        let by_poll = "ppoll|native_ppoll_sleep|native_sleep";
        for wait in [by_condition, by_poll] {
            assert!(sleeps(&format!("{wait}|sleep_hrtime|rb_f_sleep|vm_call_cfunc")));
            assert!(!sleeps(&format!("{wait}|sleep_hrtime|mutex_sleep_begin|rb_ensure|rb_mutex_sleep")));
            assert!(!sleeps(&format!("{wait}|thread_join_sleep|rb_ensure")));
        }
        assert!(!sleeps("ppoll|rb_wait_for_single_fd") && !sleeps("sleep_hrtime|rb_f_sleep"));
    }

    #[test]
    fn a_lock_that_a_python_function_takes_is_one_and_what_wakes_a_condition_is_none() {
        let take = "__new_sem_wait_slow64|PyThread_acquire_lock_timed";
        let with_symbols = format!("{take}|acquire_timed|lock_PyThread_acquire_lock");
        for take in [take, &with_symbols] {
            assert_eq!(work(&format!("{take}|hold (app.py)|Thread.run (threading.py)")), None);
            assert_eq!(
                work(&format!("{take}|Condition.__enter__ (threading.py)|Queue.put (queue.py)")),
                None
            );
            assert!(work(&format!("{take}|Condition.wait (threading.py)|Queue.get (queue.py)")).is_some());
            assert!(work(&format!("{take}|Thread._wait_for_tstate_lock (threading.py)")).is_some());
            assert!(
                work(&format!("{take}|_wait_for_tstate_lock (threading.py)|join (threading.py)")).is_some()
            );
            assert_eq!(work(&format!("{take}|wait (app.py)")), None);
            assert!(work(&format!("{take}|_queue_SimpleQueue_get_impl|_worker (thread.py)")).is_some());
        }
        assert!(!waits_for_lock_by_condition(format!("{take}|hold (app.py)").split('|')));
        // From 3.13 on a join waits for an event; in a stripped interpreter its function has no name.
        let parked = "__internal_syscall_cancel|_PySemaphore_Wait";
        assert_eq!(work(&format!("{parked}|waiter (lock.py)|Thread.run (threading.py)")), None);
        assert!(work(&format!("{parked}|Thread.join (threading.py)|<module> (lock.py)")).is_some());
        let event = format!("{parked}|_PyParkingLot_Park|PyEvent_WaitTimed|ThreadHandle_join");
        assert!(work(&format!("{event}|Thread.join (threading.py)")).is_some());
    }

    #[test]
    fn an_idle_thread_of_go_that_is_woken_by_an_unlock_waited_for_the_lock() {
        let idle = "runtime.futex.abi0|runtime.notesleep|runtime.mPark|runtime.stopm|runtime.findRunnable|runtime.mcall";
        let ready = "runtime.futexwakeup|runtime.ready|runtime.systemstack.abi0|runtime.semrelease1";
        let unlock = "internal/sync.(*Mutex).unlockSlow|internal/sync.(*Mutex).Unlock|sync.(*Mutex).Unlock";
        let of = |wait: &'static str, waker: &str| {
            go_lock(wait.split('|'), waker.split('|')).map(|(holder, by)| format!("{holder} {by}"))
        };
        let path = "main.sell.deferwrap1|main.sell|main.serve|runtime.goexit.abi0";
        assert_eq!(of(idle, &format!("{ready}|{unlock}|{path}")).as_deref(), Some("main.sell main.serve"));
        assert_eq!(of(idle, &format!("{ready}|runtime.chansend1|main.put")), None);
        assert_eq!(of("runtime.futex.abi0|runtime.lock2", &format!("{ready}|{unlock}|{path}")), None);
    }

    #[test]
    fn conditions_joins_and_channels_are_waits_for_work_and_locks_are_none() {
        assert_eq!(work("__futex_abstimed_wait_common|pthread_cond_wait@@GLIBC_2.3.2|take|worker"), Some(1));
        let condvar =
            "pthread_cond_wait|std::condition_variable::wait(std::unique_lock<std::mutex>&)|Pool::take";
        assert_eq!(work(condvar), Some(1));
        assert_eq!(work("syscall|<std::sync::mpmc::list::Channel<Job>>::recv::{closure#1}|serve"), Some(1));
        assert_eq!(work("runtime.futex.abi0|runtime.futexsleep|runtime.notesleep|runtime.mPark"), Some(2));
        assert_eq!(work("__lll_lock_wait|pthread_mutex_lock|take|worker"), None);
        for lock in [
            "__futex_lock_pi64|__pthread_mutex_lock_full",
            "sccp|__timedwait_cp|__timedwait|__pthread_mutex_timedlock",
            "__wait|__lock",
        ] {
            let names: &str = &format!("{lock}|take|worker");
            assert_eq!((names.split('|').find(|name| !is_locking(name)), work(names)), (Some("take"), None));
        }
        assert_eq!(work("sccp|__timedwait_cp|__pthread_cond_timedwait|take|start"), Some(2));
        assert_eq!(work("syscall|parking_lot::raw_mutex::RawMutex::lock_slow|put"), None);
        // The lock inside a channel of the program's own, or of one that was only called on the way.
        assert_eq!(
            work("syscall|<std::sys::sync::mutex::futex::Mutex>::lock_contended|tokio::sync::mpsc::send"),
            None
        );
        assert!(waits_for_all("futex_wait|pthread_barrier_wait@GLIBC_2.2.5|step".split('|')));
        assert!(!waits_for_all("futex_wait|pthread_cond_wait|Barrier_user".split('|')));
    }
}
