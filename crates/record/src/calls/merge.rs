//! Events of several rings, in the order of their times.

use super::layout::CallEvent;

/// Events that wait until all that came before them is there.
#[derive(Default)]
pub struct Merge {
    pending: Vec<CallEvent>,
}

impl Merge {
    /// Takes events, in the order of their ring.
    pub fn extend(&mut self, events: impl IntoIterator<Item = CallEvent>) {
        self.pending.extend(events);
    }

    /// Those that came before that time, in order; where times are equal, in that of their rings.
    pub fn emit(&mut self, before_ns: u64) -> std::vec::Drain<'_, CallEvent> {
        self.pending.sort_by_key(|event| event.time_ns);
        let ready = self.pending.partition_point(|event| event.time_ns < before_ns);
        self.pending.drain(..ready)
    }
}
