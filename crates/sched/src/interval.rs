//! Intervals between two switches, and their parts.

/// How a thread spends its time. `B` is the caller's kind of blocking: sleeping, uninterruptible, stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadState<B> {
    /// On a CPU.
    Running,
    /// Woken and waiting for a CPU.
    Runnable,
    /// Still runnable; another thread was given the CPU.
    Preempted,
    /// Waiting for an event.
    Blocked(B),
    /// An event is missing: nobody knows.
    Unknown,
}

impl<B> ThreadState<B> {
    /// True if a wake-up can't be meant for a thread in this state: it doesn't wait for an event.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self, Self::Running | Self::Runnable | Self::Preempted)
    }
}

/// The caller's own states for those that aren't a kind of blocking.
#[derive(Debug, Clone, Copy)]
pub struct StateNames<S> {
    /// For [`ThreadState::Running`].
    pub running: S,
    /// For [`ThreadState::Runnable`].
    pub runnable: S,
    /// For [`ThreadState::Preempted`].
    pub preempted: S,
    /// For [`ThreadState::Unknown`].
    pub unknown: S,
}

impl<S: Copy + PartialEq> StateNames<S> {
    /// A state that an event reported. The unknown one is a kind of blocking here: the event itself isn't missing.
    pub fn reported(&self, state: S) -> ThreadState<S> {
        match state {
            state if state == self.running => ThreadState::Running,
            state if state == self.runnable => ThreadState::Runnable,
            state if state == self.preempted => ThreadState::Preempted,
            state => ThreadState::Blocked(state),
        }
    }

    /// The caller's state for one of a timeline.
    pub fn name(&self, state: ThreadState<S>) -> S {
        match state {
            ThreadState::Running => self.running,
            ThreadState::Runnable => self.runnable,
            ThreadState::Preempted => self.preempted,
            ThreadState::Blocked(state) => state,
            ThreadState::Unknown => self.unknown,
        }
    }
}

/// Time between two switches of a thread. Times in ns, on the clock of the caller's events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedInterval<B, W> {
    /// The thread's state, until it was woken.
    pub state: ThreadState<B>,
    /// Begin.
    pub begin_ns: u64,
    /// Time of the wake-up: from here on the thread was runnable. The interval's end if no wake-up was seen.
    pub ready_ns: u64,
    /// End, exclusive.
    pub end_ns: u64,
    /// Thread that ended the wait: the waker; without a wake-up, the thread that took the CPU. `None` if neither is
    /// known.
    pub cause: Option<W>,
}

/// A part of an interval that was spent in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatePart<B> {
    /// The state.
    pub state: ThreadState<B>,
    /// Begin, ns.
    pub begin_ns: u64,
    /// End in ns, exclusive.
    pub end_ns: u64,
}

impl<B> StatePart<B> {
    /// Length in ns.
    pub fn length_ns(&self) -> u64 {
        self.end_ns - self.begin_ns
    }
}

impl<B: Copy, W> SchedInterval<B, W> {
    /// Length in ns.
    pub fn length_ns(&self) -> u64 {
        self.end_ns - self.begin_ns
    }

    /// True if a wake-up came before the end.
    pub fn is_woken(&self) -> bool {
        self.ready_ns < self.end_ns
    }

    /// The parts in time order: the interval's state, then runnable if the thread was woken. They cover the interval.
    pub fn parts(&self) -> impl Iterator<Item = StatePart<B>> + use<B, W> {
        let first = StatePart { state: self.state, begin_ns: self.begin_ns, end_ns: self.ready_ns };
        let second = StatePart { state: ThreadState::Runnable, begin_ns: self.ready_ns, end_ns: self.end_ns };
        std::iter::once(first).chain(self.is_woken().then_some(second))
    }
}
