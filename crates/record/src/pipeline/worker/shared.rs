//! Data shared by the thread that records and the one that unwinds.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};

use crate::off_cpu::Feedback;
use crate::open::Dropped;
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
            ended_ns: Arc::default(),
            gives_up: Arc::default(),
            wanted_step: Arc::default(),
            hurry: Arc::default(),
            off_cpu: Arc::default(),
            must_stop: Arc::default(),
            snapshot: Arc::default(),
            dropped: Arc::default(),
        }
    }
}
