//! `tally calls`: exact counts and times of traced calls.
//!
//! [`record`] starts the program with the tracer in it, [`session`] probes it from outside; [`open`] opens what they
//! wrote; the others render what the crate `calls` made of it.

pub mod addresses;
pub mod diff;
pub mod flame;
pub mod function_list;
pub mod graph;
pub mod info;
pub mod kernel;
pub mod late_objects;
mod launch;
pub mod live;
pub mod log;
mod observer;
pub mod open;
pub mod overhead;
pub mod own_folder;
pub mod preloaded_tracer;
pub mod probe_args;
pub mod probe_filters;
mod probe_selection;
mod probes;
mod pt_notes;
pub mod pt_packets;
pub mod rate_limiter;
pub mod record;
pub mod record_spec;
pub mod script_follower;
pub mod session;
pub mod size_watchdog;
mod slow_folder;
mod slow_pane;
mod summary;
pub mod switches;
pub mod table;
pub mod totals;
pub mod trace_args;
pub mod view_args;
