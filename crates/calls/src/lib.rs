//! Traced calls, whichever tracer saw them: recordings read and replayed, functions selected and probed, calls summed up.
//!
//! **Duties.** Replay a thread's entries and exits into a tree of calls with counts and times ([`model`]). Read what
//! tracers wrote: the folders of tally ([`recording`]) and uftrace ([`uftrace`]), and Intel PT's traces ([`pt`]). Find
//! the instrumentation and the values of programs ([`instrumented`], [`values`]). Decide which functions and calls a
//! user selects ([`selection`]), where they are to be probed ([`probing`]), and sum up the selected ones ([`view`]).
//!
//! **Excluded.** No flags, no printing, no system calls except to read files.
//!
//! Replay a thread's steps into counts and times:
//!
//! ```
//! use calls::model::{Asked, CallProfile, FunctionId, Replay, ReplayGate, Step};
//!
//! let (main, work) = (FunctionId(0), FunctionId(1));
//! let mut replay = Replay::new(CallProfile::new(1, 0), ReplayGate::new(None, Asked::default()));
//! for (time_ns, step) in [
//!     (100, Step::Enter(main)),
//!     (110, Step::Enter(work)),
//!     (150, Step::Exit(0)),
//!     (200, Step::Exit(0)),
//! ] {
//!     replay.step(time_ns, step, &mut |call| println!("{:?}: {} ns", call.function, call.total_ns));
//! }
//! let profile = replay.finish(&mut |_| {});
//! let (_, totals) = profile.functions().find(|(function, _)| *function == main).expect("called");
//! assert_eq!((totals.count, totals.total_ns, totals.self_ns), (1, 100, 60));
//! ```
#![forbid(unsafe_code)]

mod error;
#[doc(hidden)]
pub mod fuzz;
pub mod instrumented;
pub mod model;
pub mod probing;
pub mod pt;
pub mod recording;
pub mod selection;
pub mod uftrace;
pub mod values;
pub mod view;

pub use error::{Error, Result};
