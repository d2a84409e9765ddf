//! A thread that must not wait long for a CPU: rings that nobody empties lose what comes.

use std::marker::PhantomData;

/// How soon a thread should get a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rank {
    /// The thread that empties rings. Among hundreds of runnable threads, one of normal priority waits for half a
    /// second at a time; with this one it waits for milliseconds. Its total CPU time isn't higher, because it sleeps
    /// most of the time.
    Reader,
    /// The thread that unwinds. It may have work all the time, and should leave some of a CPU to others. But if it
    /// gets one of hundreds of equal shares, stacks pile up on disk, which costs more than unwinding them.
    Unwinder,
}

impl Rank {
    fn nice(self) -> i32 {
        match self {
            Self::Reader => -15,
            Self::Unwinder => -10,
        }
    }
}

/// Since Linux 6.12 a thread may ask for shorter turns, and gets them sooner: the shortest that there is.
const TURN_NS: u64 = 100_000;

/// While it lives, the thread that made it gets a CPU sooner than others, as far as it has the right: sooner for short
/// turns always, by rank with CAP_SYS_NICE or `ulimit -e`. Threads that it starts meanwhile have its rank as well.
#[derive(Debug)]
pub struct Prompt {
    before: Option<i32>,
    /// It is of one thread: the same that makes it must drop it.
    not_send: PhantomData<*const ()>,
}

impl Prompt {
    /// Sets the priority of the calling thread; a thread with real-time priority is left unchanged.
    #[must_use]
    pub fn begin(rank: Rank) -> Self {
        let nice = nice_of_thread();
        let before = nice.filter(|&nice| set(nice.min(rank.nice()), TURN_NS) || set(nice, TURN_NS));
        Self { before, not_send: PhantomData }
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        if let Some(nice) = self.before {
            // Back to less is always allowed.
            set(nice, 0);
        }
    }
}

/// `None` if it is not of the usual scheduling class.
fn nice_of_thread() -> Option<i32> {
    // SAFETY: takes a plain number; 0 is the calling thread.
    let policy = unsafe { libc::sched_getscheduler(0) };
    // SAFETY: the same.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    (policy == libc::SCHED_OTHER).then_some(nice)
}

/// Takes the rank of the thread that started it from a process whose work can wait.
pub fn calm(pid: u32) {
    const NICE: i32 = 5;
    // SAFETY: takes plain numbers.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, pid, NICE) };
}

/// True if the kernel took it. A turn of 0 is the usual one; kernels that know no turns of a thread's own ignore it.
fn set(nice: i32, turn_ns: u64) -> bool {
    let attr = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER.cast_unsigned(),
        sched_flags: 0,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: turn_ns,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: 0 is the calling thread; `attr` is a live structure of the size in its first field, and is only read.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rank_of_before_comes_back_and_other_threads_keep_theirs() {
        let Some(before) = nice_of_thread() else { return println!("skipped: not of the usual class") };
        let other = std::thread::spawn(nice_of_thread).join().expect("no panic");
        {
            let _prompt = Prompt::begin(Rank::Reader);
            let now = nice_of_thread().expect("still usual");
            if now == before {
                println!("skipped: no right to a better rank");
            }
            assert!(now <= before);
        }
        assert_eq!((nice_of_thread(), other), (Some(before), Some(before)));
    }
}
