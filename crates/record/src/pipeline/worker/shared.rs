//! Data shared by the thread that records and the one that unwinds.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::off_cpu::{Feedback, SharedDescriptors};
use crate::open::Dropped;
use crate::open::target::Whom;
use crate::pipeline::queue::Queue;

/// Messages between the recording thread and the worker.
#[derive(Debug, Clone)]
pub struct Shared {
    /// The records on their way to the worker.
    pub queue: Queue,
    /// The moment from which time is counted, in ns; 0 while it has not come.
    pub started_ns: Arc<AtomicU64>,
    /// The moment by which the command ran, in ns; 0 while it does not, or where there is none.
    pub runs_ns: Arc<AtomicU64>,
    /// The command's process id; 0 where there is no command.
    pub command: Arc<AtomicU32>,
    /// When the command began to run, in ns of the recording's clock; 0 while it has not.
    pub command_exec_ns: Arc<AtomicU64>,
    /// When the command's last thread so far exited, in ns of the recording's clock; 0 while none has.
    pub command_exit_ns: Arc<AtomicU64>,
    /// The moment up to which time is counted, in ns; 0 while it has not come.
    pub ended_ns: Arc<AtomicU64>,
    /// The user won't wait for stacks that are still to be unwound.
    pub gives_up: Arc<AtomicBool>,
    /// The snapshot step the worker wants.
    pub wanted_step: Arc<AtomicUsize>,
    /// Stacks are deeper than their copies: records should come quickly (0: no, 1: soon, 2: at once).
    pub hurry: Arc<AtomicUsize>,
    /// Feedback for the off-CPU engine.
    pub off_cpu: Arc<Feedback>,
    /// Descriptors that threads wait for; empty without off-CPU time.
    pub descriptors: Arc<OnceLock<SharedDescriptors>>,
    /// Samples that reached the output so far.
    pub samples: Arc<AtomicU64>,
    /// Writing has failed or reached its limit: recording should end.
    pub must_stop: Arc<AtomicBool>,
    /// Records received so far become a file of their own.
    pub snapshot: Arc<AtomicBool>,
    /// Records that the kernel reports as dropped at the end, by opened event.
    pub dropped: Arc<Mutex<Vec<Dropped>>>,
}

impl Shared {
    /// Around this queue; nothing has begun.
    #[must_use]
    pub fn new(queue: Queue) -> Self {
        Self {
            queue,
            started_ns: Arc::default(),
            runs_ns: Arc::default(),
            command: Arc::default(),
            command_exec_ns: Arc::default(),
            command_exit_ns: Arc::default(),
            ended_ns: Arc::default(),
            gives_up: Arc::default(),
            wanted_step: Arc::default(),
            hurry: Arc::default(),
            off_cpu: Arc::default(),
            descriptors: Arc::default(),
            samples: Arc::default(),
            must_stop: Arc::default(),
            snapshot: Arc::default(),
            dropped: Arc::default(),
        }
    }

    /// This process executes a program.
    pub fn exec_of_process(&self, pid: u32, time_ns: u64) {
        if self.is_command(pid) {
            // Scripts and wrappers execute others.
            let _ = self.command_exec_ns.compare_exchange(0, time_ns, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// A thread of this process exited.
    pub fn exit_of_process(&self, pid: u32, time_ns: u64) {
        if self.is_command(pid) {
            self.command_exit_ns.fetch_max(time_ns, Ordering::AcqRel);
        }
    }

    fn is_command(&self, pid: u32) -> bool {
        pid != 0 && pid == self.command.load(Ordering::Acquire)
    }

    /// How long was recorded by `ended_ns`, in ns: while a command of its own ran, else from the moment that time counts.
    /// `None` where that is not known.
    #[must_use]
    pub fn recorded_ns(&self, whom: &Whom, ended_ns: u64) -> Option<u64> {
        // For other threads, time before the command began and after it ended counts, too.
        let ran_ns = if *whom == Whom::Command { self.command_ran_ns() } else { None };
        let started_ns = self.started_ns.load(Ordering::Acquire);
        ran_ns.or_else(|| ended_ns.checked_sub(started_ns).filter(|_| started_ns != 0))
    }

    /// How long the command ran, in ns; `None` where its begin or its end was not recorded. On a busy machine we wait
    /// for a CPU before we start it, and before we notice its end.
    fn command_ran_ns(&self) -> Option<u64> {
        let [begin, end] =
            [&self.command_exec_ns, &self.command_exit_ns].map(|time| time.load(Ordering::Acquire));
        if begin == 0 { None } else { end.checked_sub(begin) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::queue::Limits;

    #[test]
    fn a_command_runs_from_its_first_exec_to_the_exit_of_its_last_thread() {
        let folder = std::env::temp_dir();
        let shared = Shared::new(Queue::new(&folder, Limits::for_dir(&folder)));
        shared.exec_of_process(7, 50);
        shared.exit_of_process(7, 100);
        assert_eq!(shared.command_ran_ns(), None, "no command");
        shared.command.store(7, Ordering::Release);
        shared.exec_of_process(8, 100);
        shared.exec_of_process(7, 120);
        assert_eq!(shared.command_ran_ns(), None, "it still runs");
        shared.exec_of_process(7, 180);
        shared.exit_of_process(7, 200);
        shared.exit_of_process(8, 450);
        shared.exit_of_process(7, 300);
        assert_eq!(shared.command_ran_ns(), Some(180));
        shared.started_ns.store(40, Ordering::Release);
        assert_eq!(shared.recorded_ns(&Whom::Command, 900), Some(180));
        assert_eq!(shared.recorded_ns(&Whom::System, 900), Some(860), "as long as others were recorded");
    }
}
