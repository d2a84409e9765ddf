//! A folder with profiles of many machines: where each interval is, which ones a question is about, and the sums of all.
//!
//! Pure: the caller lists folders and opens files.

mod functions;
mod layout;
mod ledger;
mod merge;
pub mod screen;
mod service;

pub use functions::{FunctionSum, WaitSum, functions, waits};
pub use layout::{DAY_FOLDER, FleetFilter, IntervalKey, moment_of, moment_text, seconds_of};
pub use ledger::Ledger;
pub use merge::{FleetProfiles, stored, without_idle};
pub use service::{is_kernel_thread, service_of_cgroup};
