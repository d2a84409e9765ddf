//! `tally calls`: exact counts and times of traced calls.
//!
//! [`record`] starts the program with the recorder in it; [`folder`] reads what that wrote; [`names`] turns
//! addresses into functions; the others render what `profile::calls` made of it.

pub mod addresses;
pub mod choose;
pub mod chosen;
pub mod diff;
pub mod flame;
pub mod folder;
pub mod formats;
pub mod function_filter;
pub mod graph;
pub mod imports;
pub mod kernel;
pub mod live;
pub mod log;
pub mod named;
pub mod names;
pub mod objects;
pub mod open;
pub mod opened;
pub mod pattern;
pub mod probe_args;
pub mod probe_filters;
mod probes;
pub mod pt;
pub mod pt_packets;
pub mod record;
pub mod reported;
mod return_probes;
mod rules;
pub mod scripts;
pub mod session;
mod shadow_stack;
pub mod sleds;
pub mod slow_call;
mod slow_folder;
mod slow_pane;
mod source_files;
pub mod spans;
mod starts;
pub mod switch;
pub mod switches;
pub mod syscalls;
pub mod table;
pub mod tail;
pub mod totals;
pub mod trace_args;
pub mod track;
pub mod trigger;
pub mod uftrace;
pub mod values;
pub mod view;
pub mod view_args;
pub mod watch;
