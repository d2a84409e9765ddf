//! How much of a thread's stack the kernel copies at a sample: more where copies are too short.

use std::sync::atomic::Ordering;

use super::Shared;

/// Samples over which truncated stacks are counted.
const LADDER_WINDOW: u32 = 256;

/// Number of truncated stacks in a window that is more than chance.
const LADDER_CUTS: u32 = 3;

/// The plan's steps of snapshot sizes, and the stacks seen at the present one.
pub(super) struct SnapshotLadder {
    steps: usize,
    /// Stacks in the present window.
    seen: u32,
    /// The truncated ones among them.
    cut: u32,
}

impl SnapshotLadder {
    pub(super) fn new(steps: usize) -> Self {
        Self { steps, seen: 0, cut: 0 }
    }

    /// Counts one stack. Asks for larger snapshots once more than one stack of a hundred was cut, and meanwhile for
    /// quicker looks at the rings: what is read from a thread's memory must still be the stack that was copied.
    pub(super) fn count(&mut self, was_cut: bool, shared: &Shared) {
        self.seen += 1;
        self.cut += u32::from(was_cut);
        let many = self.cut >= LADDER_CUTS && self.cut * 100 > self.seen;
        if many {
            let step = shared.wanted_step.load(Ordering::Relaxed);
            let top = self.steps.saturating_sub(1);
            shared.wanted_step.store((step + 1).min(top), Ordering::Relaxed);
            shared.hurry.store(if step >= top { 2 } else { 1 }, Ordering::Relaxed);
        } else if self.seen >= LADDER_WINDOW {
            shared.hurry.store(0, Ordering::Relaxed);
        } else {
            return;
        }
        (self.seen, self.cut) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::pipeline::queue::{Limits, Queue};

    #[test]
    fn three_cut_stacks_ask_for_the_next_step_and_a_window_without_takes_the_hurry_back() {
        let dir = Path::new("/tmp");
        let shared = Shared::new(Queue::new(dir, Limits::for_dir(dir)));
        let asked = || (shared.wanted_step.load(Ordering::Relaxed), shared.hurry.load(Ordering::Relaxed));
        let mut ladder = SnapshotLadder::new(3);
        (0..2).for_each(|_| ladder.count(true, &shared));
        assert_eq!(asked(), (0, 0), "two may be chance");
        ladder.count(true, &shared);
        assert_eq!(asked(), (1, 1));
        (0..6).for_each(|_| ladder.count(true, &shared));
        assert_eq!(asked(), (2, 2), "no step is above the last");
        (0..LADDER_WINDOW).for_each(|_| ladder.count(false, &shared));
        assert_eq!(asked(), (2, 0));
    }
}
