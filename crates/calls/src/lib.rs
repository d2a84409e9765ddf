//! Traced calls, whichever tracer saw them.
//!
//! **Duties.** Replay a thread's entries and exits into a tree of calls with counts and times ([`model`]), and turn
//! Intel PT's branches into such steps ([`pt`]).
//!
//! **Excluded.** No flags, no printing, no system calls except to read files.
#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod fuzz;
pub mod model;
pub mod pt;
