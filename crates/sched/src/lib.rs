//! Context switches and wake-ups → intervals of a thread's wall clock.
//!
//! ```text
//!   leave(state) ── wake(waker) ── enter
//!   └── blocked ────┘└── runnable ──┘└── running …        preempted: leave .. enter
//! ```
//! The one state machine for this: recording uses it on live tracepoints, reading on a file's. It knows times, states
//! and nothing else: no events, stacks, names or files. The types of a blocked state and of a waker are the caller's.
//!
//! Conservation: the intervals of a [`ThreadTimeline`] follow each other without gap from its begin to its end, so running,
//! runnable, preempted, blocked and unknown time add up to the thread's wall time, whatever events are missing.
//!
//! ```
//! use sched::{ThreadState, ThreadTimeline};
//!
//! let mut thread = ThreadTimeline::new(0, ThreadState::Running);
//! let ran = thread.leave(100, ThreadState::Blocked("lock"), None);
//! thread.wake(160, "the lock's holder");
//! let waited = thread.enter(180);
//! assert_eq!((ran.state, ran.length_ns()), (ThreadState::Running, 100));
//! let parts: Vec<_> = waited.parts().map(|part| (part.state, part.length_ns())).collect();
//! assert_eq!(parts, [(ThreadState::Blocked("lock"), 60), (ThreadState::Runnable, 20)]);
//! assert_eq!(waited.cause, Some("the lock's holder"));
//! ```
#![forbid(unsafe_code)]

mod interval;
mod open_calls;
mod timeline;

pub use interval::{SchedInterval, StateNames, StatePart, ThreadState};
pub use open_calls::{OpenCall, OpenCalls};
pub use timeline::ThreadTimeline;
