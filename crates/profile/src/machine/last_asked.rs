//! The process and the thread asked for last: samples of one thread follow each other.

use super::{ProcessId, ThreadId};

/// Answers that hold until ids are given to others.
#[derive(Clone, Debug, Default)]
pub(super) struct LastAsked {
    process: Option<(i32, ProcessId)>,
    thread: Option<(i32, i32, ThreadId)>,
}

impl LastAsked {
    /// The process, if `pid` is the one asked for last.
    pub fn process(&self, pid: i32) -> Option<ProcessId> {
        self.process.filter(|(last, _)| *last == pid).map(|(_, id)| id)
    }

    /// The thread, if it is the one asked for last.
    pub fn thread(&self, pid: i32, tid: i32) -> Option<ThreadId> {
        self.thread.filter(|last| (last.0, last.1) == (pid, tid)).map(|(.., id)| id)
    }

    /// Remembers a process.
    pub fn keep_process(&mut self, pid: i32, id: ProcessId) {
        self.process = Some((pid, id));
    }

    /// Remembers a thread.
    pub fn keep_thread(&mut self, pid: i32, tid: i32, id: ThreadId) {
        self.thread = Some((pid, tid, id));
    }
}

#[cfg(test)]
mod tests {
    use super::super::MachineState;

    #[test]
    fn numbers_that_are_used_again_are_of_others() {
        let mut machine = MachineState::default();
        machine.thread_of(1, 1);
        let before = machine.process_of(7);
        assert_eq!(machine.process_of(7), before);
        machine.fork((7, 7), (1, 1), false);
        assert_ne!(machine.process_of(7), before);
        let [first, second] = [1, 7].map(|pid| machine.thread_of(pid, 9));
        assert_ne!(first, second);
        assert_eq!(machine.thread_of(7, 9), second);
    }
}
