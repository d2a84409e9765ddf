//! Event sources on a live Linux: the room for system calls.
//!
//! The crate opens events, reads their rings, describes the running machine as records, unwinds user stacks while
//! recording, and writes the perf.data file. It doesn't resolve symbols, aggregate or print.
//!
//! `unsafe` is allowed under [`sys`] only.

pub mod account;
pub mod attach;
pub mod bpf_error;
pub mod build_id_cache;
mod build_id_cache_limit;
pub mod calls;
pub mod clocks;
pub mod control;
pub mod count;
pub mod disk_watch;
pub mod doctor;
pub mod drain;
pub mod error;
pub mod event;
pub mod features;
pub mod followed;
pub mod fuzz;
pub mod hotplug;
mod jit_maps;
pub mod join;
pub mod journal;
pub mod objects;
pub mod off_cpu;
pub mod open;
pub mod opts;
pub mod order;
pub mod output;
pub mod output_file;
pub mod part_names;
pub mod parts;
pub mod plan;
pub mod proc;
pub mod process_titles;
pub mod process_tree;
pub mod processes;
pub mod pt;
pub mod queue;
pub mod rights;
pub mod scratch;
pub mod session;
pub mod setup;
pub mod stacks;
pub mod stop_signals;
pub mod summary;
pub mod synthesize;
#[allow(unsafe_code)]
pub mod sys;
pub mod system;
pub mod target;
pub mod totals;
pub mod window;
pub mod worker;

pub use error::Error;
pub use opts::RecordOpts;
pub use session::record;
pub use summary::RunSummary;
pub use target::{Target, Whom};
