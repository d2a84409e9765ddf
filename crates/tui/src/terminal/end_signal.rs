//! The signal that ends a view, noted by whoever waits for signals.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// The number of the signal that came, 0 before. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct EndSignal(Arc<AtomicI32>);

impl EndSignal {
    /// Notes that this signal came: the view ends.
    pub fn note(&self, number: i32) {
        self.0.store(number, Ordering::Relaxed);
    }

    /// The number of the signal that came, `None` before.
    #[must_use]
    pub fn came(&self) -> Option<i32> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&number| number != 0)
    }
}
