//! Traced calls, whichever tracer saw them.
//!
//! **Duties.** Replay a thread's entries and exits into a tree of calls with counts and times ([`model`]). Read what
//! tracers wrote: the folders of tally ([`recording`]) and uftrace ([`uftrace`]), and Intel PT's traces ([`pt`]). Find
//! the instrumentation and the values of programs ([`instrumented`], [`values`]). Decide which functions and calls a
//! user selects ([`selection`]), and sum up the selected ones ([`view`]).
//!
//! **Excluded.** No flags, no printing, no system calls except to read files.
#![forbid(unsafe_code)]

mod error;
#[doc(hidden)]
pub mod fuzz;
pub mod instrumented;
pub mod model;
pub mod pt;
pub mod recording;
pub mod selection;
pub mod uftrace;
pub mod values;
pub mod view;

pub use error::{Error, Result};
