//! One thread's state machine.

use crate::{SchedInterval, ThreadState};

/// How far the current state is known.
#[derive(Debug, Clone, Copy)]
enum Certainty<B> {
    /// An event reported it.
    Reported,
    /// Assumed until the first switch. A thread that leaves first was running; one that enters first was this.
    Assumed(ThreadState<B>),
    /// Events were lost since it was reported.
    Doubtful,
}

/// One thread's wall clock, fed with its switches and wake-ups in time order. An event with an earlier time than the
/// current interval's begin counts as one at that begin.
///
/// A switch-in without its switch-out, or the other way round, is a lost event: the time between is
/// [`ThreadState::Unknown`].
#[derive(Debug)]
pub struct ThreadTimeline<B, W> {
    begin_ns: u64,
    state: ThreadState<B>,
    certainty: Certainty<B>,
    /// Time and sender of the first wake-up in this interval.
    wake: Option<(u64, W)>,
    /// The thread that took the CPU at the last switch-out.
    successor: Option<W>,
}

impl<B: Copy, W> ThreadTimeline<B, W> {
    /// Begins at `time_ns` in a state that an event reported.
    pub fn new(time_ns: u64, state: ThreadState<B>) -> Self {
        Self { begin_ns: time_ns, state, certainty: Certainty::Reported, wake: None, successor: None }
    }

    /// Begins at `time_ns` with a thread that no switch was seen of: it counts as in state `meanwhile`. If its first
    /// switch is a switch-out, it was running; if a switch-in, it was in state `if_enters`.
    pub fn assumed(time_ns: u64, meanwhile: ThreadState<B>, if_enters: ThreadState<B>) -> Self {
        Self { certainty: Certainty::Assumed(if_enters), ..Self::new(time_ns, meanwhile) }
    }

    /// The current state, as known now.
    pub fn state(&self) -> ThreadState<B> {
        self.state
    }

    /// True until the first switch of a thread that began with an assumed state.
    pub fn is_assumed(&self) -> bool {
        matches!(self.certainty, Certainty::Assumed(_))
    }

    /// Begin of the current interval, ns.
    pub fn begin_ns(&self) -> u64 {
        self.begin_ns
    }

    /// Leaves its CPU for `state`; `next` is the thread that runs instead. Returns the time on the CPU that ends.
    pub fn leave(&mut self, time_ns: u64, state: ThreadState<B>, next: Option<W>) -> SchedInterval<B, W> {
        let ran = match (self.certainty, self.state) {
            (Certainty::Assumed(_), _) | (Certainty::Reported, ThreadState::Running) => ThreadState::Running,
            _ => ThreadState::Unknown,
        };
        let ended = self.undivided(ran, time_ns);
        self.begin(ended.end_ns, state);
        self.successor = next;
        ended
    }

    /// Is woken by `by`. Counts if the thread waits for an event and wasn't woken before.
    pub fn wake(&mut self, time_ns: u64, by: W) {
        if !self.state.is_ready() && self.wake.is_none() {
            self.wake = Some((time_ns, by));
        }
    }

    /// Time in ns and sender of the wake-up that counts, if there was one in this interval.
    pub fn pending_wake(&mut self) -> Option<(u64, &mut W)> {
        self.wake.as_mut().map(|(time_ns, by)| (*time_ns, by))
    }

    /// Gets a CPU. Returns the wait that ends; unknown time if the thread was running already.
    pub fn enter(&mut self, time_ns: u64) -> SchedInterval<B, W> {
        match (self.certainty, self.state) {
            (Certainty::Assumed(state), _) => self.state = state,
            (_, ThreadState::Running) => self.state = ThreadState::Unknown,
            _ => {}
        }
        let ended = self.finish(time_ns);
        self.begin(ended.end_ns, ThreadState::Running);
        ended
    }

    /// Events were lost: the state is unknown until the next switch.
    pub fn lose(&mut self) {
        self.certainty = Certainty::Doubtful;
    }

    /// Returns the current interval as ended at `time_ns`: the thread's end, or the recording's. Its wake-up is taken
    /// out.
    pub fn finish(&mut self, time_ns: u64) -> SchedInterval<B, W> {
        if matches!(self.certainty, Certainty::Doubtful) {
            return self.undivided(ThreadState::Unknown, time_ns);
        }
        let mut ended = self.undivided(self.state, time_ns);
        ended.cause = match self.wake.take() {
            Some((wake_ns, by)) => {
                ended.ready_ns = wake_ns.clamp(ended.begin_ns, ended.end_ns);
                Some(by)
            }
            None => self.successor.take(),
        };
        ended
    }

    fn undivided(&self, state: ThreadState<B>, time_ns: u64) -> SchedInterval<B, W> {
        let end_ns = time_ns.max(self.begin_ns);
        SchedInterval { state, begin_ns: self.begin_ns, ready_ns: end_ns, end_ns, cause: None }
    }

    fn begin(&mut self, time_ns: u64, state: ThreadState<B>) {
        *self = Self::new(time_ns, state);
    }
}

#[cfg(test)]
mod tests;
