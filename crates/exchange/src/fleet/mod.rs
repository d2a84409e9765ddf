//! A folder with profiles of many machines: where each interval is, which ones a question is about, and the sums of all.
//!
//! Pure: the caller lists folders, opens files and asks servers.

pub mod clickhouse;
mod files;
mod functions;
mod layout;
mod ledger;
mod merge;
mod round_length;
mod rounds;
pub mod screen;
mod service;

pub use files::ReadFiles;
pub use functions::{FunctionSum, WaitSum, functions, waits};
pub use layout::{
    FleetFilter, FleetSums, IntervalKey, RECORDINGS, SAMPLES, moment_of, moment_text, seconds_of,
};
pub use ledger::Ledger;
pub use merge::{FleetProfiles, without_idle};
pub use round_length::RoundLength;
pub use rounds::{AgentUse, FailedRounds, SpoolLimits, next_round_s, rounds_missed, sure_now_s};
pub use service::{is_kernel_thread, service_of_cgroup};
