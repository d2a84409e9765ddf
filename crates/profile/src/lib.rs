//! The brain: records to machine model to aggregated profile to view rows.
//!
//! **Duties.** Apply state records to a [`machine::Machine`], resolve samples against the state of
//! their moment, intern frames and paths, sum periods in a [`profile::Profile`], and answer views
//! with rows.
//!
//! **Excluded.** No I/O, no clock, no environment, no threads, no dependence on hash order: the same records in give
//! byte-identical rows out. Object files are requested through [`source::DsoSource`]. Work for several threads
//! (unwinding, symbolizing) is handed out in batches that the caller may run anywhere.
#![forbid(unsafe_code)]

pub mod block_io;
pub mod bounds;
pub mod callchain;
#[doc(hidden)]
pub mod fuzz;
pub mod grow;
pub mod lock_events;
pub mod machine;
mod merge;
pub mod off_cpu;
pub mod precise;
pub mod profile;
pub mod reason;
pub mod sched_events;
pub mod session;
pub mod source;
pub mod symbolize;
pub mod table;
pub mod verdict;
pub mod view;

pub use profile::Profile;
pub use session::Session;
