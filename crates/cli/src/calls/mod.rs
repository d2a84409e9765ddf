//! `tally calls`: exact counts and times of traced calls.
//!
//! [`record`] starts the program with the recorder in it, [`session`] probes it from outside; [`open`] opens what they
//! wrote; the others render what the crate `calls` made of it.

pub mod addresses;
mod closing;
pub mod diff;
pub mod flame;
pub mod graph;
pub mod growth;
pub mod info;
pub mod kernel;
mod launch;
pub mod live;
pub mod log;
pub mod named;
mod observer;
pub mod open;
pub mod opened;
pub mod own_folder;
pub mod price;
pub mod probe_args;
pub mod probe_filters;
mod probe_selection;
mod probes;
mod pt_notes;
pub mod pt_packets;
pub mod record;
pub mod record_spec;
mod recorder;
pub mod scripts;
pub mod session;
mod slow_folder;
mod slow_pane;
pub mod switches;
pub mod table;
pub mod totals;
pub mod trace_args;
pub mod view_args;
pub mod watch;
